"""Leaderboards: scores of models on the same data, with baselines and published scores."""

from __future__ import annotations

import logging
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

import pandas as pd

from eventformers.datasets_scripts.building import BUILDERS
from eventformers.errors import EventformersError, UnknownNameError, counted
from eventformers.evaluation.significance import Answers, PairedComparison, compare_answers, mean_answers
from eventformers.evaluation.tasks import TASKS, get_task
from eventformers.leaderboard.sources import (
    UNKNOWN_DATA,
    BaselineScore,
    Measurement,
    read_author,
    read_collection,
    read_folder,
    read_repository,
)
from eventformers.model_cards.scores import score_text

COLUMN = ["task", "split", "metric"]
"""The attributes that identify a column of a leaderboard."""

_TOLD_SOURCES = 3


def same_data(
    found: pd.DataFrame, fingerprints: Sequence[str] = (), revisions: Sequence[str] = ()
) -> tuple[pd.DataFrame, list[str]]:
    """Choose the measurements of one version of the data for each task and split.

    A result with only a revision has the fingerprint of other results of that revision. If a chosen
    fingerprint or revision occurs in a column, other versions are left out of that column.

    Args:
        fingerprints: first digits of chosen fingerprints; `unknown` for results without one.
        revisions: first digits of chosen revisions.

    Returns:
        The measurements, with one name for their data, and a sentence for each version left out.

    Raises:
        EventformersError: a column has several versions of the data, or a choice matches nothing.
    """
    matched = _matched(found, fingerprints, revisions)
    if missing := [choice for choice in (*fingerprints, *revisions) if choice not in matched]:
        known = {*found.data, *found.dataset_revision.dropna()}
        raise EventformersError(
            f"found no result on data {', '.join(missing)}; accepted: one of {', '.join(sorted(known))}"
        )
    of_fingerprint = found.data.where(found.fingerprint.notna())
    of_revision = of_fingerprint.groupby([found[name] for name in (*COLUMN, "dataset_revision")])
    names = of_fingerprint.fillna(of_revision.transform("last")).fillna(found.data)
    kept: list[pd.DataFrame] = []
    left_out: list[str] = []
    for (task, split, _), own in found.groupby(COLUMN, sort=False):
        versions = dict(list(own.groupby(names, sort=False)))
        chosen = [name for name, one in versions.items() if _matched(one, fingerprints, revisions)]
        shown = chosen or list(versions)
        if len(shown) > 1:
            told = "; ".join(_version_text(name, versions[name]) for name in shown)
            raise EventformersError(
                f"{task} ({split}): found results on different data, which cannot be compared: {told}; "
                "choose one by --fingerprint or --dataset-revision, or pass other folders"
            )
        kept.append(versions[shown[0]].assign(data=shown[0]))
        left_out += [
            f"{task} ({split}): left out, on other data: {_version_text(name, of_version)}"
            for name, of_version in versions.items()
            if name not in shown
        ]
    return pd.concat(kept), left_out


def _matched(found: pd.DataFrame, fingerprints: Sequence[str], revisions: Sequence[str]) -> set[str]:
    """Return the choices that match the data of at least one measurement."""
    known = found.fingerprint.fillna(UNKNOWN_DATA)
    short = tuple(found.data)
    return {
        *(name for name in fingerprints if known.str.startswith(name).any() or name.startswith(short)),
        *(name for name in revisions if found.dataset_revision.fillna("").str.startswith(name).any()),
    }


def _version_text(name: str, found: pd.DataFrame) -> str:
    """Describe a version of the data: its name, its size and its runs."""
    first = found.iloc[0]
    facts = [counted(first.rows, "row") if first.rows else "", first.origin or ""]
    told = ", ".join(filter(None, facts))
    label = name if name == UNKNOWN_DATA or name.startswith("revision ") else f"fingerprint {name}"
    sources = list(found.model.unique())
    more = f" and {len(sources) - _TOLD_SOURCES} more" if len(sources) > _TOLD_SOURCES else ""
    return f"{label}{f' ({told})' if told else ''} by {', '.join(sources[:_TOLD_SOURCES])}{more}"


logger = logging.getLogger(__name__)

Kind = Literal["model", "baseline", "published"]
"""Trained models; baselines and untrained encoders; published scores."""

KINDS: tuple[Kind, ...] = ("model", "baseline", "published")

NUM_RESAMPLES = 2_000
"""Number of resamples: enough for an interval, with thousands of rows in seconds."""

_SEED = re.compile(r"(.+?)[-_.]?seed[-_]?(\d+)")


@dataclass(frozen=True)
class ScoreColumn:
    """A task on one split of one version of its data.

    Attributes:
        metric: the metric's key of the score.
        data: short name of the data, as in `Measurement.data`.
        origin: `samples`, `local` or `hub`, if known.
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
        """The name in JSON: task and split."""
        return f"{self.task}/{self.split}"


@dataclass(frozen=True)
class Cell:
    """A score in a column.

    Attributes:
        value: mean over the seeds with a defined metric; None if there are none.
        spread: standard deviation over these seeds; None for fewer than two.
        count: number of these seeds; 0 for a published score.
        undefined: number of seeds without a defined metric.
        rank: rank among the models; equal scores share one. None for other rows.
        answers: mean over these seeds of the answers to each row; None if a seed has no predictions.
        clusters: the cluster of each row, if the predictions name it.
        next_model: the model whose score is next below, if both have answers.
        comparison: comparison with that model by the paired bootstrap.
    """

    value: float | None
    spread: float | None = None
    count: int = 0
    undefined: int = 0
    rank: int | None = None
    answers: Answers | None = field(default=None, repr=False, compare=False)
    clusters: Sequence[Hashable] | None = field(default=None, repr=False, compare=False)
    next_model: str | None = None
    comparison: PairedComparison | None = None

    @property
    def is_close(self) -> bool:
        """True if the interval of the difference from the next model has 0 in it."""
        return self.comparison is not None and self.comparison.low <= 0


@dataclass(frozen=True)
class Row:
    """A model with one set of evaluation settings, over its seeds.

    Attributes:
        model: name of the model, without the seed if the row combines several seeds.
        variant: settings that differ from the model's own.
        cells: a score for each column; None if there is none.
        parameters: number of parameters, if recorded.
        texts_per_second: distinct texts encoded and compared in a second, if recorded.
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
        """Maximum number of runs behind a score; 0 for published scores."""
        return max((cell.count + cell.undefined for cell in self.cells if cell), default=0)


@dataclass(frozen=True)
class Board:
    """The tasks of one dataset.

    Attributes:
        dataset: its builder, in snake_case.
        rows: models, baselines and published scores, in this order, each sorted by a column.
        sorted_by: index of the score column, or the name of another column.
    """

    dataset: str
    title: str
    columns: tuple[ScoreColumn, ...]
    rows: tuple[Row, ...]
    sorted_by: int | str = 0


@dataclass(frozen=True)
class Leaderboard:
    """Boards, and notes about results left out.

    Attributes:
        left_out: sentences about results that are not shown.
    """

    boards: tuple[Board, ...]
    left_out: tuple[str, ...] = ()


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
    """Compare results from folders and model repositories.

    Args:
        folders: folders of runs and of evaluations, or copies of model repositories.
        repositories: ids of model repositories on the Hub.
        author: a user or an organization on the Hub, to read all model repositories of.
        collection: a collection on the Hub, to read all model repositories of.
        tasks: names of the tasks to show; empty shows all.
        fingerprints: first digits of the fingerprints of data to show, for tasks measured on several versions
            of their data.
        dataset_revisions: the same for commits of datasets on the Hub.
        sort: a task, or `model`, `parameters` or `speed`, to sort rows by; None takes the first task of each
            dataset.

    Raises:
        UnknownNameError: there is no such task or column.
        DataFormatError: a file is not a result, or has another version.
        EventformersError: there is no result, or a task was measured on different data and none was chosen.
    """
    for name in tasks:
        get_task(name)
    if sort is not None and sort not in (*SORTABLE, *TASKS):
        raise UnknownNameError("column", sort, (*SORTABLE, *TASKS))
    found = [one for folder in folders for one in read_folder(folder)]
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
    """Compare measurements; arguments and errors as for `leaderboard`."""
    asked = [one for one in measurements if not tasks or one.task in tasks]
    if not asked:
        raise EventformersError(f"found no result of {', '.join(tasks) or 'any task'}; accepted: one or more")
    # A row for each measurement, a column for each attribute.
    found = pd.DataFrame([{**vars(one), "data": one.data} for one in asked], dtype=object)
    found = found.astype({"value": float})
    # The data of a paper are unknown, so they are no version beside those of the runs.
    of_papers = found.is_published.astype(bool)
    kept, left_out = (
        same_data(found[~of_papers], fingerprints, dataset_revisions)
        if not of_papers.all()
        else (found[~of_papers], [])
    )
    # The samples are not the data of a paper.
    of_samples = {tuple(key) for key in kept.loc[kept.origin == "samples", COLUMN].to_numpy().tolist()}
    papers = found[of_papers]
    is_kept = [tuple(key) not in of_samples for key in papers[COLUMN].to_numpy().tolist()]
    beside_samples = papers.drop(papers.index[is_kept])
    left_out += [
        f"{task}: left out the published score of {model}, since the results are of the samples"
        for task, model in zip(beside_samples.task, beside_samples.model, strict=True)
    ]
    kept = pd.concat([kept, papers[pd.Series(is_kept, papers.index, dtype=bool)]])
    by_dataset = dict(list(kept.groupby(kept.task.map(lambda name: TASKS[name].dataset))))
    order = dict.fromkeys(task.dataset for task in TASKS.values())
    boards = [_board(name, by_dataset[name], sort) for name in order if name in by_dataset]
    return Leaderboard(tuple(boards), tuple(left_out))


SORTABLE = ("model", "parameters", "speed")
"""The keys for sorting rows other than tasks."""


def _board(dataset: str, found: pd.DataFrame, sort: str | None) -> Board:
    columns = []
    order = found.task.map(list(TASKS).index)
    for (_, name, split, metric), own in found.groupby([order, *COLUMN]):
        task, facts = TASKS[name], _first_known(own, ["data", "dataset_revision", "origin", "rows"])
        columns.append(ScoreColumn(task.name, task.title, task.description, split, metric, **facts))
    of_papers = found.is_published.astype(bool)
    published = list(_rows("published", found[of_papers], columns))
    found = found[~of_papers]
    is_baseline = found.is_baseline.astype(bool)
    baselines = list(_rows("baseline", pd.concat([found[is_baseline], _start_encoders(found)]), columns))
    plain = {row.model: row.cells for row in baselines if not row.variant}
    # Scores of papers, in the columns with the rows that they were measured on.
    systems: dict[str, list[Cell | None]] = {}
    for place, column in enumerate(columns):
        task = TASKS[column.task]
        if column.metric == task.main_score:
            for system, value in task.published_scores_on(column.split, column.rows, column.origin).items():
                systems.setdefault(system, [None] * len(columns))[place] = Cell(value)
    rows = [
        *_ranked(list(_rows("model", found[~is_baseline], columns))),
        # Without those whose variant changes no score.
        *(
            row
            for row in baselines
            if not row.variant
            or row.model not in plain
            or any(cell and cell != other for cell, other in zip(row.cells, plain[row.model], strict=True))
        ),
        *(Row("published", system, "", tuple(cells)) for system, cells in systems.items()),
        *(
            replace(row, cells=tuple(cell and replace(cell, count=0) for cell in row.cells))
            for row in published
        ),
    ]
    return sorted_board(Board(dataset, BUILDERS[dataset].TITLE, tuple(columns), tuple(rows)), sort)


def sorted_board(board: Board, sort: str | None) -> Board:
    """Sort the rows of a board: models, then baselines, then published scores.

    Scores, parameters and speed sort in descending order, missing values last, ties by name.

    Args:
        sort: as for `leaderboard`; a task that the board does not have counts as None.
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


def _start_encoders(found: pd.DataFrame) -> pd.DataFrame:
    """Make rows of the untrained encoders in the records of models."""
    own = found[found.baseline.notna()]
    names = [entry.name for entry in fields(BaselineScore)]
    starts = pd.DataFrame([vars(one) for one in own.baseline], own.index, names, dtype=object)
    readings = starts.reading.where(starts.reading != "").groupby(starts.model).transform("nunique")
    told = zip(own.variant, starts.reading.where(readings > 1, ""), strict=True)
    return (
        own[[*COLUMN, "created"]]
        .assign(
            model=starts.model,
            revision=starts.revision,
            value=starts.value.astype(float),
            variant=[", ".join(filter(None, parts)) for parts in told],
        )
        .reindex(columns=found.columns)
    )


def _rows(kind: Kind, found: pd.DataFrame, columns: Sequence[ScoreColumn]) -> Iterator[Row]:
    """Yield a row for each model and variant, from the newest measurement of each revision and column.

    A measurement without revision is dropped if the same model has others with a revision.
    """
    place = ["model", "variant", *COLUMN]
    has_revision = found.revision.notna()
    is_replaced = ~has_revision & has_revision.groupby([found[name] for name in place]).transform("any")
    known = found[~is_replaced].sort_values("created", kind="stable")
    for (model, _, task, _, metric, _), own in known.groupby([*place, "revision"], sort=False, dropna=False):
        scores = dict.fromkeys(score_text(_known(value), metric) for value in own.value)
        if len(scores) > 1:
            logger.warning(
                "%s, %s: found different scores on the same rows: %s; showing the newest",
                *(model, task, " and ".join(scores)),
            )
    newest = known.drop_duplicates([*place, "revision"], keep="last")
    # Without the recorded seed at their end.
    names = [
        named[1] if (named := _SEED.fullmatch(model)) and pd.notna(seed) and int(named[2]) == seed else model
        for model, seed in zip(newest.model, newest.seed, strict=True)
    ]
    for (name, variant), own in newest.groupby([pd.Series(names, newest.index), "variant"], sort=False):
        runs = own.drop_duplicates(["seed", "model", "revision"])
        # Two runs with the same seed are different models, so they get separate rows.
        if runs.seed.is_unique and (len(runs) == 1 or runs.seed.notna().all()):
            yield _row(kind, name if len(runs) > 1 else own.model.iat[0], variant, own, columns)
            continue
        several = runs.drop_duplicates(["model", "revision"]).model.duplicated().any()
        for (model, revision), of_run in own.groupby(["model", "revision"], sort=False, dropna=False):
            told = f" ({revision[:7]})" if several and pd.notna(revision) else ""
            yield _row(kind, f"{model}{told}", variant, of_run, columns)


def _row(kind: Kind, model: str, variant: str, own: pd.DataFrame, columns: Sequence[ScoreColumn]) -> Row:
    timed = own.dropna(subset=["texts", "seconds"])
    cells = {}
    for key, runs in own.groupby(COLUMN):
        known = runs.dropna(subset="value")
        values = known.value.tolist()
        answers = [one for one in known.answers if isinstance(one, list)]
        has_answers = len(answers) == len(known) > 0 and len({tuple(map(len, one)) for one in answers}) == 1
        cells[key] = Cell(
            # These sum exactly, so the result does not depend on the order of files.
            fmean(values) if values else None,
            stdev(values) if len(values) > 1 else None,
            len(values),
            len(runs) - len(values),
            answers=mean_answers(answers) if has_answers else None,
            clusters=next((one for one in known.clusters if isinstance(one, list)), None),
        )
    return Row(
        kind=kind,
        model=model,
        variant=variant,
        cells=tuple(cells.get((column.task, column.split, column.metric)) for column in columns),
        revisions=tuple(sorted(own.revision.dropna().unique())),
        seeds=tuple(sorted(own.seed.dropna().unique())),
        texts_per_second=timed.texts.sum() / timed.seconds.sum() if len(timed) else None,
        device=", ".join(sorted(own.device.dropna().unique())) or None,
        **_first_known(own, ["parameters", "card"]),
    )


def _first_known(found: pd.DataFrame, names: list[str]) -> dict[str, Any]:
    """Return the first known value of each column, or None."""
    return {name: _known(value) for name, value in found[names].bfill().iloc[0].items()}


def _known(value: Any) -> Any:
    return None if pd.isna(value) else value


def _ranked(rows: Sequence[Row]) -> list[Row]:
    """Rank the rows in each column, and compare each with the one whose score is next below, if both have
    answers; after two equal scores, the next rank is skipped."""
    columns = []
    for cells in zip(*(row.cells for row in rows), strict=True):
        values = pd.Series([cell.value if cell else None for cell in cells], dtype=float)
        ranks = values.round(9).rank(method="min", ascending=False)
        ranked = [
            cell and replace(cell, rank=None if pd.isna(rank) else int(rank))
            for cell, rank in zip(cells, ranks, strict=True)
        ]
        order = values.dropna().sort_values(ascending=False, kind="stable").index
        for place, following in pairwise(order):
            one, other = ranked[place], cells[following]
            if one and other and one.answers is not None and other.answers is not None:
                comparison = compare_answers(
                    one.answers, other.answers, num_resamples=NUM_RESAMPLES, clusters=one.clusters
                )
                ranked[place] = replace(one, next_model=rows[following].model, comparison=comparison)
        columns.append(ranked)
    return [replace(row, cells=cells) for row, cells in zip(rows, zip(*columns, strict=True), strict=True)]
