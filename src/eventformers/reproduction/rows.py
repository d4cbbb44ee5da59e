"""Plan and fill the rows of a table: trained models, baselines, and rows with their own task settings.

Rows on event grounding have their own mentions and events; each of their runs has a bi-encoder, and a
cross-encoder that re-ranks its candidates. Rows on event type induction read mentions in their own way with
models that they share.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

from eventformers.baselines import get_baseline
from eventformers.baselines.chain_baselines import CHAIN_BASELINES, chain_training, load_training_chains
from eventformers.baselines.knowledge_graph_embeddings import METHODS as EMBEDDINGS
from eventformers.datasets_scripts.loading import SAMPLES
from eventformers.errors import EventformersError, shown
from eventformers.evaluation.core import evaluate
from eventformers.evaluation.results import TaskResult
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks import TASKS, with_settings
from eventformers.evaluation.tasks.base import Task, TaskSettings
from eventformers.evaluation.tasks.grounding import DEVELOPMENT_SPLIT, GroundingSettings
from eventformers.evaluation.tasks.induction import InductionSettings
from eventformers.inference.induction.mention_encoding import WITHOUT_TRIGGERS
from eventformers.loading.encoders import resolve_encoder
from eventformers.reproduction.runs import (
    RUN_RECORD,
    Columns,
    ReproducedRow,
    Reproduction,
    Run,
    ScoredSplit,
    identity_digest,
    other_evaluation,
    plan_run,
    read_record,
    run_folder,
    splits_of,
    train_run,
)
from eventformers.reproduction.tables import UNTRAINED, PaperRow
from eventformers.trainers.run import resolve_recipe

CROSS_ENCODER = "event_grounding_cross"
"""The method of the cross-encoders."""

_LANGUAGE_MODELS = ("masked_lm", "causal_lm")
_LINKING = "event_linking"
_ANY_THRESHOLD = 0.5
"""Threshold of a plan; the run chooses its own on development mentions."""


def plan_row(call: Reproduction, row: ReproducedRow) -> None:
    """Plan the scored splits and the training runs of a row; one without a digest is not run.

    Raises:
        EventformersError: the data or the encoder cannot be loaded, or there are no chains to learn from.
    """
    paper = row.paper
    call = call.of_row(paper)
    settings = _settings(call, paper)
    row.columns = _columns(call, settings)
    row.splits = splits_of(row.columns)
    if isinstance(settings, GroundingSettings) and settings.task != "multilingual":
        others = splits_of(_columns(call, replace(settings, task="multilingual")))
        if [one.fingerprint for one in row.splits] == [one.fingerprint for one in others]:
            row.splits = ()
            row.state = f"not run: in these data the {settings.task} task is the multilingual one"
            return
    if not paper.baseline:
        is_single = isinstance(settings, InductionSettings) and not paper.averaged
        row.runs = _runs(call, paper, paper.overrides, 1 if is_single else call.runs)
    if paper.ensemble:
        row.helpers = _runs(call, paper, (), call.runs)
    if isinstance(settings, GroundingSettings) and _LINKING in row.tasks:
        # All systems of a task share the recipe of the cross-encoder.
        cross = partial(plan_run, call, f"{paper.slug}-cross", variant="cross", method=CROSS_ENCODER)
        for retriever in row.runs:
            run = cross(retriever.seed, paper.overrides)
            digest = identity_digest({"run": run.digest, "retriever": retriever.digest})
            row.helpers += (replace(run, digest=digest),)
    if paper.settings is None and row.runs:
        tasks = {column.task for column in row.columns}
        run = row.runs[0]
        # A method that does not choose tasks by recipe can be scored on every task of the table.
        if run.method.training.choose_tasks is not None:
            tasks &= set(run.method.tasks_of(resolve_recipe(run.method, run.recipe, run.settings, run.seed)))
        if paper.rerank:
            tasks = {name for name in tasks if "rerank" in TASKS[name].kind.uses}
        row.splits = splits_of(row.columns, tasks)
        # A row of one run shares its folder with other tables.
        row.digest = run.digest
        if len(row.runs) > 1:
            row.digest = identity_digest({"runs": [run.digest for run in row.runs]})
        return
    identity = {
        **_baseline_identity(call, paper),
        "settings": settings.of_data if isinstance(settings, GroundingSettings) else settings,
        "runs": [run.digest for run in row.runs],
        "helpers": [run.digest for run in row.helpers],
    }
    row.digest = identity_digest(identity)


def _runs(call: Reproduction, paper: PaperRow, overrides: tuple[str, ...], number: int) -> tuple[Run, ...]:
    """Plan runs with consecutive seeds; rows that read models in their own way share those of the recipe."""
    is_shared = isinstance(paper.settings, InductionSettings) and not overrides
    return tuple(
        plan_run(
            *(call, "run" if is_shared else paper.slug, seed, overrides),
            variant=paper.variant,
            stages=paper.stages,
            method=paper.method,
        )
        for seed in range(call.seed, call.seed + number)
    )


def _baseline_identity(call: Reproduction, paper: PaperRow) -> dict[str, object]:
    """Collect what decides a baseline's outcome beside the scored rows.

    Raises:
        EventformersError: there are no chains to learn from.
    """
    name = paper.baseline
    identity: dict[str, object] = {"baseline": name}
    if name in EMBEDDINGS:
        identity |= {"settings of the baseline": asdict(EMBEDDINGS[name].defaults), "seed": call.seed}
    elif name in CHAIN_BASELINES:
        chains = load_training_chains(call.data, **call.chain_settings)
        settings = asdict(CHAIN_BASELINES[name].settings)
        identity |= {"settings of the baseline": settings, "seed": call.seed, "rows": chains.fingerprint}
    elif name in (*_LANGUAGE_MODELS, UNTRAINED):
        identity["encoder"] = call.encoder_identity
    return identity


def _settings(call: Reproduction, paper: PaperRow) -> TaskSettings | None:
    """Return the settings of the tasks for a row; None for the defaults.

    An untrained encoder reads the trigger tokens if the recipe's models read triggers.
    """
    settings = paper.settings
    if settings is None:
        return None
    if not isinstance(settings, InductionSettings):
        return settings
    recipe = resolve_recipe(call.method, call.recipe, call.settings, call.seed)
    reads_triggers = recipe.model.get("trigger_input", "none") not in WITHOUT_TRIGGERS
    if paper.baseline and reads_triggers:
        return replace(settings, trigger_input=settings.trigger_input or "span")
    return settings


def _columns(call: Reproduction, settings: TaskSettings | None) -> Columns:
    """Find the splits of each column; errors as in `Reproduction.read_by`."""
    if not isinstance(settings, GroundingSettings):
        return call.columns

    def read(task: str) -> GroundingSettings:
        if task != _LINKING:
            return settings
        _development(call, settings)
        return replace(settings, threshold=_ANY_THRESHOLD)

    return call.read_by(read)


def _development(call: Reproduction, settings: GroundingSettings) -> ScoredSplit:
    """Find the development mentions of Wikipedia, on which a threshold is chosen.

    Raises:
        EventformersError: the data lacks them.
    """
    usual = replace(settings, domain="wikipedia", threshold=_ANY_THRESHOLD, reranker=None)
    found = call.splits(_LINKING, (DEVELOPMENT_SPLIT,), usual)
    if not found:
        raise EventformersError(
            f"found no split {shown(DEVELOPMENT_SPLIT)} of Wikipedia to choose a threshold on; accepted: "
            "data with this split"
        )
    return found[0]


def fill_row(call: Reproduction, row: ReproducedRow) -> None:
    """Add results to a row one by one, so that those before a failure stay.

    Raises:
        EventformersError: a run fails, or cannot be scored.
    """
    call = call.of_row(row.paper)
    settings = _settings(call, row.paper)
    if isinstance(settings, GroundingSettings):
        _fill_on_mentions(call, row)
    elif isinstance(settings, InductionSettings):
        folders = {run: str(train_run(call, run, row.tasks)) for run in (*row.runs, *row.helpers)}
        folder = row.folder = call.row_folder(row)
        settings = replace(settings, clustered_by=tuple(folders[run] for run in row.helpers))
        models = [folders[run] for run in row.runs] or [resolve_encoder(call.encoder)]
        for number, model in enumerate(models, start=1):
            place = f"run-{number}" if row.paper.averaged else ""
            # The table has separate rows for the untrained encoder.
            measure = partial(evaluate, model, baseline=False, settings=settings, session=call.session)
            row.add_run(
                call.result(wanted, (other_evaluation(folder, wanted) / place,), measure)
                for wanted in row.splits
            )
            # The rows share vectors; the models of many runs would fill the memory.
            call.session.release_models()
    elif row.runs:
        _fill_trained(call, row)
    else:
        folder = row.folder = call.row_folder(row)
        with Session(call.session) as session:
            prepared = cache(partial(_baseline, call, row.paper.baseline, session))

            def measure_baseline(task: Task, **arguments: Any) -> TaskResult:
                return prepared()(task, **arguments)

            row.add_run(
                call.result(wanted, (other_evaluation(folder, wanted),), measure_baseline)
                for wanted in row.splits
            )


def _fill_trained(call: Reproduction, row: ReproducedRow) -> None:
    """Train and score runs; a run's own evaluation counts."""
    row.folder = run_folder(call, row.runs[0])
    for run in row.runs:
        folder = train_run(call, run, row.tasks)
        revision = read_record(folder / RUN_RECORD)["revision"]

        def result_of(wanted: ScoredSplit, folder: Path = folder, revision: object = revision) -> TaskResult:
            settings: dict[str, object] = {}
            if row.paper.rerank:
                settings = {"rerank": True}
            elif row.paper.context_layers and "virtual_context" in TASKS[wanted.task].kind.uses:
                layers = row.paper.context_layers
                settings = {"virtual_context": call.data or SAMPLES, "num_layers": layers}
            kind = with_settings(TASKS[wanted.task], settings).kind
            named = "" if wanted.is_usual else wanted.split
            variant = "-".join(filter(None, (named, kind.settings.name)))
            return call.result(
                wanted,
                (folder, other_evaluation(folder, wanted)),
                partial(evaluate, str(folder), settings=settings, session=session),
                lambda held: (held.model_revision, held.variant) == (revision, variant),
            )

        with Session(call.session) as session:
            row.add_run(map(result_of, row.splits))


def _baseline(call: Reproduction, name: str, session: Session) -> Callable[..., TaskResult]:
    """Return a baseline with all arguments but a task and its data; train a baseline on chains."""
    if name == UNTRAINED:
        return partial(evaluate, resolve_encoder(call.encoder), baseline=False, session=session)
    measure = get_baseline(name)
    if name in EMBEDDINGS:
        return partial(measure, seed=call.seed)
    if name in CHAIN_BASELINES:
        trained = chain_training(name, call.data, seed=call.seed, **call.chain_settings)
        return partial(measure, trained=trained)
    return partial(measure, model=resolve_encoder(call.encoder)) if name in _LANGUAGE_MODELS else measure


def _fill_on_mentions(call: Reproduction, row: ReproducedRow) -> None:
    models: list[tuple[Path, Path | None]] = [] if row.runs else [(call.row_folder(row), None)]
    for number, run in enumerate(row.runs):
        # The table scores other tasks and domains than a single run does.
        folder = train_run(call, run, ())
        reranker: Path | None = None
        if row.helpers:
            # Quoted, since YAML could read a path as another type.
            found_by = f"views.retriever={json.dumps(str(folder.resolve()))}"
            reranker = train_run(call, row.helpers[number], (), found_by)
        models.append((folder, reranker))
    row.folder = models[0][0]
    with Session(call.session) as session:
        for folder, reranker in models:
            row.add_run(
                _grounding_result(call, row.paper.baseline, folder, reranker, session, wanted)
                for wanted in row.splits
            )


def _grounding_result(
    call: Reproduction,
    baseline: str,
    folder: Path,
    reranker: Path | None,
    session: Session,
    wanted: ScoredSplit,
) -> TaskResult:
    """Return a model's result; its result on development mentions chooses the threshold."""
    settings, home = cast(GroundingSettings, wanted.settings), folder
    if wanted.task == _LINKING:
        settings = replace(settings, threshold=None, reranker=None if reranker is None else str(reranker))
        home = reranker or folder
        development = _development(call, settings)
        if wanted != development:
            chosen = _grounding_result(call, baseline, folder, reranker, session, development)
            settings = replace(settings, threshold=float(str(chosen.details["threshold"])))
    recorded = {name: value for name, value in settings.recorded.items() if name != "reranker"}
    if baseline in ("", UNTRAINED):
        model = resolve_encoder(call.encoder) if baseline else str(folder)
        # The table has separate rows for the untrained encoder.
        measure = partial(evaluate, model, baseline=False, settings=settings, session=session)
    else:
        measure = partial(get_baseline(baseline), grounding=settings)
    return call.result(
        wanted,
        (other_evaluation(home, wanted),),
        measure,
        lambda held: all(held.settings.get(name) == value for name, value in recorded.items()),
    )


def state_of(row: ReproducedRow, trained: Sequence[str], measured: int, seconds: float) -> str:
    """Describe what was done for a row, for the last column.

    Args:
        trained: for each training run, whether it was resumed, and its time.
    """
    if row.paper.settings is not None or not row.runs:
        state = f"measured, {seconds:.0f} s" if measured else "cached"
        return f"{len(trained)} trained, {state}" if trained else state
    # The scores are part of the training.
    if len(trained) > 1:
        return f"{len(trained)} trained, {seconds:.0f} s"
    return trained[0] if trained else "cached, scored again" if measured else "cached"


def record_of(row: ReproducedRow) -> Mapping[str, object]:
    """Describe a row for the JSON of the table."""
    paper = row.paper
    is_trained = bool(paper.slug) and not paper.baseline
    induction, grounding = (
        paper.settings.chosen if isinstance(paper.settings, kind) else None
        for kind in (InductionSettings, GroundingSettings)
    )
    return {
        "overrides": paper.overrides if is_trained else None,
        "baseline": paper.baseline or None,
        "encoder": paper.encoder or None,
        "rerank": paper.rerank,
        "context_layers": paper.context_layers,
        "induction": induction,
        "grounding": grounding,
        "seeds": [run.seed for run in row.runs],
        "ensemble": [run.seed for run in row.helpers] if paper.ensemble else [],
    }
