"""What a paper's table is made of: columns of scores, and rows that we run or that are only published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from eventformers.evaluation.tasks import TASKS
from eventformers.evaluation.tasks.grounding_protocols import GroundingSettings
from eventformers.evaluation.tasks.induction_protocols import InductionSettings

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
    """A row of a table.

    Attributes:
        slug: short name for folders; empty for a row that is only published.
        label: what stands in the first column.
        published: the paper's scores, one for each column of the table; None where it has none.
        overrides: recipe settings, `section.key=value`, that make this row; None for a row that trains no
            model of ours.
        baseline: a key of `BASELINES` for a row that measures one, or `UNTRAINED`; empty for every other row.
        rerank: whether alternatives are re-ranked by the votes of training premises, where a task ranks some.
        context_layers: graph layers by which single events are read at the end of training chains, where a
            task compares events; 0 reads them alone.
        variant: ending of the recipes that have settings for such rows: where there is one of the table's
            recipe's name with it, such as `minilm-heterevent`, the row starts from that.
        stages: the stages that the row's recipe must begin with; a recipe that begins otherwise runs these
            alone. Empty takes the recipe's.
        method: the `model_type` that the row trains, with settings of its own, where it is not the table's.
        induction: how mentions are read and clustered, for a row that is scored by its own reading of models
            which it shares with other rows; None for every other row.
        averaged: whether the row's scores are means over the table's `runs`, with seeds that follow.
        ensemble: whether mentions are clustered by the mean distances of as many runs of the table's recipe.
        grounding: which mentions and events are read, for a row that is scored on its own; None for every
            other row.
        part: the part of its results that is shown, such as a language; empty for all of them.
    """

    slug: str
    label: str
    published: tuple[float | None, ...]
    overrides: tuple[str, ...] | None = ()
    baseline: str = ""
    rerank: bool = False
    context_layers: int = 0
    variant: str = ""
    stages: tuple[str, ...] = ()
    method: str = ""
    induction: InductionSettings | None = None
    averaged: bool = False
    ensemble: bool = False
    grounding: GroundingSettings | None = None
    part: str = ""


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
        runs: runs that make an averaged row or an ensemble.
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
    runs: int = 1
    recipes: Mapping[str, str] = field(default_factory=dict)
    lists_clusters: bool = False

    @property
    def own_rows(self) -> list[PaperRow]:
        """The rows that are run here."""
        return [row for row in self.rows if row.overrides is not None or row.baseline]


def main_score(task: str) -> Column:
    """The column of a task's main score on the data's usual split."""
    return Column(task, TASKS[task].title, TASKS[task].main_score)


def published_row(label: str, *scores: float | None) -> PaperRow:
    """A system that is not ours to run, of which only the published scores are shown."""
    return PaperRow("", label, scores, None)
