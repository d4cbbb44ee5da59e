"""Comparisons of two rows of a table: how far one is ahead of the other, with a confidence interval."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from scipy.stats import ttest_1samp

from eventformers.errors import EventformersError
from eventformers.evaluation.data import load_data
from eventformers.evaluation.significance import (
    CONFIDENCE,
    Answers,
    PairedComparison,
    answers_of,
    compare_answers,
    graded_pairs,
    mean_answers,
    paired_correlations,
)
from eventformers.evaluation.tasks import TASKS, with_settings
from eventformers.markdown import cell
from eventformers.markdown import table as markdown_table
from eventformers.model_cards.scores import score_text
from eventformers.reproduction.findings import Finding
from eventformers.reproduction.rows import Column, ReproducedRow, Reproduction
from eventformers.reproduction.scores import run_values, scores_of_runs

_ROUNDING = 1e-6
"""The largest difference between a score and the mean of its decisions, in percentage points."""


@dataclass(frozen=True)
class RowComparison:
    """A comparison of two rows in a column.

    Attributes:
        row: label of the row.
        other: label of the other row.
        column: key of the column.
        title: title of the column.
        score: the column's score.
        published: the paper's difference; None if it lacks one of the scores.
        difference: the mean score of the row's runs minus that of the other's.
        of_runs: the difference of each pair of runs with equal seeds; a single run, such as an untrained
            encoder or an ensemble, is paired with each run of the other row.
        low: lower end of the confidence interval: by the paired bootstrap over questions, or by Student's t
            over runs; None for a single run of a score that is no mean over questions.
        high: its upper end.
        questions: number of questions; 0 for an interval over runs.
        drawn: whether the paper draws the row as ahead of the other one, without stating the numbers.
    """

    row: str
    other: str
    column: str
    title: str
    score: str
    published: float | None
    difference: float
    of_runs: tuple[float, ...]
    low: float | None
    high: float | None
    questions: int
    drawn: bool = False

    def turned(self) -> RowComparison:
        """Exchange the two rows."""
        return replace(
            self,
            row=self.other,
            other=self.row,
            published=None if self.published is None else -self.published,
            difference=-self.difference,
            of_runs=tuple(-value for value in self.of_runs),
            low=None if self.high is None else -self.high,
            high=None if self.low is None else -self.low,
        )


def compare_rows(call: Reproduction, rows: Sequence[ReproducedRow]) -> Finding | None:
    """Compare the pairs of rows that a table names, in the columns that both have.

    A score that is a mean over questions, or a rank correlation over pairs, is compared by the paired
    bootstrap, over whole documents or gold events if the data names them. Any other score is compared over
    runs.

    Args:
        call: what the rows share.
        rows: the rows, with their results.

    Returns:
        The comparisons; None if no pair has results.

    Raises:
        EventformersError: the data cannot be loaded.
    """
    by_label = {row.paper.label: row for row in rows}
    table = call.table
    stated = [(pair, column) for pair in table.compared for column in table.columns if column.compared]
    drawn = [(pair, column) for column, pairs in table.drawn.items() for pair in pairs]
    compared = [
        replace(found, drawn=is_drawn)
        for claims, is_drawn in ((stated, False), (drawn, True))
        for (label, other), column in claims
        if label in by_label and other in by_label
        if (found := _compare(call, by_label[label], by_label[other], column)) is not None
    ]
    if not compared:
        return None
    return Finding("comparisons", _section(compared), {"pairs": [asdict(one) for one in compared]})


def _compare(
    call: Reproduction, row: ReproducedRow, other: ReproducedRow, column: Column
) -> RowComparison | None:
    values, others = (run_values(scores_of_runs(one), column) for one in (row, other))
    if not values or not others:
        return None
    # Rows have one run or as many as the table.
    of_runs = np.subtract(values, others).tolist()
    by_question = _by_question(call, row, other, column)
    low, high = _interval_of_runs(of_runs) if by_question is None else (by_question.low, by_question.high)
    paper, others_paper = (call.table.published(one.paper)[column] for one in (row, other))
    return RowComparison(
        row=row.paper.label,
        other=other.paper.label,
        column=column.key,
        title=column.title,
        score=column.score,
        published=None if paper is None or others_paper is None else paper - others_paper,
        difference=float(np.mean(of_runs)),
        of_runs=tuple(of_runs),
        low=low,
        high=high,
        questions=0 if by_question is None else by_question.questions,
    )


def _by_question(
    call: Reproduction, row: ReproducedRow, other: ReproducedRow, column: Column
) -> PairedComparison | None:
    """Compare by the paired bootstrap; None if the score is no mean over questions and no correlation."""
    is_read = column.score == TASKS[column.task].main_score or column.score.startswith("hits_at_")
    if row.paper.part or not is_read:
        return None
    graded, other_graded = _similarities(row, column), _similarities(other, column)
    if graded is not None and other_graded is not None:
        (similarities, ratings), (other_similarities, _) = graded, other_graded
        clusters = _clusters(call, column, row)
        return paired_correlations(similarities, other_similarities, ratings, clusters=clusters)
    answers, other_answers = _answers(row, column), _answers(other, column)
    if answers is None or other_answers is None:
        return None
    return compare_answers(answers, other_answers, clusters=_clusters(call, column, row))


def _similarities(row: ReproducedRow, column: Column) -> tuple[list[list[float]], list[float]] | None:
    """Read the similarities of a column's pairs by each run, `(runs, pairs)`, and the ratings of the pairs.

    Returns:
        Both; None if the column has other predictions or several splits.
    """
    first, *others = row.columns[column]
    graded = [graded_pairs(results[first]) for results in row.results_of_runs]
    known = [pairs for pairs in graded if pairs is not None]
    if others or len(known) < len(graded):
        return None
    return [similarities for similarities, _ in known], known[0][1]


def _answers(row: ReproducedRow, column: Column) -> Answers | None:
    """Average the answers of a row's runs to all questions of a column; None if they are not its score."""
    of_runs = []
    values = run_values(scores_of_runs(row), column)
    for results, value in zip(row.results_of_runs, values, strict=True):
        try:
            answers = [
                answer
                for wanted in row.columns[column]
                for answer in answers_of(results[wanted], column.part, column.score)
            ]
        except EventformersError:
            return None
        decisions = [decision for answer in answers for decision in answer]
        if not math.isclose(100 * float(np.mean(decisions)), value, abs_tol=_ROUNDING):
            return None
        of_runs.append(answers)
    return mean_answers(of_runs)


def _clusters(call: Reproduction, column: Column, row: ReproducedRow) -> list[Hashable] | None:
    """Read the document or gold events of each question of a column; None if the data names neither."""
    clusters: list[Hashable] = []
    for wanted in row.columns[column]:
        task = with_settings(TASKS[wanted.task], wanted.settings or {})
        of_split = load_data(task, call.evaluation_data, wanted.split, call.session.data).clusters
        if of_split is None:
            return None
        clusters += of_split
    return clusters


def _interval_of_runs(of_runs: Sequence[float]) -> tuple[float | None, float | None]:
    """Compute Student's interval of the mean difference; None for a single one."""
    if len(of_runs) < 2:
        return None, None
    if len(set(of_runs)) == 1:
        return of_runs[0], of_runs[0]
    interval = ttest_1samp(of_runs, 0).confidence_interval(CONFIDENCE)
    return float(interval.low), float(interval.high)


def _section(compared: Sequence[RowComparison]) -> str:
    titles = list(dict.fromkeys(one.title for one in compared))
    pairs: dict[tuple[str, str], dict[str, str]] = {}
    for one in compared:
        pairs.setdefault((one.row, one.other), {})[one.title] = difference_text(one)
    lines = [
        [cell(row), cell(other), *(texts.get(title, "–") for title in titles)]
        for (row, other), texts in pairs.items()
    ]
    note = (
        f"How far the model is ahead of the other, with the {CONFIDENCE:.0%} interval: by the paired "
        "bootstrap over questions, resampled by document or gold event where they name theirs; by Student's "
        "t over runs where the answers to single questions are not known."
    )
    header = ["model", "other", *map(cell, titles)]
    return "\n\n".join(["## Comparisons", note, markdown_table(header, lines)])


def difference_text(one: RowComparison) -> str:
    """Write a difference and its interval, as `+1.2 (-0.3 to +2.7)`."""
    difference = signed(one.difference, one.score)
    if one.low is None or one.high is None:
        return difference
    return f"{difference} ({signed(one.low, one.score)} to {signed(one.high, one.score)})"


def signed(value: float, score: str) -> str:
    """Write a difference of scores with its sign."""
    text = score_text(abs(value), score)
    return f"{'-' if value < 0 else '+'}{text}"
