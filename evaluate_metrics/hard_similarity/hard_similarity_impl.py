"""The arithmetic of the metric `hard_similarity`, with only numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def hard_similarity(similar: Sequence[float], dissimilar: Sequence[float]) -> dict[str, float | int]:
    """Compute the percentage of rows whose similar pair of events is strictly closer than its dissimilar
    pair; `hard_similarity.py` describes inputs, scores and errors."""
    similar_values, dissimilar_values = _finite("similar", similar), _finite("dissimilar", dissimilar)
    if len(similar_values) != len(dissimilar_values):
        raise ValueError(
            f"similar has {len(similar_values)} values and dissimilar {len(dissimilar_values)}; "
            "accepted: one of each per row"
        )
    return {
        "accuracy": 100.0 * int(np.sum(similar_values > dissimilar_values)) / len(similar_values),
        "ties": int(np.sum(similar_values == dissimilar_values)),
        "count": len(similar_values),
    }


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
