"""A paper's table: its columns and rows, and the state of these while the table is filled."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from eventformers.errors import DataFormatError, EventformersError
from eventformers.evaluation.data import load_task_data
from eventformers.evaluation.results import TaskResult, read_result
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks import TASKS, with_settings
from eventformers.evaluation.tasks.protocols import JsonValue, TaskSettings
from eventformers.loading.encoders import resolve_encoder
from eventformers.loading.models import faults_told, folder_revision, load_config, model_revision
from eventformers.methods import Method

MEASURED = "measured"
"""The entry in the log of a row for a result that was measured instead of read."""

UNTRAINED = "untrained"
"""The baseline of a row that measures the encoder that the other rows start from."""

Published = tuple[float | None, ...]
"""The scores of a row, one for each column; None for a missing score."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Column:
    """A column of scores.

    Attributes:
        task: the evaluation task.
        title: its heading.
        score: the key of the metric's scores, or of a result's details.
        splits: the splits to score together, as far as the data has them; empty takes the data's usual split.
        part: the part of a result that holds the score, such as `top_min`; empty for all rows.
        compared: compare rows in this column; False for one that describes them, as a number of clusters.
        rows: the number of the paper's rows by split, where the task has them for another split alone.
    """

    task: str
    title: str
    score: str
    splits: tuple[str, ...] = ()
    part: str = ""
    compared: bool = True
    rows: Mapping[str, int] = field(default_factory=dict, compare=False)

    @property
    def key(self) -> str:
        """The name in files: the task, and what differs from its main score on the usual split."""
        score = "" if self.score == TASKS[self.task].main_score else self.score
        return " ".join(filter(None, (self.task, self.part, score, "+".join(self.splits))))


@dataclass(frozen=True)
class PaperRow:
    """A row of a table. This class has published scores alone; rows to run derive from it.

    Attributes:
        slug: short name for folders; empty for a row that is only published.
        label: text of the first column.
        published: the paper's scores, one for each column of the table, None for a missing score; empty if
            the paper lacks the row.
    """

    slug: str
    label: str
    published: Published

    # The part of the results to show, such as a language; empty for all rows.
    part = ""

    def plan(self, call: Reproduction, row: ReproducedRow) -> None:
        """Plan the scored splits and the training runs; a row without a digest is not run.

        Raises:
            EventformersError: the data or the encoder cannot be loaded.
        """

    def fill(self, call: Reproduction, row: ReproducedRow) -> None:
        """Add results to the row one by one, so that those before a failure stay.

        Raises:
            EventformersError: a run fails, or cannot be scored.
        """

    def state(self, trained: Sequence[str], measured: int, seconds: float) -> str:
        """Describe what was done for the row, for the last column.

        Args:
            trained: for each training run, whether it was resumed, and its time.
            measured: number of measured results.
            seconds: total time.
        """
        state = f"measured, {seconds:.0f} s" if measured else "cached"
        return f"{len(trained)} trained, {state}" if trained else state

    def record(self, row: ReproducedRow) -> Mapping[str, object]:
        """Describe the row for the JSON of the table, where every row has all keys."""
        return {
            "overrides": None,
            "baseline": None,
            "rerank": False,
            "context_layers": 0,
            "induction": None,
            "grounding": None,
            "seeds": [],
            "ensemble": [],
        }


Drawing = Literal["hops", "degree", "recall"]
"""What a figure draws: scores by the number of graph layers (`hops`), accuracy by the average node degree of
the question's graph (`degree`), or recall by the number of candidates (`recall`)."""


@dataclass(frozen=True)
class PaperTable:
    """A table of a paper.

    Attributes:
        title: its title.
        method: the `model_type` that the rows train.
        columns: its columns of scores.
        rows: its rows, in the paper's order.
        compared: pairs of labels: the first row is compared with the second one in each compared column.
        drawn: by column, pairs of labels of which the paper draws or describes the first row as ahead of the
            second one, without stating the numbers.
        figure: the figure to draw of the scores; None for no figure.
        runs: number of runs of each trained row, averaged row or ensemble, with consecutive seeds.
        recipes: the default recipes by the config of mentions in the training data, `samples` for the bundled
            ones; empty takes the recipe of the paper.
        lists_clusters: list the clusters of the last row by purity.
    """

    title: str
    method: str
    columns: tuple[Column, ...]
    rows: tuple[PaperRow, ...]
    compared: tuple[tuple[str, str], ...] = ()
    drawn: Mapping[Column, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    figure: Drawing | None = None
    runs: int = 1
    recipes: Mapping[str, str] = field(default_factory=dict)
    lists_clusters: bool = False

    def published(self, row: PaperRow) -> dict[Column, float | None]:
        """Return the paper's score of a row in each column; None where the paper has none."""
        return dict(zip(self.columns, row.published or (None,) * len(self.columns), strict=True))


def main_score(task: str) -> Column:
    """Make the column of a task's main score on the usual split of the data."""
    return Column(task, TASKS[task].title, TASKS[task].main_score)


def published_row(label: str, *scores: float | None) -> PaperRow:
    """Make a row of published scores for a system that is not run."""
    return PaperRow("", label, scores)


def with_each_other(label: str, rows: Sequence[PaperRow]) -> tuple[tuple[str, str], ...]:
    """Pair the row of a label with each other row that is run, for `PaperTable.compared`."""
    return tuple((label, row.label) for row in rows if row.slug and row.label != label)


@dataclass(frozen=True)
class ScoredSplit:
    """The rows of a task that models are scored on.

    Attributes:
        task: the task.
        split: the split.
        fingerprint: digest of all rows that decide a score.
        is_usual: whether it is the task's default split.
        settings: settings of the task; None for the defaults.
    """

    task: str
    split: str
    fingerprint: str
    is_usual: bool
    settings: TaskSettings | None = None

    @property
    def key(self) -> str:
        """The name in files: the task, with split and settings if they are not the usual ones."""
        return " ".join(filter(None, (self.task, "" if self.is_usual else self.split, self.data_settings)))

    @property
    def data_settings(self) -> str:
        """The settings of the data that differ from the defaults, as text."""
        chosen = with_settings(TASKS[self.task], self.settings or {}).kind.data_settings
        return " ".join(name if value is True else str(value) for name, value in chosen.items())


Columns = Mapping[Column, tuple[ScoredSplit, ...]]
"""The scored splits of each column; empty if the data lacks its task or splits."""


def splits_of(columns: Columns, tasks: Collection[str] | None = None) -> tuple[ScoredSplit, ...]:
    """List the splits of columns, each once; with `tasks` only the splits of these."""
    return tuple(
        dict.fromkeys(
            wanted
            for column, splits in columns.items()
            for wanted in splits
            if tasks is None or column.task in tasks
        )
    )


@dataclass(frozen=True)
class Run:
    """A training run that several rows may share.

    Attributes:
        name: the start of its folder's name.
        method: the method.
        recipe: name or YAML file of its recipe.
        settings: overrides of the recipe.
        seed: its seed.
        stages: for every stage but the last, a digest of what decides the model after it.
        digest: digest of what decides its outcome.
    """

    name: str
    method: Method
    recipe: str
    settings: tuple[str, ...]
    seed: int
    stages: tuple[str, ...]
    digest: str


@dataclass
class ReproducedRow:
    """The state of a row while the table is filled.

    Attributes:
        paper: the row in the paper.
        columns: the scored splits of each column.
        splits: those that this row is scored on.
        runs: the training runs to score; empty for a baseline.
        helpers: further training runs: those of its ensemble, or a cross-encoder for each of `runs`.
        digest: digest of what decides its outcome; empty for a row that is not run.
        state: what was done for it.
        folder: its model's folder, once known.
        results_of_runs: the results of each of its runs.
    """

    paper: PaperRow
    columns: Columns
    splits: tuple[ScoredSplit, ...] = ()
    runs: tuple[Run, ...] = ()
    helpers: tuple[Run, ...] = ()
    digest: str = ""
    state: str = "published"
    folder: Path | None = None
    results_of_runs: list[dict[ScoredSplit, TaskResult]] = field(default_factory=list)

    @property
    def results(self) -> dict[ScoredSplit, TaskResult]:
        """The results of its first run; they say on which rows all runs were scored."""
        return self.results_of_runs[0] if self.results_of_runs else {}

    def add_run(self, result_of: Callable[[ScoredSplit], TaskResult]) -> None:
        """Add the results of a run one by one, so that those before a failure stay."""
        results: dict[ScoredSplit, TaskResult] = {}
        self.results_of_runs.append(results)
        for wanted in self.splits:
            results[wanted] = result_of(wanted)

    @property
    def tasks(self) -> list[str]:
        """The tasks that the row is scored on."""
        return list(dict.fromkeys(wanted.task for wanted in self.splits))


@dataclass(frozen=True)
class Reproduction:
    """The settings and state that all rows of a table share.

    Attributes:
        table: the table in the paper.
        method: the method that its rows train.
        folder: folder of runs and tables.
        recipe: name or YAML file of the recipe that the rows start from.
        settings: overrides of the recipe for every row.
        seed: seed of every row.
        encoder: Hub id or folder of the pretrained encoder; None for the packaged one.
        data: training data; None for the samples.
        evaluation_data: raw files of the tasks; None for the samples.
        device: torch device; None chooses one.
        dtype: precision; None for float32.
        runs: number of runs of an averaged row or an ensemble.
        session: data, and for some rows vectors of mentions, that rows share.
        results: results by their folder.
        done: log of the current row: `MEASURED` for each result, a text for each training run.
    """

    table: PaperTable
    method: Method
    folder: Path
    recipe: str
    settings: tuple[str, ...]
    seed: int
    encoder: str | None
    data: str | None
    evaluation_data: str | None
    device: str | None
    dtype: str | None
    runs: int
    session: Session = field(compare=False)
    results: dict[Path, list[TaskResult]] = field(default_factory=dict, compare=False)
    done: list[str] = field(default_factory=list, compare=False)

    @cached_property
    def encoder_identity(self) -> str:
        """The digest of a folder's weights, or a Hub id with its commit."""
        source = resolve_encoder(self.encoder)
        if Path(source).is_dir():
            return folder_revision(Path(source))
        with faults_told(source):
            load_config(source)
        return f"{source}@{model_revision(source)}"

    @cached_property
    def columns(self) -> Columns:
        """The scored splits of each column with default settings; errors as in `read_by`."""
        return self.read_by(lambda task: None)

    def read_by(self, settings_of: Callable[[str], TaskSettings | None]) -> Columns:
        """Find the scored splits of each column; empty if the data lacks its task or splits.

        Args:
            settings_of: maps a task to its settings, None for the defaults; raises an `EventformersError` if
                the data lacks what the task needs.

        Raises:
            DataFormatError: a raw file cannot be read.
            EventformersError: the data has nothing for any column.
        """
        columns: dict[Column, tuple[ScoredSplit, ...]] = {}
        missing: dict[str, EventformersError] = {}
        for column in self.table.columns:
            try:
                columns[column] = self.splits(column.task, column.splits, settings_of(column.task))
            except DataFormatError:
                raise
            except EventformersError as error:
                columns[column] = ()
                missing[column.task] = error
        if missing and not any(columns.values()):
            raise next(iter(missing.values()))
        for name, reason in missing.items():
            logger.warning("the columns of %s stay empty: %s", name, reason)
        return columns

    def splits(
        self, name: str, wanted: Sequence[str] = (), settings: TaskSettings | None = None
    ) -> tuple[ScoredSplit, ...]:
        """Find the splits of a task that the data has.

        Args:
            name: the task.
            wanted: the splits; empty takes the usual one.
            settings: settings of the task; None for the defaults.

        Raises:
            DataFormatError: a raw file cannot be read.
            EventformersError: the data lacks the task.
        """
        task = with_settings(TASKS[name], settings or {})
        held = load_task_data(task, self.evaluation_data, self.session.data)
        usual = task.choose_split(held.splits)
        return tuple(
            ScoredSplit(name, split, replace(held, split=split).fingerprint, split == usual, settings)
            for split in wanted or (usual,)
            if split in held.splits and len(held.splits[split])
        )

    def result(
        self,
        wanted: ScoredSplit,
        places: Sequence[Path],
        measure: Callable[..., TaskResult],
        is_same: Callable[[TaskResult], bool] = lambda result: True,
    ) -> TaskResult:
        """Return an earlier result, or measure a new one.

        Args:
            wanted: the rows to score.
            places: folders that may hold the result; a new one is written to the last.
            measure: `evaluate` with its model, or a baseline.
            is_same: returns whether a result on these rows was measured in the same way.
        """
        for place in places:
            if place not in self.results:
                self.results[place] = _readable_results(place)
            for held in self.results[place]:
                rows = (held.task, held.dataset.split, held.dataset.fingerprint)
                if rows == (wanted.task, wanted.split, wanted.fingerprint) and is_same(held):
                    return held
        measured = measure(
            wanted.task,
            data=self.evaluation_data,
            split=wanted.split,
            device=self.device,
            output=places[-1],
            overwrite=True,
        )
        self.results[places[-1]].append(measured)
        self.done.append(MEASURED)
        return measured

    def row_folder(self, row: ReproducedRow) -> Path:
        """Return the folder of a row that shares its runs with others, or has none."""
        return self.folder / f"{slug(row.paper.slug)}-{row.digest}"


def other_evaluation(folder: Path, wanted: ScoredSplit) -> Path:
    """Return the folder for results on other rows than those of the training run."""
    return folder / "evaluations" / wanted.fingerprint[:12]


def _readable_results(folder: Path) -> list[TaskResult]:
    results = []
    for path in sorted((folder / "results").rglob("*.json")):
        try:
            results.append(read_result(path))
        except DataFormatError as error:
            logger.warning("%s; it is measured again", error)
    return results


def identity_digest(identity: Mapping[str, object]) -> str:
    """Compute a digest of what decides an outcome."""
    text = json.dumps(identity, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_record(path: Path) -> dict[str, JsonValue]:
    """Read a JSON object; empty if it is missing or unreadable."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError):
        return {}
    return content if isinstance(content, dict) else {}


def slug(text: str) -> str:
    """Turn a text into the name of a folder."""
    return re.sub(r"[^\w.-]+", "-", text).strip("-")
