"""Vectors at length one, in double precision, so that a product of two is their cosine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from eventformers.errors import EventformersError, shown

COSINE_DECIMALS = 12
"""Far below the precision of the vectors: the order of summation must not decide between equal cosines."""


def unit_vectors(vectors: NDArray[np.floating], texts: Sequence[str]) -> NDArray[np.float64]:
    """The vectors at length one, in double precision.

    Args:
        vectors: one per text, (N, d).
        texts: what the vectors stand for, (N,), to name those that have no direction.

    Returns:
        A new array, (N, d).

    Raises:
        EventformersError: not one vector for each text, or a vector that is NaN, infinite or zero.
    """
    array = np.array(vectors, dtype=np.float64)
    if array.ndim != 2 or len(array) != len(texts):
        raise EventformersError(
            f"the model gave vectors of shape {array.shape} for {len(texts)} texts; accepted: one vector each"
        )
    lengths = np.sqrt(np.einsum("nd,nd->n", array, array))
    wrong = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
    if wrong.size:
        raise EventformersError(
            f"the model gave no usable vector (NaN, infinite or zero) for {wrong.size} of {len(texts)} "
            f"texts, the first {shown(texts[wrong[0]])}; accepted: finite vectors that are not zero"
        )
    # In place: for many vectors a second array is the largest thing in memory.
    array /= lengths[:, None]
    return array


def rounded_cosines(products: NDArray[np.float64]) -> NDArray[np.float64]:
    """Products of unit vectors as cosines: within [-1, 1], and equal where only rounding tells them apart."""
    return np.asarray(np.round(np.clip(products, -1.0, 1.0), COSINE_DECIMALS), dtype=np.float64)
