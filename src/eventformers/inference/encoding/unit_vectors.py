"""Unit vectors in double precision, whose dot products are cosines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from eventformers.errors import EventformersError, shown

COSINE_DECIMALS = 12
"""Decimals of a cosine. The order of summation must not decide between equal cosines."""


def unit_vectors(vectors: NDArray[np.floating], texts: Sequence[str]) -> NDArray[np.float64]:
    """Scale vectors to length 1, in double precision.

    Args:
        vectors: one per text, (N, d).
        texts: the text of each vector, (N,), for errors.

    Returns:
        A new array, (N, d).

    Raises:
        EventformersError: the number of vectors and texts differs, or a vector is NaN, infinite or zero.
    """
    array = np.array(vectors, dtype=np.float64)
    if array.ndim != 2 or len(array) != len(texts):
        raise EventformersError(
            f"the model returned vectors of shape {array.shape} for {len(texts)} texts; accepted: one "
            "vector each"
        )
    lengths = np.sqrt(np.einsum("nd,nd->n", array, array))
    wrong = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
    if wrong.size:
        raise EventformersError(
            f"the model returned a NaN, infinite or zero vector for {wrong.size} of {len(texts)} texts, the "
            f"first {shown(texts[wrong[0]])}; accepted: finite vectors that are not zero"
        )
    # In place, to avoid a second array of this size.
    array /= lengths[:, None]
    return array


def rounded_cosines(products: NDArray[np.float64]) -> NDArray[np.float64]:
    """Clip dot products of unit vectors to [-1, 1] and round them, so that equal cosines compare equal."""
    return np.asarray(np.round(np.clip(products, -1.0, 1.0), COSINE_DECIMALS), dtype=np.float64)
