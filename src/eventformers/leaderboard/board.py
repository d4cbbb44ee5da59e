"""Leaderboards: scores of models on the same data beside each other, with baselines and published scores."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isclose
from pathlib import Path
from statistics import fmean, stdev
from typing import Literal

from eventformers.datasets_scripts.building import BUILDERS
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.evaluation.tasks import TASKS, get_task
from eventformers.leaderboard.data import same_data
from eventformers.leaderboard.sources import Measurement, read_folder
from eventformers.model_cards.scores import score_text

logger = logging.getLogger(__name__)

Kind = Literal["model", "baseline", "published"]
"""Models that were trained here; baselines and untrained encoders; and what papers published."""

KINDS: tuple[Kind, ...] = ("model", "baseline", "published")

_SEED = re.compile(r"(.+?)[-_.]?seed[-_]?(\d+)")


@dataclass(frozen=True)
class ScoreColumn:
    """A task on one split of one version of its data.

    Attributes:
        task: its name.
        title: its title.
        description: what the score means.
        split: the split.
        metric: the key of the metric's scores.
        data: the data's short name, as `Measurement.data` has it.
        dataset_revision: the commit of the dataset on the Hub, where known.
        origin: `samples`, `local` or `hub`, where known.
        rows: number of rows, where known.
    """

    task: str
    title: str
    description: str
    split: str
    metric: str
    data: str
    dataset_revision: str | None
    origin: str | None
    rows: int | None

    @property
    def key(self) -> str:
        """Its name in JSON: task and split."""
        return f"{self.task}/{self.split}"


@dataclass(frozen=True)
class Cell:
    """A score in a column.

    Attributes:
        value: the mean over the seeds for which the metric is defined; None where it is for none.
        spread: the standard deviation over these; None with fewer than two.
        count: how many these are; 0 for a published score.
        undefined: for how many the metric is not defined.
        rank: the place among the models; equal scores share one. None for all other rows.
    """

    value: float | None
    spread: float | None = None
    count: int = 0
    undefined: int = 0
    rank: int | None = None


@dataclass(frozen=True)
class Row:
    """A model under one way of running it, over its seeds.

    Attributes:
        kind: what it is.
        model: its name, without the seed where several seeds are taken together.
        variant: what was chosen against the model's own settings.
        cells: a score for each column; None where there is none.
        revisions: the revisions that were measured.
        seeds: their seeds.
        parameters: number of parameters, where recorded.
        texts_per_second: distinct texts encoded and compared in a second, where recorded.
        device: where these were.
        card: address or path of the card of the first revision that has one.
    """

    kind: Kind
    model: str
    variant: str
    cells: tuple[Cell | None, ...]
    revisions: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    parameters: int | None = None
    texts_per_second: float | None = None
    device: str | None = None
    card: str | None = None

    @property
    def runs(self) -> int:
        """How many runs the score with the most of them is a mean of; 0 for published scores."""
        return max((cell.count + cell.undefined for cell in self.cells if cell), default=0)


@dataclass(frozen=True)
class Board:
    """The tasks of one dataset.

    Attributes:
        dataset: its builder, in snake_case.
        title: its title.
        columns: the tasks that have scores.
        rows: models, baselines and published scores, in this order, each by the scores of a column.
        sorted_by: the column's place, or the name of another column.
    """

    dataset: str
    title: str
    columns: tuple[ScoreColumn, ...]
    rows: tuple[Row, ...]
    sorted_by: int | str = 0


@dataclass(frozen=True)
class Leaderboard:
    """Boards, and what was left out of them.

    Attributes:
        boards: one for each dataset.
        left_out: sentences about results that are not shown.
    """

    boards: tuple[Board, ...]
    left_out: tuple[str, ...] = field(default=())


def leaderboard(
    folders: Sequence[str | Path] = (),
    *,
    repositories: Sequence[str] = (),
    author: str | None = None,
    collection: str | None = None,
    tasks: Sequence[str] = (),
    fingerprints: Sequence[str] = (),
    dataset_revisions: Sequence[str] = (),
    sort: str | None = None,
) -> Leaderboard:
    """Read results from folders and model repositories and set them beside each other.

    Args:
        folders: folders of runs and of evaluations, or copies of model repositories.
        repositories: ids of model repositories of the Hub.
        author: a user or an organization of the Hub, all of whose model repositories are read.
        collection: a collection of the Hub, all of whose model repositories are read.
        tasks: names of the tasks to show; none shows all.
        fingerprints: first digits of the fingerprints of data; of a task measured on several versions of its
            data, only those are shown.
        dataset_revisions: the same by the commits of datasets on the Hub.
        sort: the task, or `model`, `parameters` or `speed`, to order rows by; None takes the first task of
            each dataset.

    Raises:
        UnknownNameError: there is no such task or column.
        DataFormatError: a file is no result, or one of another version.
        EventformersError: nothing was found, or a task was measured on different data and none was chosen.
    """
    for name in tasks:
        get_task(name)
    if sort is not None and sort not in (*SORTABLE, *TASKS):
        raise UnknownNameError("column", sort, (*SORTABLE, *TASKS))
    found = [one for folder in folders for one in read_folder(folder)]
    if repositories or author or collection:
        from eventformers.leaderboard.hub import read_author, read_collection, read_repository

        found += [one for repo_id in repositories for one in read_repository(repo_id)]
        found += read_author(author) if author else []
        found += read_collection(collection) if collection else []
    return build_leaderboard(
        found, tasks=tasks, fingerprints=fingerprints, dataset_revisions=dataset_revisions, sort=sort
    )


def build_leaderboard(
    measurements: Iterable[Measurement],
    *,
    tasks: Sequence[str] = (),
    fingerprints: Sequence[str] = (),
    dataset_revisions: Sequence[str] = (),
    sort: str | None = None,
) -> Leaderboard:
    """Set measurements beside each other; arguments and errors as of `leaderboard`."""
    wanted = [one for one in measurements if not tasks or one.task in tasks]
    if not wanted:
        raise EventformersError(f"found no result of {', '.join(tasks) or 'any task'}; accepted: one or more")
    kept, left_out = same_data(wanted, fingerprints, dataset_revisions)
    boards = []
    for dataset in dict.fromkeys(task.dataset for task in TASKS.values()):
        own = [one for one in kept if TASKS[one.task].dataset == dataset]
        if own:
            boards.append(_board(dataset, own, sort))
    return Leaderboard(tuple(boards), tuple(left_out))


SORTABLE = ("model", "parameters", "speed")
"""What rows can be ordered by besides the scores of a task."""


def _board(dataset: str, measurements: Sequence[Measurement], sort: str | None) -> Board:
    columns = tuple(_columns(measurements))
    models = [one for one in measurements if not one.is_baseline]
    baselines = [one for one in measurements if one.is_baseline] + list(_start_encoders(measurements))
    rows = [
        *_ranked(_rows("model", models, columns)),
        *_distinct(_rows("baseline", baselines, columns)),
        *_published(columns),
    ]
    board = Board(dataset, BUILDERS[dataset].TITLE, columns, tuple(rows))
    return sorted_board(board, sort)


def sorted_board(board: Board, sort: str | None) -> Board:
    """A board with its rows ordered anew, models before baselines before published scores.

    Scores, parameters and speed go from the highest down, rows without one come last, and equal ones go by
    name.

    Args:
        board: the board.
        sort: as of `leaderboard`; a task that the board does not have is taken as None.
    """
    places = [place for place, column in enumerate(board.columns) if column.task == sort]
    by: int | str = sort if sort in SORTABLE else places[0] if places else 0

    def order(row: Row) -> tuple[int, bool, float, str, str]:
        if isinstance(by, int):
            cell = row.cells[by]
            value = cell.value if cell else None
        elif by == "model":
            value = 0.0
        else:
            value = row.parameters if by == "parameters" else row.texts_per_second
        return KINDS.index(row.kind), value is None, -(value or 0.0), row.model.lower(), row.variant

    return replace(board, rows=tuple(sorted(board.rows, key=order)), sorted_by=by)


def _columns(measurements: Sequence[Measurement]) -> Iterator[ScoreColumn]:
    """A column for each task, split and metric, in the order of the tasks."""
    order = list(TASKS)
    keys = {(order.index(one.task), one.split, one.metric) for one in measurements}
    for index, split, metric in sorted(keys):
        task = TASKS[order[index]]
        own = [one for one in measurements if (one.task, one.split, one.metric) == (task.name, split, metric)]
        yield ScoreColumn(
            task=task.name,
            title=task.title,
            description=task.description,
            split=split,
            metric=metric,
            # Where some tell a fingerprint and others a revision only, these are of one version.
            data=next((one.data for one in own if one.fingerprint), own[0].data),
            dataset_revision=next((one.dataset_revision for one in own if one.dataset_revision), None),
            origin=next((one.origin for one in own if one.origin), None),
            rows=next((one.rows for one in own if one.rows), None),
        )


def _start_encoders(measurements: Sequence[Measurement]) -> Iterator[Measurement]:
    """What the records of models tell of the encoders that they started from."""
    scored = [(one, one.baseline) for one in measurements if one.baseline is not None]
    readings: dict[str, set[str]] = {}
    for _, baseline in scored:
        if baseline.reading:
            readings.setdefault(baseline.model, set()).add(baseline.reading)
    for one, baseline in scored:
        several = len(readings.get(baseline.model, ())) > 1
        yield replace(
            one,
            model=baseline.model,
            revision=baseline.revision,
            value=baseline.value,
            variant=", ".join(filter(None, (one.variant, baseline.reading if several else ""))),
            seed=None,
            baseline=None,
            is_baseline=True,
            parameters=None,
            texts=None,
            seconds=None,
            device=None,
            card=None,
        )


def _rows(kind: Kind, measurements: Iterable[Measurement], columns: Sequence[ScoreColumn]) -> list[Row]:
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for one in _newest(measurements):
        groups.setdefault((_without_seed(one), one.variant), []).append(one)
    rows = []
    for (name, variant), own in groups.items():
        if _is_one_run_a_seed(own):
            several = len({one.seed for one in own}) > 1
            rows.append(_row(kind, name if several else own[0].model, variant, own, columns))
            continue
        runs: dict[tuple[str, str | None], list[Measurement]] = {}
        for one in own:
            runs.setdefault((one.model, one.revision), []).append(one)
        several_of_a_name = len({model for model, _ in runs}) < len(runs)
        for (model, revision), of_run in runs.items():
            told = f" ({revision[:7]})" if several_of_a_name and revision else ""
            rows.append(_row(kind, f"{model}{told}", variant, of_run, columns))
    return rows


def _newest(measurements: Iterable[Measurement]) -> list[Measurement]:
    """One measurement for each model, revision, variant and column; files that tell the model's revision and
    their time go before bare entries."""
    known: dict[tuple[str | None, ...], Measurement] = {}
    ordered = sorted(measurements, key=lambda one: (one.revision is not None, one.created))
    bare = {(one.model, one.variant, one.task, one.split, one.metric) for one in ordered if one.revision}
    for one in ordered:
        place = (one.model, one.variant, one.task, one.split, one.metric)
        if one.revision is None and place in bare:
            continue
        earlier = known.get((*place, one.revision))
        if earlier and score_text(earlier.value, one.metric) != score_text(one.value, one.metric):
            logger.warning(
                "%s, %s: measured as %s and %s on the same rows; the newest is shown",
                one.model,
                one.task,
                score_text(earlier.value, one.metric),
                score_text(one.value, one.metric),
            )
        known[(*place, one.revision)] = one
    return list(known.values())


def _without_seed(one: Measurement) -> str:
    """The model's name without its seed, where it ends in the one that is recorded."""
    named = _SEED.fullmatch(one.model)
    return named[1] if named and one.seed is not None and int(named[2]) == one.seed else one.model


def _is_one_run_a_seed(measurements: Sequence[Measurement]) -> bool:
    """Whether each seed is that of one run: two of one seed are no repetitions of each other."""
    runs: dict[int | None, set[tuple[str, str | None]]] = {}
    for one in measurements:
        runs.setdefault(one.seed, set()).add((one.model, one.revision))
    return all(len(of_seed) == 1 for of_seed in runs.values()) and (None not in runs or len(runs) == 1)


def _row(
    kind: Kind, model: str, variant: str, measurements: Sequence[Measurement], columns: Sequence[ScoreColumn]
) -> Row:
    timed = [(one.texts, one.seconds) for one in measurements if one.texts and one.seconds]
    seconds = sum(taken for _, taken in timed)
    return Row(
        kind=kind,
        model=model,
        variant=variant,
        cells=tuple(_cell(measurements, column) for column in columns),
        revisions=tuple(sorted({one.revision for one in measurements if one.revision})),
        seeds=tuple(sorted({one.seed for one in measurements if one.seed is not None})),
        parameters=next((one.parameters for one in measurements if one.parameters), None),
        texts_per_second=sum(texts for texts, _ in timed) / seconds if seconds else None,
        device=", ".join(sorted({one.device for one in measurements if one.device})) or None,
        card=next((one.card for one in measurements if one.card), None),
    )


def _cell(measurements: Sequence[Measurement], column: ScoreColumn) -> Cell | None:
    key = (column.task, column.split, column.metric)
    values = [one.value for one in measurements if (one.task, one.split, one.metric) == key]
    if not values:
        return None
    defined = [value for value in values if value is not None]
    return Cell(
        value=fmean(defined) if defined else None,
        spread=stdev(defined) if len(defined) > 1 else None,
        count=len(defined),
        undefined=len(values) - len(defined),
    )


def _ranked(rows: Sequence[Row]) -> list[Row]:
    """The rows with their places in each column; the place after two that share one is left free."""
    cells = [list(row.cells) for row in rows]
    for place in range(len(rows[0].cells) if rows else 0):
        scored = [(cell.value, row) for row in cells if (cell := row[place]) and cell.value is not None]
        scored.sort(key=lambda one: -one[0])
        before, rank = None, 0
        for position, (value, row) in enumerate(scored, start=1):
            if before is None or not isclose(value, before, rel_tol=1e-9):
                before, rank = value, position
            cell = row[place]
            row[place] = replace(cell, rank=rank) if cell else None
    return [replace(row, cells=tuple(own)) for row, own in zip(rows, cells, strict=True)]


def _distinct(rows: Sequence[Row]) -> list[Row]:
    """The baselines without those whose variant changes none of their scores."""
    plain = {row.model: row.cells for row in rows if not row.variant}
    return [
        row
        for row in rows
        if not row.variant
        or row.model not in plain
        or any(cell and cell != other for cell, other in zip(row.cells, plain[row.model], strict=True))
    ]


def _published(columns: Sequence[ScoreColumn]) -> list[Row]:
    """What papers published, in the columns of the rows that it was measured on."""
    systems: dict[str, list[Cell | None]] = {}
    for task in dict.fromkeys(column.task for column in columns):
        places = [place for place, column in enumerate(columns) if column.task == task]
        for place in places:
            column = columns[place]
            if column.metric != TASKS[task].main_score:
                continue
            known = TASKS[task].published_scores_on(column.split, column.rows, column.origin)
            for system, value in known.items():
                systems.setdefault(system, [None] * len(columns))[place] = Cell(value)
    return [Row("published", system, "", tuple(cells)) for system, cells in systems.items()]
