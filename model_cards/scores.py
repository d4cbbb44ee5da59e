"""The tables of scores of a card: the model, its untrained start encoder and the published systems."""

from __future__ import annotations

import math
from collections.abc import Sequence

from eventformers.errors import UnknownNameError
from eventformers.evaluation.results import TaskResult
from eventformers.evaluation.tasks import Task, get_task
from eventformers.markdown import cell, code, number, table

CORRELATIONS = frozenset({"spearman", "pearson"})
"""Main scores with a range from -1 to 1; the others are percentages."""

_ORIGINS = {"samples": "bundled samples, not a benchmark", "local": "local files"}
_METRIC_NAMES = {
    "accuracy": "accuracy (%)",
    "spearman": "Spearman's ρ",
    "mrr": "mean reciprocal rank (%)",
    "nmi": "normalized mutual information (%)",
}
_BESIDE = {
    "mrr": {"hits_at_1": "Hits@1", "hits_at_3": "Hits@3", "hits_at_10": "Hits@10"},
    "nmi": {"fowlkes_mallows": "Fowlkes-Mallows", "ari": "adjusted Rand index"},
}
"""Secondary scores that are shown beside a main score."""
_TIES = {"mcnc": "in {count} rows several choices share the highest score; the first one counts as chosen"}
"""Treatment of ties by metric, if they do not count as wrong."""
_Z95 = 1.959964


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

    Args:
        value: the score; None if it is undefined.
        rows: number of rows.
        main_score: the kind of score.

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


def score_table(results: Sequence[TaskResult], name: str, published: bool = True) -> str:
    """Build the table of systems by tasks: this model, its untrained start encoder, and the published ones.

    Args:
        results: results of the model, one per task.
        name: name of the model.
        published: include published scores that were measured on the same rows.

    Returns:
        The table; empty text without results.
    """
    if not results:
        return ""
    tasks = [_task(result) for result in results]
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
        if task is None or not published:
            continue
        scored = result.dataset
        known = task.published_scores_on(scored.split, scored.rows, scored.origin)
        for system, value in known.items():
            row = systems.setdefault(system, ["–"] * len(results))
            row[index] = score_text(value, result.main_score, published=True)
    rows += [[cell(system), *values] for system, values in reversed(systems.items())]
    return table(header, rows)


def task_table(results: Sequence[TaskResult]) -> str:
    """Build the table of the data behind each score, with its interval.

    Args:
        results: results of the model, one per task.
    """
    rows = []
    for result in results:
        task = _task(result)
        ends = interval(result.main_value, result.dataset.rows, result.main_score)
        written = [score_text(end, result.main_score) for end in ends] if ends else []
        rows.append(
            [
                cell(task.title if task else result.task),
                cell(_METRIC_NAMES.get(result.main_score, result.main_score)),
                " to ".join(written) or "–",
                cell(result.dataset.split),
                _rows_text(result),
                cell(result.dataset.hub_id or _ORIGINS.get(result.dataset.origin, result.dataset.origin)),
                code(result.dataset.fingerprint[:12]),
                cell(task.paper_reference) if task and result.dataset.origin != "samples" else "–",
            ]
        )
    return table(
        [
            "task",
            "score",
            "95 % interval over rows",
            "split",
            "rows",
            "data",
            "SHA-256 of the rows",
            "published by",
        ],
        rows,
    )


def notes(results: Sequence[TaskResult]) -> list[str]:
    """Notes that a reader of the scores needs: losses, undefined scores, missing baselines."""
    facts = []
    for result in results:
        task = _task(result)
        title = cell(task.title if task else result.task)
        if result.main_value is None:
            reason = "; ".join(sorted(set(result.undefined.values()))) or "no reason was recorded"
            facts.append(f"{title}: the score is undefined ({cell(reason)}).")
        if result.baseline is None:
            reason = result.baseline_missing or "no reason was recorded"
            facts.append(f"{title}: there is no score of the untrained encoder ({cell(reason)}).")
        elif (
            result.main_value is not None
            and result.baseline.main_value is not None
            and result.main_value <= result.baseline.main_value
        ):
            facts.append(
                f"**{title}: training did not help; the untrained encoder scores at least as high.**"
            )
        is_published = task is not None and task.published_scores and result.dataset.origin != "samples"
        if task and is_published and result.dataset.split != task.published_split:
            facts.append(
                f"{title}: measured on the split {cell(result.dataset.split)}; the published scores are of "
                f"the split {cell(task.published_split)}."
            )
        if beside := _scores_beside(result):
            facts.append(f"{title}: {beside}.")
        if ties := result.scores.get("ties"):
            count = number(ties) if isinstance(ties, (int, float)) else cell(ties)
            ties_note = _TIES.get(task.metric if task else "", "{count} tied rows count as wrong")
            facts.append(f"{title}: {ties_note.format(count=count)}.")
        if result.truncated:
            count = number(result.truncated)
            facts.append(f"{title}: {count} distinct texts exceeded the encoder's limit and were truncated.")
    return facts


def _scores_beside(result: TaskResult) -> str:
    """Further scores of the metric, with those of the untrained encoder in brackets."""
    parts = []
    of_baseline = result.baseline.scores if result.baseline else {}
    for key, name in _BESIDE.get(result.main_score, {}).items():
        ours, untrained = result.scores.get(key), of_baseline.get(key)
        if isinstance(ours, (int, float)):
            before = f" (untrained {untrained:.1f})" if isinstance(untrained, (int, float)) else ""
            parts.append(f"{name} {ours:.1f}{before}")
    return ", ".join(parts)


def _rows_text(result: TaskResult) -> str:
    task = _task(result)
    whole = task.published_rows if task else None
    if result.dataset.origin == "samples" or whole is None or whole == result.dataset.rows:
        return number(result.dataset.rows)
    return f"{number(result.dataset.rows)} (the published set has {number(whole)})"


def _task(result: TaskResult) -> Task | None:
    try:
        return get_task(result.task)
    except UnknownNameError:
        return None
