"""Rows of a reproduced table on event grounding: the mentions and events of each, a bi-encoder for each run,
and a cross-encoder on its candidates."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from eventformers.baselines import get_baseline
from eventformers.datasets_scripts.fingerprints import dataset_fingerprint
from eventformers.errors import DataFormatError, EventformersError, shown
from eventformers.evaluation.core import evaluate
from eventformers.evaluation.data import TaskData, load_task_data
from eventformers.evaluation.results import TaskResult
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks import TASKS, with_settings
from eventformers.evaluation.tasks.grounding_protocols import DEVELOPMENT_SPLIT, GroundingSettings
from eventformers.loading.encoders import resolve_encoder
from eventformers.reproduction.layout import UNTRAINED, Column, PaperRow
from eventformers.reproduction.rows import (
    finished_folder,
    one_row,
    other_evaluation,
    readable_results,
    slug,
    train_run,
)
from eventformers.reproduction.runs import mean_result
from eventformers.reproduction.table import (
    Measurement,
    ReproducedRow,
    Reproduction,
    RowRun,
    RowTraining,
    identity_digest,
)
from eventformers.trainers.run import resolve_recipe

CROSS_ENCODER = "event_grounding_cross"
"""The method of the cross-encoders."""

_LINKING = "event_linking"
_ANY_THRESHOLD = 0.5
"""Stands for the threshold that is not known before development mentions are linked."""

logger = logging.getLogger(__name__)

PlanRun = Callable[[PaperRow, int], tuple[RowTraining, str]]
"""A row and a seed to what it trains and a digest of what decides the outcome."""


class GroundingPlanner:
    """Plans the rows of one table; the data of each task are loaded once.

    Args:
        call: what the rows share.
        encoder: identity of the encoder.
        plan_run: plans a training run.
    """

    def __init__(self, call: Reproduction, encoder: str, plan_run: PlanRun) -> None:
        self._call = call
        self._encoder = encoder
        self._plan_run = plan_run
        self._measurements: dict[tuple[str, str, GroundingSettings], Measurement] = {}
        recipe = resolve_recipe(call.method, call.recipe, call.settings, call.seed)
        # The paper has events of hierarchies alone, and so has a recipe with its settings.
        self._hierarchies_only = bool(recipe.data.get("hierarchies_only", False))

    def plan(self, row: ReproducedRow) -> None:
        """Plan what a row is measured on and what it trains, or say in its state why it is not run.

        Raises:
            DataFormatError: a raw file cannot be read.
            EventformersError: the evaluation data have nothing for the row, or the training data cannot be
                loaded.
        """
        paper = row.paper
        settings = replace(paper.grounding or GroundingSettings(), hierarchies_only=self._hierarchies_only)
        row.state = "missing"
        row.columns = self._columns(settings)
        measurements = _all_of(row.columns)
        if settings.task != "multilingual":
            others = _all_of(self._columns(replace(settings, task="multilingual")))
            if [one.fingerprint for one in measurements] == [one.fingerprint for one in others]:
                row.state = f"not run: in these data the {settings.task} task is the multilingual one"
                return
        row.measurements = measurements
        identity: dict[str, object] = {"settings": settings.of_data}
        links = any(one.task == _LINKING for one in measurements)
        if links:
            row.development = self._development(settings)
        if paper.baseline:
            encoder = self._encoder if paper.baseline == UNTRAINED else None
            identity |= {"baseline": paper.baseline, "encoder": encoder}
        else:
            seeds = range(self._call.seed, self._call.seed + self._call.runs)
            row.runs = tuple(self._run(paper, seed) for seed in seeds)
            row.rerankers = tuple(self._reranker(paper, run) for run in row.runs) if links else ()
            identity["runs"] = [run.digest for run in (*row.runs, *row.rerankers)]
        row.digest = identity_digest(identity)

    def _columns(self, settings: GroundingSettings) -> dict[Column, tuple[Measurement, ...]]:
        """What each column is measured on; nothing for one whose task or splits the data lack.

        Raises:
            DataFormatError: a raw file cannot be read.
            EventformersError: the data have nothing for any column.
        """
        missing: dict[str, EventformersError] = {}
        columns: dict[Column, tuple[Measurement, ...]] = {}
        for column in self._call.table.columns:
            try:
                columns[column] = self._measured(column, settings)
            except DataFormatError:
                raise
            except EventformersError as error:
                columns[column] = ()
                missing[column.task] = error
        if not any(columns.values()):
            splits = " or ".join(dict.fromkeys(one for column in columns for one in column.splits))
            nothing = EventformersError(f"the evaluation data have no mentions in the split {splits}")
            raise next(iter(missing.values()), nothing)
        for task, reason in missing.items():
            logger.warning("the columns of %s stay empty for %s: %s", task, settings.name or "all", reason)
        return columns

    def _measured(self, column: Column, settings: GroundingSettings) -> tuple[Measurement, ...]:
        held = self._load(column.task, settings)
        if settings.domain != "wikipedia":
            self._check_domain(column.task, settings, held)
        if column.task == _LINKING:
            self._development(settings)
        splits = column.splits or (TASKS[column.task].choose_split(held.splits),)
        return tuple(
            self._measurement(column.task, split, settings)
            for split in splits
            if split in held.splits and len(held.splits[split])
        )

    def _measurement(self, name: str, split: str, settings: GroundingSettings) -> Measurement:
        key = (name, split, settings)
        if key not in self._measurements:
            read = settings
            if name == _LINKING and (split != DEVELOPMENT_SPLIT or settings.domain != "wikipedia"):
                read = replace(settings, threshold=_ANY_THRESHOLD)
            task, held = with_settings(TASKS[name], read), self._load(name, settings)
            is_usual = split == task.choose_split(held.splits)
            self._measurements[key] = Measurement(
                name, split, held.fingerprint(task, split), is_usual, settings
            )
        return self._measurements[key]

    def _development(self, settings: GroundingSettings) -> Measurement:
        """The mentions that a threshold is chosen on: those of development of Wikipedia.

        Raises:
            EventformersError: there are none.
        """
        usual = replace(settings, domain="wikipedia")
        if DEVELOPMENT_SPLIT not in self._load(_LINKING, usual).splits:
            raise EventformersError(
                f"found no split {shown(DEVELOPMENT_SPLIT)} of Wikipedia to choose a threshold on; "
                "accepted: data with it"
            )
        return self._measurement(_LINKING, DEVELOPMENT_SPLIT, usual)

    def _check_domain(self, name: str, settings: GroundingSettings, held: TaskData) -> None:
        """Refuse data that are built already, of Wikipedia.

        Raises:
            EventformersError: the mentions are those of Wikipedia.
        """
        try:
            others = self._load(name, replace(settings, domain="wikipedia")).splits
        except DataFormatError:
            raise
        except EventformersError:
            return
        if any(
            split in others and dataset_fingerprint(rows) == dataset_fingerprint(others[split])
            for split, rows in held.splits.items()
        ):
            raise EventformersError(
                f"found the mentions of Wikipedia where those of {settings.domain} are asked for; accepted: "
                "raw files of both"
            )

    def _load(self, name: str, settings: GroundingSettings) -> TaskData:
        task = with_settings(TASKS[name], settings)
        return load_task_data(task, self._call.evaluation_data, self._call.session.data)

    def _run(self, paper: PaperRow, seed: int) -> RowRun:
        return RowRun(f"{paper.slug}-{seed}", *self._plan_run(paper, seed))

    def _reranker(self, paper: PaperRow, retriever: RowRun) -> RowRun:
        # The recipe of the cross-encoder is the same for all systems of a task.
        task = (paper.grounding or GroundingSettings()).task
        cross = replace(paper, method=CROSS_ENCODER, variant="cross", overrides=(f"data.task={task}",))
        run = self._run(cross, retriever.training.seed)
        digest = identity_digest({"run": run.digest, "retriever": retriever.digest})
        return replace(run, name=f"{paper.slug}-cross-{retriever.training.seed}", digest=digest)


@dataclass(frozen=True)
class _Scored:
    """What is scored, and where its results go.

    Attributes:
        source: the model, or the name of a baseline.
        folder: where results go.
        reranker: the folder of the cross-encoder; None for none.
    """

    source: str
    folder: Path
    reranker: Path | None = None


def fill_grounding(call: Reproduction, row: ReproducedRow) -> None:
    """Get a row's results, one task after another, into the row; those before a failure stay.

    Raises:
        EventformersError: a run failed, or cannot be scored.
    """
    started = time.monotonic()
    trained = measured = 0
    with one_row(call.folder, row.digest), Session(call.session) as session:
        models, trained = _models(call, row)
        for wanted in row.measurements:
            results = []
            for model in models:
                result, is_new = _result(call, row, wanted, model, session)
                results.append(result)
                measured += is_new
            row.results[wanted] = mean_result(results) if len(results) > 1 else results[0]
    row.state = f"measured, {time.monotonic() - started:.0f} s" if measured else "cached"
    if trained:
        row.state = f"{trained} trained, " + row.state


def _models(call: Reproduction, row: ReproducedRow) -> tuple[list[_Scored], int]:
    """What is scored for a row, trained where no row did that before; and how many were."""
    if row.paper.baseline:
        row.folder = call.folder / f"{slug(row.paper.slug)}-{row.digest}"
        name = row.paper.baseline
        return [_Scored(resolve_encoder(call.encoder) if name == UNTRAINED else name, row.folder)], 0
    models = []
    trained = 0
    for number, run in enumerate(row.runs):
        folder, is_new = _trained(call, run)
        trained += is_new
        reranker: Path | None = None
        if row.rerankers:
            # A path may look like another kind of YAML.
            found_by = f"views.retriever={json.dumps(str(folder.resolve()))}"
            reranker, is_new = _trained(call, row.rerankers[number], found_by)
            trained += is_new
        models.append(_Scored(str(folder), folder, reranker))
    row.folder = models[0].folder
    return models, trained


def _trained(call: Reproduction, run: RowRun, *settings: str) -> tuple[Path, bool]:
    """The folder of a run, and whether it was trained now."""
    with one_row(call.folder, run.digest):
        finished = finished_folder(call.folder, run.digest)
        if finished is not None:
            return finished, False
        folder = call.folder / f"{slug(run.name)}-{run.digest}"
        logger.info("training %s", folder.name)
        training = replace(run.training, settings=(*run.training.settings, *settings))
        # The scores of the table are of other tasks and domains than those of a run alone.
        train_run(call, training, run.digest, (), folder)
        return folder, True


def _result(
    call: Reproduction, row: ReproducedRow, wanted: Measurement, model: _Scored, session: Session
) -> tuple[TaskResult, bool]:
    """A model's result, and whether it was measured now."""
    settings, measured = _settings(call, row, wanted, model, session)
    home = model.reranker if model.reranker is not None and wanted.task == _LINKING else model.folder
    place = other_evaluation(home, wanted)
    known = call.results.get((place, wanted.task))
    if known is not None and _is_of(known, wanted, settings):
        return known, False
    held = next((one for one in readable_results(place) if _is_of(one, wanted, settings)), None)
    if held is None:
        held = _measure(call, row, wanted, model, settings, place, session)
        measured = True
    call.results[place, wanted.task] = held
    return held, measured


def _settings(
    call: Reproduction, row: ReproducedRow, wanted: Measurement, model: _Scored, session: Session
) -> tuple[GroundingSettings, bool]:
    """How mentions are linked; the threshold of others than those of development is chosen on these."""
    settings = wanted.grounding or GroundingSettings()
    if wanted.task != _LINKING:
        return settings, False
    settings = replace(settings, reranker=None if model.reranker is None else str(model.reranker))
    if row.development is None or wanted == row.development:
        return settings, False
    chosen, is_new = _result(call, row, row.development, model, session)
    return replace(settings, threshold=float(str(chosen.details["threshold"]))), is_new


def _is_of(result: TaskResult, wanted: Measurement, settings: GroundingSettings) -> bool:
    """Whether a result was measured on these rows in this way; its place tells the model."""
    told = {name: value for name, value in settings.recorded.items() if name != "reranker"}
    same = all(result.settings.get(name) == value for name, value in told.items())
    return wanted.is_of(result) and same


def _measure(
    call: Reproduction,
    row: ReproducedRow,
    wanted: Measurement,
    model: _Scored,
    settings: GroundingSettings,
    place: Path,
    session: Session,
) -> TaskResult:
    common = {
        "data": call.evaluation_data,
        "split": wanted.split,
        "device": call.device,
        "output": place,
        "overwrite": True,
    }
    if row.paper.baseline not in ("", UNTRAINED):
        return get_baseline(model.source)(wanted.task, grounding=settings, **common)
    # The table has the untrained encoder in rows of its own.
    return evaluate(
        model.source,
        wanted.task,
        baseline=False,
        settings=settings,
        session=session,
        **common,  # type: ignore[arg-type]
    )


def _all_of(columns: Mapping[Column, tuple[Measurement, ...]]) -> tuple[Measurement, ...]:
    return tuple(dict.fromkeys(one for measurements in columns.values() for one in measurements))
