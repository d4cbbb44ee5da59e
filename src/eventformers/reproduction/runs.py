"""Training runs of reproduced tables: digests of their outcomes, and training each one once."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import takewhile
from pathlib import Path

from eventformers.datasets_scripts.event_chains import CHAIN_SETTINGS
from eventformers.datasets_scripts.fingerprints import joint_fingerprint
from eventformers.datasets_scripts.loading import built_report
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
"""The file in a run's folder that marks it as trained and scored; a folder without it is trained again."""

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
        call: the state that rows share.
        name: the start of its folder's name.
        seed: its seed.
        overrides: recipe settings, `section.key=value`, of the run.
        variant: ending of recipe names. If the table's recipe has a variant with this ending, such as
            `minilm-heterevent`, the run starts from the variant.
        stages: the first stages that the recipe must have; if it has others, the run has these stages alone.
            Empty takes the recipe's.
        method: the `model_type` to train; empty for the table's.

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
    """Choose the method, the recipe and the settings that a run starts from.

    A run that has a variant of the recipe starts from that variant, without settings of stages that it lacks;
    the stages of the run take precedence over the recipe's. A run of another method starts from that method's
    recipe of the same name, or its default one, and takes only those of the table's settings that split
    documents. A run of a further model of the table's method takes all settings that this model knows.
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
    # All rows must have the same documents in each split.
    shared = [one for one in call.settings if one.partition("=")[0].removeprefix("data.") in CHAIN_SETTINGS]
    return method, call.recipe if known else method.default_recipe, (*shared, *overrides)


def _known_to(method: Method, settings: Sequence[str]) -> list[str]:
    """Select the settings whose keys a method's recipes know."""
    keys = set()
    for section, names in accepted_keys(method).items():
        keys |= {*names, *(f"{section}.{name}" for name in names)}
    return [one for one in settings if one.partition("=")[0] in keys]


def _identities(call: Reproduction, method: Method, recipe: Recipe, seed: int) -> list[dict[str, object]]:
    """Collect what decides the model after each stage of a recipe; the last entry is that of the run."""
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
    """Select model settings that differ from the defaults, so that stating a default changes no digest."""
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
    """Return the digest of the training rows, from their build reports if there are any."""
    builder, configs, settings = method.training_dataset(recipe)
    prints: dict[str, str] = {}
    for name in (*configs, *method.companions):
        if recipe.data.get("streaming"):
            report = built_report(call.data, name, builder=builder, **settings)
            # Reading a stream to its end for a digest would cost more than the training.
            prints[name] = str(report.get("rows_fingerprint", f"stream of {call.data}"))
            continue
        held = call.session.data.load(call.data, builder, name, settings)
        prints[name] = str(held.report.get("rows_fingerprint") or held.fingerprint(held.splits, ""))
    return prints[configs[0]] if len(prints) == 1 else joint_fingerprint(prints)


def run_folder(call: Reproduction, run: Run) -> Path:
    """Return the folder of a finished run with the same digest from any table, or else the run's own."""
    finished = (folder for folder in sorted(call.folder.glob(f"*-{run.digest}")) if _is_finished(run, folder))
    return next(finished, call.folder / f"{slug(run.name)}-{run.digest}")


def _is_finished(run: Run, folder: Path) -> bool:
    return read_record(folder / RUN_RECORD).get("digest") == run.digest


def train_run(call: Reproduction, run: Run, tasks: Sequence[str], *settings: str) -> Path:
    """Train a run that no row has trained yet, or resume a killed one.

    Args:
        call: the state that rows share.
        run: the run.
        tasks: the tasks to score it on; empty for a row that is scored in other ways.
        settings: overrides of the recipe that change only local paths.

    Returns:
        Its folder.
    """
    # Two tables may share a run; the second one waits and then finds it done.
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
        # There is nothing left to resume, and checkpoints of large encoders would fill the disk.
        remove_checkpoints(folder)
        call.done.append(f"{'resumed' if resume else 'trained'}, {finished.run.seconds:.0f} s")
        return folder


def _take_stages(call: Reproduction, run: Run, folder: Path) -> bool:
    """Copy the leading stages that a run shares with a finished run into its folder, as many as possible.

    Returns:
        Whether there are any, so that the run can continue from them.
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
    # The name of a stage's folder begins with its number.
    for stage in sorted((source / STAGES_FOLDER).glob("[0-9]*"))[: shared[source]]:
        with staged_folder(folder / STAGES_FOLDER / stage.name, last=(STAGE_FILE,)) as place:
            shutil.copytree(stage, place, dirs_exist_ok=True)
    recipe = resolve_recipe(run.method, run.recipe, run.settings, run.seed)
    record = {**read_record(source / RUN_FILE), "recipe": asdict(recipe)}
    # Last, since a run resumes only if this file exists.
    write_text(folder / RUN_FILE, json.dumps(record, indent=2, sort_keys=True) + "\n")
    logger.info("%s goes on from %d stages of %s", folder.name, shared[source], source.name)
    return True
