"""The arithmetic of the metric `transitive_similarity`, with only numpy and scipy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats


def transitive_similarity(predictions: Sequence[float], references: Sequence[float]) -> dict[str, float]:
    """Compute Spearman's rank correlation between predicted similarities and human ratings;
    `transitive_similarity.py` describes inputs, scores and errors."""
    predicted, rated = _finite("predictions", predictions), _finite("references", references)
    if len(predicted) != len(rated):
        raise ValueError(
            f"predictions has {len(predicted)} values and references {len(rated)}; "
            "accepted: one of each per pair"
        )
    if len(predicted) < 2:
        raise ValueError("found 1 pair; accepted: two or more, because a rank correlation needs an order")
    if np.ptp(predicted) == 0 or np.ptp(rated) == 0:
        return {"spearman": float("nan")}
    return {"spearman": float(stats.spearmanr(predicted, rated).statistic)}


def _finite(name: str, values: Sequence[float]) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} has shape {array.shape}; accepted: a list of at least one number")
    wrong = np.flatnonzero(~np.isfinite(array))
    if wrong.size:
        raise ValueError(
            f"{name} has {wrong.size} values that are NaN or infinite, the first at index {wrong[0]}; "
            "accepted: finite numbers"
        )
    return array
