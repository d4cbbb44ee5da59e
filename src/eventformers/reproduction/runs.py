"""Training runs of reproduced tables: what decides their outcome, and how each is trained once."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path

from eventformers.datasets_scripts.building import built_report
from eventformers.datasets_scripts.chain_settings import CHAIN_SETTINGS
from eventformers.datasets_scripts.fingerprints import joint_fingerprint
from eventformers.evaluation.training_runs import SAMPLES
from eventformers.files import staged_folder, write_text
from eventformers.loading.encoders import PACKAGED_ENCODER
from eventformers.locks import one_writer
from eventformers.methods import Method, load_method
from eventformers.reproduction.rows import Reproduction, Run, identity_digest, read_record, slug
from eventformers.trainers.checkpoints import (
    RUN_FILE,
    STAGE_FILE,
    STAGES_FOLDER,
    can_resume,
    remove_checkpoints,
)
from eventformers.trainers.recipes import Recipe, list_recipes, load_recipe
from eventformers.trainers.run import accepted_keys, resolve_recipe
from eventformers.trainers.stages import stage_recipes
from eventformers.training import train

RUN_RECORD = "reproduction.json"
"""Written into a run's folder when its model is trained, scored and whole; a folder without it is redone."""

logger = logging.getLogger(__name__)


def plan_run(
    call: Reproduction,
    name: str,
    seed: int,
    overrides: tuple[str, ...] = (),
    *,
    variant: str = "",
    stages: tuple[str, ...] = (),
    method: str = "",
) -> Run:
    """Plan a training run, with digests of what decides its outcome.

    Args:
        call: what the rows share.
        name: what its folder is called.
        seed: its seed.
        overrides: recipe settings, `section.key=value`, that make the run.
        variant: ending of the recipes that have settings for such runs: where there is one of the table's
            recipe's name with it, such as `minilm-heterevent`, the run starts from that.
        stages: the stages that the recipe must begin with; a recipe that begins otherwise runs these alone.
            Empty takes the recipe's.
        method: the `model_type` to train where it is not the table's.

    Raises:
        EventformersError: the training data or the encoder cannot be loaded.
    """
    trained, start, settings = _start_of(call, overrides, variant, stages, method)
    recipe = resolve_recipe(trained, start, settings, seed)
    *of_stages, digest = map(identity_digest, _identities(call, trained, recipe, seed))
    return Run(name, trained, start, settings, seed, tuple(of_stages), digest)


def _start_of(
    call: Reproduction, overrides: tuple[str, ...], variant: str, stages: tuple[str, ...], name: str
) -> tuple[Method, str, tuple[str, ...]]:
    """The method, the recipe and the settings that a run starts from.

    A run for whose kind the recipe has a variant starts from that, without the settings of stages that this
    does not have; stages that the run asks for win over the recipe's. A run of another method than the
    table's starts from its recipe of the same name, or else from its usual one, with those of the table's
    settings alone that decide on the splits of documents; a run of a further model of the table's method,
    with all that this model knows.
    """
    ending = f"{call.recipe}-{variant}"
    if name in ("", call.method.name):
        start = ending if ending in list_recipes(call.method.name) else call.recipe
        whole, kept = (
            [stage["name"] for stage in load_recipe(call.method.name, one).stages]
            for one in (call.recipe, start)
        )
        others = set(whole) - set(kept)
        if stages or start == ending:
            others.add("stages")
        settings = [one for one in call.settings if one.partition("=")[0].partition(".")[0] not in others]
        if kept[: len(stages)] != list(stages):
            overrides = (*overrides, f"stages=[{', '.join(stages)}]")
        return call.method, start, (*settings, *overrides)
    method = load_method(name)
    if method.recipes_of == call.method.name:
        start = ending if ending in list_recipes(method.recipe_folder) else method.default_recipe
        return method, start, (*_known_to(method, call.settings), *overrides)
    known = call.recipe in list_recipes(method.name)
    # Which documents are in which split must be the same for all.
    shared = [one for one in call.settings if one.partition("=")[0].removeprefix("data.") in CHAIN_SETTINGS]
    return method, call.recipe if known else method.default_recipe, (*shared, *overrides)


def _known_to(method: Method, settings: Sequence[str]) -> list[str]:
    """The settings whose keys a method's recipes know."""
    keys = set()
    for section, names in accepted_keys(method).items():
        keys |= {*names, *(f"{section}.{name}" for name in names)}
    return [one for one in settings if one.partition("=")[0] in keys]


def _identities(call: Reproduction, method: Method, recipe: Recipe, seed: int) -> list[dict[str, object]]:
    """What decides the model after each stage of a recipe, the last of them that of the run."""
    common = {
        "method": method.name,
        "seed": seed,
        "rows": _data_identity(call, method, recipe),
        "encoder": call.encoder_identity,
        "dtype": call.dtype,
    }
    stages = [
        {
            "model": _differing(method, stage.model),
            **{name: _canonical(getattr(stage, name)) for name in ("data", "views", "training")},
        }
        for stage in stage_recipes(recipe)
    ]
    if not recipe.stages:
        return [{**common, **stages[0]}]
    return [{**common, "stages": stages[:count]} for count in range(1, len(stages) + 1)]


def _differing(method: Method, model: Mapping[str, object]) -> dict[str, object]:
    """The settings of the model that are not the defaults, so that saying a default changes no digest."""
    defaults = method.config_class.__dataclass_fields__
    return {name: _canonical(value) for name, value in model.items() if value != defaults[name].default}


def _canonical(value: object) -> object:
    """Normalise numbers so that 1 and 1.0 compare equal."""
    if isinstance(value, Mapping):
        return {str(key): _canonical(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(part) for part in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _data_identity(call: Reproduction, method: Method, recipe: Recipe) -> str:
    """The digest of the training rows, from their build reports where there are some."""
    builder, config, settings = method.training_dataset(recipe)
    if recipe.data.get("streaming"):
        report = built_report(call.data, config, builder=builder, **settings)
        # Reading a stream to its end for a digest would cost more than the training.
        return str(report.get("rows_fingerprint", f"stream of {call.data}"))
    prints = {}
    for name in (config, *method.companions):
        held = call.session.data.load(call.data, builder, name, settings)
        prints[name] = str(held.report.get("rows_fingerprint") or held.fingerprint(held.splits, ""))
    return prints[config] if len(prints) == 1 else joint_fingerprint(prints)


def run_folder(call: Reproduction, run: Run) -> Path:
    """The folder of a finished run with the same digest, whichever table trained it, or else its own."""
    finished = (folder for folder in sorted(call.folder.glob(f"*-{run.digest}")) if _is_finished(run, folder))
    return next(finished, call.folder / f"{slug(run.name)}-{run.digest}")


def _is_finished(run: Run, folder: Path) -> bool:
    return read_record(folder / RUN_RECORD).get("digest") == run.digest


def train_run(call: Reproduction, run: Run, tasks: Sequence[str], *settings: str) -> Path:
    """Train a run where no row did that before, or go on where that was killed.

    Args:
        call: what the rows share.
        run: the run.
        tasks: the tasks that it is scored on, where it is; none for a row that is scored in other ways.
        settings: overrides of the recipe that change nothing but places on a disk.

    Returns:
        Its folder.
    """
    # Two tables may share a run; the second waits, and then finds it done.
    with one_writer(call.folder / f"row-{run.digest}", wait=True):
        folder = run_folder(call, run)
        if _is_finished(run, folder):
            return folder
        logger.info("training %s", folder.name)
        resume = can_resume(folder) or _take_stages(call, run, folder)
        finished = train(
            run.method.name,
            folder,
            recipe=run.recipe,
            data=call.data,
            encoder=call.encoder,
            settings=(*run.settings, *settings),
            resume=resume,
            overwrite=not resume,
            seed=run.seed,
            device=call.device,
            dtype=call.dtype,
            evaluation_data=call.evaluation_data or SAMPLES,
            tasks=tasks,
            session=call.session,
        )
        record = {
            "digest": run.digest,
            "stages": run.stages,
            "steps": finished.run.steps,
            "seconds": round(finished.run.seconds, 2),
        }
        for result in finished.results[:1]:
            record |= {"model": result.model, "revision": result.model_revision}
        write_text(folder / RUN_RECORD, json.dumps(record, indent=2) + "\n")
        # Nothing is left to resume, and a table of large encoders would fill the disk with them.
        remove_checkpoints(folder)
        call.done.append(f"{'resumed' if resume else 'trained'}, {finished.run.seconds:.0f} s")
        return folder


def _take_stages(call: Reproduction, run: Run, folder: Path) -> bool:
    """Copy the first stages that a run shares with a finished one into its empty folder, as many as possible.

    Returns:
        Whether there are any, so that the run goes on from there.
    """
    if not run.stages:
        return False
    shared: dict[Path, int] = {}
    for path in sorted(call.folder.glob(f"*/{RUN_RECORD}")):
        digests = read_record(path).get("stages")
        known = digests if isinstance(digests, list) else []
        if read_record(path.parent / RUN_FILE).get("encoder") == (call.encoder or PACKAGED_ENCODER):
            pairs = zip(known, run.stages, strict=False)
            shared[path.parent] = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
    source = max(shared, key=lambda place: shared[place], default=None)
    if source is None or not shared[source]:
        return False
    # A stage's folder begins with its number.
    for stage in sorted((source / STAGES_FOLDER).glob("[0-9]*"))[: shared[source]]:
        with staged_folder(folder / STAGES_FOLDER / stage.name, last=(STAGE_FILE,)) as place:
            shutil.copytree(stage, place, dirs_exist_ok=True)
    recipe = resolve_recipe(run.method, run.recipe, run.settings, run.seed)
    record = {**read_record(source / RUN_FILE), "recipe": asdict(recipe)}
    # Last, since without it there is nothing to go on from.
    write_text(folder / RUN_FILE, json.dumps(record, indent=2, sort_keys=True) + "\n")
    logger.info("%s goes on from %d stages of %s", folder.name, shared[source], source.name)
    return True
