"""Scores as texts, their intervals, and the table of a model, its start encoder and published systems."""

from __future__ import annotations

import math
from collections.abc import Sequence

from eventformers.evaluation.results import TaskResult
from eventformers.evaluation.tasks import TASKS
from eventformers.markdown import cell, table

CORRELATIONS = frozenset({"spearman", "pearson"})
"""Main scores with a range from -1 to 1; the others are percentages."""

_WITHOUT_LIMIT = frozenset({"mean_rank", "mentions", "num_clusters"})
_Z95 = 1.959964


def score_range(score: str) -> tuple[float, float]:
    """Return the lowest and the highest value of a kind of score."""
    if score in CORRELATIONS:
        return -1, 1
    return 0, math.inf if score in _WITHOUT_LIMIT else 100


def score_text(value: float | None, main_score: str, *, published: bool = False) -> str:
    """Format a score with the digits that its kind needs, or as papers print it if it is published."""
    if value is None:
        return "not defined"
    if main_score == "num_clusters":
        return f"{value:.3g}"
    if main_score == "mentions":
        return f"{value:,.0f}"
    if main_score in CORRELATIONS:
        return f"{value:.2f}" if published else f"{value:.3f}"
    if main_score == "mrr" or main_score.startswith("hits_at_"):
        return f"{value:.2f}"
    return f"{value:.1f}"


def interval(value: float | None, rows: int, main_score: str) -> tuple[float, float] | None:
    """Compute the 95 % interval of a score over the sampling of test rows.

    It is Wilson's interval for a percentage, and Fisher's transformation with the standard error 1.06 / √(n −
    3) for a rank correlation (Fieller, Hartley and Pearson, 1957).

    Returns:
        Lower and upper end; None if there is no such interval.
    """
    if value is None or rows < 1:
        return None
    if main_score in CORRELATIONS:
        if rows < 4 or abs(value) >= 1:
            return None
        centre, half = math.atanh(value), _Z95 * 1.06 / math.sqrt(rows - 3)
        return math.tanh(centre - half), math.tanh(centre + half)
    if main_score != "accuracy":
        return None
    share, square = value / 100, _Z95**2
    scale = 1 + square / rows
    centre = (share + square / (2 * rows)) / scale
    half = _Z95 * math.sqrt(share * (1 - share) / rows + square / (4 * rows**2)) / scale
    return 100 * max(0.0, centre - half), 100 * min(1.0, centre + half)


def score_table(results: Sequence[TaskResult], name: str) -> str:
    """Build the table of systems by tasks: this model, its untrained start encoder, and the published ones.

    Returns:
        The table; empty text without results.
    """
    if not results:
        return ""
    tasks = [TASKS.get(result.task) for result in results]
    header = [
        "model",
        *(cell(task.title if task else result.task) for task, result in zip(tasks, results, strict=True)),
    ]
    ours = [f"**{score_text(result.main_value, result.main_score)}**" for result in results]
    rows = [[f"**{cell(name)}**", *ours]]
    if any(result.baseline for result in results):
        starts = sorted({result.baseline.model for result in results if result.baseline})
        untrained = [
            score_text(result.baseline.main_value, result.main_score) if result.baseline else "–"
            for result in results
        ]
        rows.append([f"{cell(', '.join(starts))}, untrained, same pooling and texts", *untrained])
    systems: dict[str, list[str]] = {}
    for index, (task, result) in enumerate(zip(tasks, results, strict=True)):
        if task is None:
            continue
        scored = result.dataset
        known = task.published_scores_on(scored.split, scored.rows, scored.origin)
        for system, value in known.items():
            row = systems.setdefault(system, ["–"] * len(results))
            row[index] = score_text(value, result.main_score, published=True)
    rows += [[cell(system), *values] for system, values in reversed(systems.items())]
    return table(header, rows)
