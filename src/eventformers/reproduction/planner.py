"""Fill a table of a paper with rows of our own: train what is missing, read what is there."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

from eventformers.baselines.chain_baselines import CHAIN_BASELINES, load_training_chains
from eventformers.baselines.knowledge_graph_embeddings import METHODS as EMBEDDINGS
from eventformers.datasets_scripts.building import built_report, load_built
from eventformers.datasets_scripts.chain_settings import CHAIN_SETTINGS
from eventformers.datasets_scripts.fingerprints import dataset_fingerprint, joint_fingerprint
from eventformers.datasets_scripts.malformed import takes_malformed
from eventformers.errors import DataFormatError, EventformersError
from eventformers.evaluation.data import DataStore, load_task_data
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks import TASKS
from eventformers.evaluation.tasks.graph import Graph
from eventformers.loading.encoders import resolve_encoder
from eventformers.loading.models import faults_told, folder_revision, load_config, model_revision
from eventformers.locks import one_writer
from eventformers.methods import Method, load_method
from eventformers.reproduction.comparison import compare_rows
from eventformers.reproduction.figures import FIGURES
from eventformers.reproduction.grounding import GroundingPlanner, fill_grounding
from eventformers.reproduction.layout import UNTRAINED, Column, PaperRow, PaperTable
from eventformers.reproduction.papers import get_table
from eventformers.reproduction.rows import fill_row, read_record
from eventformers.reproduction.runs import clusters_by_purity, fill_by_reading, reading_of, spread_of_runs
from eventformers.reproduction.table import (
    Finding,
    Measurement,
    ReproducedRow,
    ReproducedTable,
    Reproduction,
    RowRun,
    RowTraining,
    failed_state,
    identity_digest,
    write_table,
)
from eventformers.trainers.recipes import Recipe, list_recipes, load_recipe
from eventformers.trainers.run import accepted_keys, resolve_recipe
from eventformers.trainers.stages import stage_recipes

logger = logging.getLogger(__name__)


@takes_malformed
def reproduce_table(
    paper: str,
    table: str,
    output: str | Path,
    *,
    recipe: str | None = None,
    data: str | Path | None = None,
    evaluation_data: str | Path | None = None,
    encoder: str | None = None,
    settings: Sequence[str] = (),
    seed: int | None = None,
    runs: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    session: Session | None = None,
    malformed: str | None = None,
) -> ReproducedTable:
    """Fill a table of a paper with our rows, beside the paper's scores and the untrained encoder's.

    Each row is a training run, or a measured baseline, in a folder of its own under `output/<paper>/`, whose
    name ends with a digest of what decides its outcome: settings, encoder, rows of the data, seed, precision.
    A finished row is read from its results, whichever table it was run for; one that was killed goes on from
    its last checkpoint; a row that fails says so in the table and costs no other row. Where only the
    evaluation data are new, the model is scored again and not trained again.

    Args:
        paper: a key of `paper_tables()`.
        table: a table of that paper, such as `table2`.
        output: folder of all reproductions.
        recipe: name or YAML file of the recipe that every row starts from; None takes the one with the
            paper's settings, or that of the table for such data.
        data: training data, as `train` takes them; None takes the bundled samples.
        evaluation_data: raw files of the evaluation tasks; None takes the bundled samples. A column whose
            task or split they lack stays empty.
        encoder: Hub id or folder of a pretrained encoder; None takes the packaged all-MiniLM-L6-v2.
        settings: overrides of the recipe, `key=value`; what makes a row wins over them.
        seed: seed of every row. None takes the one of the table's last run with this recipe, or else the
            recipe's, or draws one; either way the table records it.
        runs: how many runs, with seeds that follow, make a row of means or an ensemble; None takes as many as
            the table's.
        device: `cpu` or `cuda`; None takes an accelerator where there is one.
        dtype: `bfloat16` or `float16` for mixed precision; None for float32.
        session: holds data that this table shares with other work; None shares nothing.
        malformed: `skip` leaves out malformed parts of raw files, counts and lists them; `error` raises for
            the first one; None takes the policy in force, `error` where nothing else was set.

    Returns:
        The table; also written as `<output>/<paper>/<table>.md` and `.json` after every row.

    Raises:
        UnknownNameError: there is no such paper, table, recipe or setting.
        EventformersError: the encoder or the data cannot be read, every row failed, or a number of runs below
            1, or for a table without such rows.
    """
    wanted = get_table(paper, table)
    method = load_method(wanted.method)
    recipe = recipe or _usual_recipe(wanted, method, data)
    if runs is not None and (runs < 1 or not any(row.averaged or row.ensemble for row in wanted.rows)):
        raise EventformersError(
            f"runs is {runs} for {paper} {table}; accepted: 1 or more, for a table of means over runs"
        )
    folder = Path(output) / paper
    path = folder / f"{table}.md"
    with one_writer(path), Session(session) as own:
        chosen_seed = _choose_seed(method, recipe, settings, seed, folder / f"{table}.json")
        call = Reproduction(
            table=wanted,
            method=method,
            folder=folder,
            recipe=recipe,
            settings=tuple(settings),
            seed=chosen_seed,
            encoder=encoder,
            data=None if data is None else str(data),
            evaluation_data=None if evaluation_data is None else str(evaluation_data),
            measurements=_measurements(wanted, evaluation_data, own.data),
            device=device,
            dtype=dtype,
            runs=runs or wanted.runs,
            session=own,
        )
        rows = _plan(call)
        # Before the first row: a seed that was drawn must outlive a kill.
        finished = write_table(call, rows, path)
        run = [row for row in rows if row.digest]
        error: Exception | None = None
        for position, row in enumerate(run, start=1):
            logger.info("%s: row %d of %d, %s", table, position, len(run), row.paper.label)
            try:
                _fill(call, row)
            except Exception as failure:
                error = failure
                row.state = failed_state(failure)
                is_told = isinstance(failure, EventformersError)
                level = logging.WARNING if is_told else logging.ERROR
                logger.log(level, "row %s %s", row.paper.label, row.state, exc_info=not is_told)
            finished = write_table(call, rows, path)
        if findings := _findings(call, rows, path):
            finished = write_table(call, rows, path, findings)
        if error is not None and not any(row.results for row in run):
            if not isinstance(error, EventformersError):
                raise error
            raise EventformersError(f"every row of {paper} {table} failed; the last one: {error}") from error
        return finished


def _fill(call: Reproduction, row: ReproducedRow) -> None:
    """Get a row's results, in the way of its kind."""
    if row.paper.grounding is not None:
        fill_grounding(call, row)
    elif row.paper.induction is not None:
        fill_by_reading(call, row)
    else:
        fill_row(call, row)


def _findings(call: Reproduction, rows: Sequence[ReproducedRow], path: Path) -> list[Finding]:
    """What a table that is filled tells beyond its scores; a picture goes beside it."""
    found = []
    if call.table.reference:
        found.append(compare_rows(call, rows))
    if any(row.paper.averaged for row in rows):
        found.append(spread_of_runs(call, rows))
    if call.table.lists_clusters:
        found.append(clusters_by_purity(rows[-1]))
    if call.table.figure is not None:
        found.append(FIGURES[call.table.figure](call, rows, path.with_suffix(".png")))
    return [finding for finding in found if finding is not None]


def _usual_recipe(table: PaperTable, method: Method, data: str | Path | None) -> str:
    """The recipe to start from where none is named: that of the table for the config that the data have.

    Raises:
        EventformersError: they have no config that the table has a recipe for.
    """
    if not table.recipes:
        return method.paper_recipe
    if data is None:
        return table.recipes["samples"]
    error: EventformersError | None = None
    for config, recipe in table.recipes.items():
        if config == "samples":
            continue
        try:
            load_built(data, config, builder=method.dataset[0])
        except DataFormatError:
            raise
        except EventformersError as missing:
            error = missing
            continue
        return recipe
    raise cast(EventformersError, error)


def _choose_seed(method: Method, recipe: str, settings: Sequence[str], seed: int | None, record: Path) -> int:
    """The table's seed: given, or recorded by the last call with this recipe, or the recipe's, or drawn."""
    resolved = resolve_recipe(method, recipe, settings, seed)
    if seed is None and not any(setting.partition("=")[0] == "seed" for setting in settings):
        recorded = read_record(record)
        if recorded.get("recipe") == Path(recipe).name and isinstance(recorded.get("seed"), int):
            return cast(int, recorded["seed"])
        if load_recipe(method.name, recipe).seed is None:
            drawn = random.SystemRandom().randrange(2**31)
            logger.warning("no seed was given; %d was drawn and is recorded in %s", drawn, record)
            return drawn
    return cast(int, resolved.seed)


def _measurements(
    table: PaperTable, data: str | Path | None, store: DataStore
) -> dict[Column, tuple[Measurement, ...]]:
    """What each column is measured on; nothing for one whose task or splits the data lacks, and for all of a
    table whose rows are scored on mentions of their own.

    Raises:
        DataFormatError: a raw file cannot be read.
        EventformersError: the data has nothing for any column.
    """
    if any(row.grounding is not None for row in table.rows):
        return dict.fromkeys(table.columns, ())
    measurements: dict[Column, tuple[Measurement, ...]] = {}
    missing: dict[str, EventformersError] = {}
    for column in table.columns:
        task = TASKS[column.task]
        measurements[column] = ()
        try:
            held = load_task_data(task, data, store)
            usual = task.choose_split(held.splits)
        except DataFormatError:
            raise
        except EventformersError as error:
            missing[task.name] = error
            continue
        measurements[column] = tuple(
            Measurement(task.name, split, held.fingerprint(task, split), split == usual)
            for split in column.splits or (usual,)
            if split in held.splits
        )
    if missing and not any(measurements.values()):
        raise next(iter(missing.values()))
    for name, reason in missing.items():
        logger.warning("the columns of %s stay empty: %s", name, reason)
    return measurements


def _plan(call: Reproduction) -> list[ReproducedRow]:
    """The rows with what they are measured on, and the digests of what decides their outcomes.

    Raises:
        EventformersError: the encoder cannot be loaded, or the data has the training rows of none.
    """
    rows = [ReproducedRow(paper_row) for paper_row in call.table.rows]
    encoder = _encoder_identity(call.encoder)
    data: dict[str, str] = {}
    error: EventformersError | None = None
    grounding: GroundingPlanner | None = None
    for row in rows:
        try:
            if row.paper.grounding is not None:
                grounding = grounding or GroundingPlanner(
                    call, encoder, lambda paper, seed: _planned(call, paper, seed, encoder, data)
                )
                grounding.plan(row)
            elif row.paper.induction is not None:
                _plan_reading(call, row, encoder, data)
            elif row.paper.baseline:
                row.state = "missing"
                row.measurements = _measured_on(call, [column.task for column in call.table.columns])
                row.digest = identity_digest(_baseline_identity(call, row.paper.baseline, encoder))
            elif row.paper.overrides is not None:
                row.state = "missing"
                method, start, settings = _start_of(call, row.paper)
                recipe = resolve_recipe(method, start, settings, call.seed)
                # A method that names no tasks of a recipe can be scored on any that the table has.
                tasks = [column.task for column in call.table.columns]
                if method.training.choose_tasks is not None:
                    tasks = list(method.tasks_of(recipe))
                row.measurements = _measured_on(call, tasks, reranked=row.paper.rerank)
                row.training, row.digest = _planned(call, row.paper, call.seed, encoder, data)
        except EventformersError as failure:
            row.state = failed_state(failure)
            if not row.paper.baseline:
                error = failure
    if error is not None and not data:
        raise error
    return rows


def _planned(
    call: Reproduction, row: PaperRow, seed: int, encoder: str, data: dict[str, str]
) -> tuple[RowTraining, str]:
    """What a row trains with a seed, and a digest of what decides the outcome.

    Args:
        call: what the rows share.
        row: the row.
        seed: the seed.
        encoder: identity of the encoder.
        data: identities of the training rows by method and settings; gets those of this row.

    Raises:
        EventformersError: the training data cannot be loaded.
    """
    method, start, settings = _start_of(call, row)
    recipe = resolve_recipe(method, start, settings, seed)
    key = json.dumps([method.name, recipe.data], sort_keys=True, default=str)
    if key not in data:
        data[key] = _data_identity(method, recipe, call.data)
    identities = _training_identities(call, method, recipe, encoder, data[key], seed)
    *stages, digest = map(identity_digest, identities)
    return RowTraining(method, start, settings, seed, tuple(stages)), digest


def _plan_reading(call: Reproduction, row: ReproducedRow, encoder: str, data: dict[str, str]) -> None:
    """Plan a row that is scored by a reading of its own on runs that it shares with others.

    Raises:
        EventformersError: the training data cannot be loaded.
    """
    row.state = "missing"
    row.measurements = _measured_on(call, [column.task for column in call.table.columns])
    base = replace(row.paper, slug="run", overrides=())

    def runs(paper: PaperRow, number: int) -> tuple[RowRun, ...]:
        seeds = range(call.seed, call.seed + number)
        return tuple(
            RowRun(f"{paper.slug}-{seed}", *_planned(call, paper, seed, encoder, data)) for seed in seeds
        )

    if row.paper.ensemble:
        row.clustering = runs(base, call.runs)
    if row.paper.overrides is not None:
        own = base if not row.paper.overrides else row.paper
        row.runs = runs(own, call.runs if row.paper.averaged else 1)
    reading = reading_of(call, row)
    row.digest = identity_digest(
        {
            "encoder": encoder if row.paper.baseline else None,
            "runs": [run.digest for run in row.runs],
            "clustering": [run.digest for run in row.clustering],
            "reading": reading.recorded,
        }
    )


def _start_of(call: Reproduction, row: PaperRow) -> tuple[Method, str, tuple[str, ...]]:
    """The method, the recipe and the settings that a row starts from.

    A row for whose kind the recipe has a variant starts from that, without the settings of stages that this
    does not have; stages that the row asks for win over the recipe's. A row of another method than the
    table's starts from its recipe of the same name, or else from its usual one, with those of the table's
    settings alone that decide on the splits of documents; a row of a further model of the table's method,
    with all that this model knows.
    """
    overrides = row.overrides or ()
    if row.method in ("", call.method.name):
        variant = f"{call.recipe}-{row.variant}"
        start = variant if variant in list_recipes(call.method.name) else call.recipe
        whole, kept = (
            [stage["name"] for stage in load_recipe(call.method.name, name).stages]
            for name in (call.recipe, start)
        )
        others = set(whole) - set(kept)
        if row.stages or start == variant:
            others.add("stages")
        settings = [one for one in call.settings if one.partition("=")[0].partition(".")[0] not in others]
        if kept[: len(row.stages)] != list(row.stages):
            overrides = (*overrides, f"stages=[{', '.join(row.stages)}]")
        return call.method, start, (*settings, *overrides)
    method = load_method(row.method)
    if method.recipes_of == call.method.name:
        variant = f"{call.recipe}-{row.variant}"
        start = variant if variant in list_recipes(method.recipe_folder) else method.default_recipe
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


def _measured_on(
    call: Reproduction, tasks: Iterable[str], *, reranked: bool = False
) -> tuple[Measurement, ...]:
    """What a row that is scored on these tasks is measured on, each once."""
    scored = [name for name in tasks if not reranked or isinstance(TASKS[name].kind, Graph)]
    return tuple(
        dict.fromkeys(
            measurement
            for column, measurements in call.measurements.items()
            for measurement in measurements
            if column.task in scored
        )
    )


def _training_identities(
    call: Reproduction, method: Method, recipe: Recipe, encoder: str, data: str, seed: int
) -> list[dict[str, object]]:
    """What decides the model after each stage of a recipe, the last of them that of the run."""
    common = {
        "method": method.name,
        "seed": seed,
        "encoder": encoder,
        "rows": data,
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


def _baseline_identity(call: Reproduction, name: str, encoder: str) -> dict[str, object]:
    """What decides a baseline's outcome beside the rows that it is measured on.

    Raises:
        EventformersError: there are no chains that it could learn from.
    """
    if name in EMBEDDINGS:
        return {"baseline": name, "settings": asdict(EMBEDDINGS[name].defaults), "seed": call.seed}
    if name in CHAIN_BASELINES:
        return {
            "baseline": name,
            "settings": asdict(CHAIN_BASELINES[name].settings),
            "seed": call.seed,
            "rows": load_training_chains(call.data).fingerprint,
        }
    return {"baseline": name, "encoder": encoder if name in ("masked_lm", UNTRAINED) else None}


def _differing(method: Method, model: Mapping[str, object]) -> dict[str, object]:
    """The settings of the model that are not the defaults, so that saying a default changes no digest."""
    defaults = method.config_class.__dataclass_fields__
    return {name: _canonical(value) for name, value in model.items() if value != defaults[name].default}


def _canonical(value: object) -> object:
    """The same value for 1 and 1.0."""
    if isinstance(value, Mapping):
        return {str(key): _canonical(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(part) for part in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _encoder_identity(encoder: str | None) -> str:
    """The digest of a folder's weights, or a Hub id with its commit."""
    source = resolve_encoder(encoder)
    if Path(source).is_dir():
        return folder_revision(Path(source))
    with faults_told(source):
        load_config(source)
    return f"{source}@{model_revision(source)}"


def _data_identity(method: Method, recipe: Recipe, data: str | None) -> str:
    """The digest of the training rows, from their build reports where there are some."""
    builder, config, settings = method.training_dataset(recipe)
    if recipe.data.get("streaming"):
        report = built_report(data, config, builder=builder, **settings)
        # Reading a stream to its end for a digest would cost more than the training.
        return str(report.get("rows_fingerprint", f"stream of {data}"))
    prints = {name: _rows_identity(builder, name, settings, data) for name in (config, *method.companions)}
    return prints[config] if len(prints) == 1 else joint_fingerprint(prints)


def _rows_identity(builder: str, config: str, settings: Mapping[str, Any], data: str | None) -> str:
    report = built_report(data, config, builder=builder, **settings)
    if isinstance(fingerprint := report.get("rows_fingerprint"), str):
        return fingerprint
    return dataset_fingerprint(load_built(data, config, builder=builder, **settings))
