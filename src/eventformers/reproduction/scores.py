"""The scores of a row in the columns of its table: of each run, and their mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from eventformers.evaluation.results import TaskResult
from eventformers.evaluation.tasks.protocols import JsonValue
from eventformers.reproduction.rows import Column, Columns, ReproducedRow, ScoredSplit

Scores = Mapping[Column, float | None]
"""The score of each column; None if there is none."""


def scores_of(row: ReproducedRow) -> Scores:
    """Compute the mean score of a row's runs in each column; None if a run lacks the score."""
    of_runs = scores_of_runs(row)
    return {
        column: float(np.mean(values)) if (values := run_values(of_runs, column)) else None
        for column in row.columns
    }


def scores_of_runs(row: ReproducedRow) -> list[Scores]:
    """Compute the scores of each run of a row; see `mean_scores`."""
    return [
        mean_scores(row.columns, results, lambda column, result: _shown(row, column, result))
        for results in row.results_of_runs
    ]


def run_values(of_runs: list[Scores], column: Column) -> list[float]:
    """List the scores of all runs in a column; empty if a run lacks it."""
    values = [scores[column] for scores in of_runs]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else []


def mean_scores(
    columns: Columns,
    results: Mapping[ScoredSplit, TaskResult],
    shown: Callable[[Column, TaskResult], Mapping[str, JsonValue]],
) -> Scores:
    """Compute the score of each column, over several splits the mean by rows; None if a result is missing.

    Args:
        columns: the splits of each column.
        results: the result on each split.
        shown: returns the scores that a column chooses from.
    """
    scores: dict[Column, float | None] = {}
    for column, splits in columns.items():
        found = [results[wanted] for wanted in splits if wanted in results]
        values = [shown(column, result).get(column.score) for result in found]
        known = [float(value) for value in values if isinstance(value, (int, float))]
        counts = [result.dataset.rows for result in found]
        scores[column] = (
            sum(value * count for value, count in zip(known, counts, strict=True)) / sum(counts)
            if known and len(known) == len(splits)
            else None
        )
    return scores


def _shown(row: ReproducedRow, column: Column, result: TaskResult) -> Mapping[str, JsonValue]:
    """Return the scores that a column of a row chooses from: the result's, or those of a part of it."""
    part = ", ".join(filter(None, (column.part, row.paper.part)))
    if not part:
        return {**result.details, **result.scores}
    rows = sum(one.get("language") == row.paper.part for one in result.predictions)
    return {"mentions": rows, **result.parts[part]} if part in result.parts else {}
