"""The parts of a paper's table: columns of scores, and rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from eventformers.evaluation.tasks import TASKS

if TYPE_CHECKING:
    from eventformers.reproduction.rows import ReproducedRow, Reproduction

UNTRAINED = "untrained"
"""The baseline of a row that measures the encoder that the other rows start from."""


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
    """

    task: str
    title: str
    score: str
    splits: tuple[str, ...] = ()
    part: str = ""
    compared: bool = True

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
        published: the paper's scores, one for each column of the table; None for a missing score.
    """

    slug: str
    label: str
    published: tuple[float | None, ...]

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
    figure: Drawing | None = None
    runs: int = 1
    recipes: Mapping[str, str] = field(default_factory=dict)
    lists_clusters: bool = False


def main_score(task: str) -> Column:
    """Make the column of a task's main score on the usual split of the data."""
    return Column(task, TASKS[task].title, TASKS[task].main_score)


def published_row(label: str, *scores: float | None) -> PaperRow:
    """Make a row of published scores for a system that is not run."""
    return PaperRow("", label, scores)


def with_each_other(label: str, rows: Sequence[PaperRow]) -> tuple[tuple[str, str], ...]:
    """Pair the row of a label with each other row that is run, for `PaperTable.compared`."""
    return tuple((label, row.label) for row in rows if row.slug and row.label != label)
