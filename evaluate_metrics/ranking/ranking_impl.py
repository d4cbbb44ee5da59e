"""The arithmetic of the metric `ranking`, with only numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

HITS_AT = (1, 3, 4, 5, 8, 10, 15, 16, 50, 100)
"""The depths K of the hits."""


def ranking(predictions: Sequence[float]) -> dict[str, float | int]:
    """Compute mean reciprocal rank, hits at fixed depths and mean rank.

    Args:
        predictions: per query, the rank of its correct answer, from 1; a fraction if ties share their mean
            rank; infinite if the answer was not found.

    Returns:
        `mrr` and `hits_at_{1,3,4,5,8,10,15,16,50,100}` (percent, 0 to 100; an answer that was not found
        counts 0), `mean_rank` (over the answers that were found; NaN if none was) and `not_found` (number of
        queries whose answer was not found).

    Raises:
        ValueError: no ranks, or a rank that is NaN or below 1.
    """
    ranks = np.asarray(predictions, dtype=np.float64)
    if ranks.ndim != 1 or ranks.size == 0:
        raise ValueError(f"predictions has shape {ranks.shape}; accepted: a list of at least one rank")
    wrong = np.flatnonzero(~(ranks >= 1))
    if wrong.size:
        raise ValueError(
            f"predictions has {wrong.size} values that are NaN or below 1, the first {ranks[wrong[0]]} at "
            f"index {wrong[0]}; accepted: ranks from 1, and infinity for an answer that was not found"
        )
    found = np.isfinite(ranks)
    scores: dict[str, float | int] = {"mrr": 100.0 * float(np.mean(1.0 / ranks))}
    for depth in HITS_AT:
        scores[f"hits_at_{depth}"] = 100.0 * int(np.sum(ranks <= depth)) / len(ranks)
    scores["mean_rank"] = float(np.mean(ranks[found])) if found.any() else float("nan")
    scores["not_found"] = int(np.sum(~found))
    return scores
