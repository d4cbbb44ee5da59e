"""The arithmetic of the metric `ranking`, with only numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

HITS_AT = (1, 3, 4, 5, 8, 10, 15, 16, 50, 100)
"""The depths K of the hits."""


def ranking(predictions: Sequence[float]) -> dict[str, float | int]:
    """Compute mean reciprocal rank, hits at fixed depths and mean rank; `ranking.py` describes inputs,
    scores and errors."""
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
