"""What a paper's table is made of: columns of scores, and rows of several kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from eventformers.evaluation.tasks import TASKS

if TYPE_CHECKING:
    from eventformers.reproduction.rows import ReproducedRow, Reproduction

UNTRAINED = "untrained"
"""The baseline of a row that measures the encoder from which the others start."""


@dataclass(frozen=True)
class Column:
    """A column of scores.

    Attributes:
        task: the evaluation task.
        title: what stands above it.
        score: the key of the metric's scores, or of a result's details.
        splits: the splits whose rows are scored together, those of them that the data has; empty takes the
            data's usual one.
        part: the part of a result that the score is of, such as `top_min`; empty for all rows.
    """

    task: str
    title: str
    score: str
    splits: tuple[str, ...] = ()
    part: str = ""

    @property
    def key(self) -> str:
        """Its name in files: the task, and what differs from the task's main score on the usual split."""
        score = "" if self.score == TASKS[self.task].main_score else self.score
        return " ".join(filter(None, (self.task, self.part, score, "+".join(self.splits))))


@dataclass(frozen=True)
class PaperRow:
    """A row of a table. This one only has published scores; a kind of row that is run here derives from it.

    Attributes:
        slug: short name for folders; empty for a row that is only published.
        label: what stands in the first column.
        published: the paper's scores, one for each column of the table; None where it has none.
    """

    slug: str
    label: str
    published: tuple[float | None, ...]

    # The part of its results that is shown, such as a language; empty for all of them.
    part = ""

    def plan(self, call: Reproduction, row: ReproducedRow) -> None:
        """Plan what the row is measured on and what it trains; a row without a digest is not filled.

        Raises:
            EventformersError: the data or the encoder cannot be loaded.
        """

    def fill(self, call: Reproduction, row: ReproducedRow) -> None:
        """Add the results to the row one after another, so that those before a failure stay.

        Raises:
            EventformersError: a run failed, or cannot be scored.
        """

    def state(self, trained: Sequence[str], measured: int, seconds: float) -> str:
        """Say what was done for the row, for the last column.

        Args:
            trained: for each training run, whether it was resumed and how long it took.
            measured: number of results that were measured.
            seconds: time of all of it.
        """
        state = f"measured, {seconds:.0f} s" if measured else "cached"
        return f"{len(trained)} trained, {state}" if trained else state

    def record(self, row: ReproducedRow) -> Mapping[str, object]:
        """Say what makes this row, for the JSON of the table, where every row has all keys."""
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
"""Scores by the number of graph layers, accuracy by the average node degree of the question's graph, or
recall by the number of candidates."""


@dataclass(frozen=True)
class PaperTable:
    """A table of a paper.

    Attributes:
        title: its title.
        method: the `model_type` that its rows train.
        columns: its columns of scores.
        rows: its rows, in the paper's order.
        reference: the label of the row that the others are compared with, question by question; empty for no
            comparison.
        figure: what is drawn of its scores; None for a table without a picture.
        runs: runs that make an averaged row or an ensemble; None for a table without such rows.
        recipes: the recipes that the rows start from where none is named, by the config of mentions that the
            training data have, `samples` for the bundled ones; empty takes the recipe of the paper.
        lists_clusters: whether the clusters of its last row are listed by their purity.
    """

    title: str
    method: str
    columns: tuple[Column, ...]
    rows: tuple[PaperRow, ...]
    reference: str = ""
    figure: Drawing | None = None
    runs: int | None = None
    recipes: Mapping[str, str] = field(default_factory=dict)
    lists_clusters: bool = False

    @property
    def own_rows(self) -> list[PaperRow]:
        """The rows that are run here."""
        return [row for row in self.rows if row.slug]


def main_score(task: str) -> Column:
    """Make the column of a task's main score on the usual split of the data."""
    return Column(task, TASKS[task].title, TASKS[task].main_score)


def published_row(label: str, *scores: float | None) -> PaperRow:
    """Show only the published scores of a system that is not run here."""
    return PaperRow("", label, scores)
