"""Weights from the density around each mention, as in UMAP (Edwards and Ji, Appendix H)."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from eventformers.errors import EventformersError
from eventformers.inference.induction.mention_distances import Labels, Matrix, average_with_transpose

BLOCK_BYTES = 2**19
"""Size in bytes of a block of rows: small enough to stay in the cache with its weights."""

TOLERANCE = 5e-5
"""Tolerance for the sum of a row's weights."""

LARGEST_SIGMA = 1_000.0
"""Upper bound of the search for σ."""

SMALLEST_SIGMA = 1e-30
"""Replacement for σ = 0, its limit when too many mentions are equally near."""

MAX_STEPS = 64
"""Maximum number of Newton steps; a handful is usual."""


def manifold_weights(distances: NDArray[np.floating], *, symmetrise: bool = True) -> Matrix:
    """Compute the weights w_ij = exp(-max(0, d_ij - ρ_i) / σ_i) of all pairs, w_ii = 1 (Appendix H).

    The nearest of the n entries of a row is dropped as the mention itself. ρ_i is the smallest of the
    others, and σ_i, within (0, 1000), makes their weights sum to log2(n - 1). A row of equal entries has the
    weight 1 everywhere. If more mentions are equally near than that sum, σ_i goes to 0: they have the weight
    1, and the others 0.

    All rows of a block take Newton steps together, on the logarithm of the sum as a function of 1 / σ. This
    function is convex and decreasing, so steps from the left never pass the root.

    Args:
        distances: `(n, n)`; larger is farther, of any sign. They need not be symmetric: only rows are read.
        symmetrise: use the mean of w_ij and w_ji; if off, keep the weights of each row.

    Returns:
        `(n, n)` float32 within [0, 1]. Besides it and the distances, memory holds a few blocks of rows.

    Raises:
        EventformersError: the matrix is not square or not finite.
    """
    number = len(distances)
    if distances.ndim != 2 or distances.shape != (number, number):
        raise EventformersError(f"distances of shape {distances.shape}; accepted: (n, n)")
    weights = np.ones((number, number), dtype=np.float32)
    if number < 2:
        return weights
    block = max(1, BLOCK_BYTES // (4 * number))
    buffer = np.empty((block, number), dtype=np.float32)
    scale: float | None = None
    for start in range(0, number, block):
        rows = weights[start : start + block]
        offsets = buffer[: len(rows)]
        # Differences of large distances need full precision; a sum of many offsets does not.
        of_block = distances[start : start + block]
        np.subtract(of_block, _second_nearest(of_block, start), out=offsets, casting="same_kind")
        np.maximum(offsets, 0, out=offsets)
        scale = _smooth(offsets, rows, scale)
    np.fill_diagonal(weights, 1)
    if symmetrise:
        average_with_transpose(weights)
    return weights


def manifold_distances(distances: NDArray[np.floating]) -> Matrix:
    """Compute 1 - w_ij, the distances to cluster by; see `manifold_weights` for arguments and errors."""
    weights = manifold_weights(distances)
    np.subtract(1, weights, out=weights)
    return weights


def nearest_weights(rows: Iterable[Matrix], columns: Labels, number: int) -> csr_array:
    """Compute the weights w_ij of `manifold_weights`, and keep the largest ones of each row.

    Args:
        rows: the distances of some mentions to all n, in blocks of rows, `(block, n)`; they are overwritten.
        columns: the mentions whose weights are kept, `(m,)`.
        number: number of weights to keep in each row.

    Returns:
        The kept weights, not symmetrised, `(rows, m)`. A weight of 0 may be among them.
    """
    number = min(number, len(columns))
    places, values = [], []
    scale: float | None = None
    for block in rows:
        step = max(1, BLOCK_BYTES // (4 * block.shape[1]))
        for start in range(0, len(block), step):
            offsets = block[start : start + step]
            offsets -= _second_nearest(offsets, start)
            np.maximum(offsets, 0, out=offsets)
            weights = np.empty_like(offsets)
            scale = _smooth(offsets, weights, scale)
            weights = weights[:, columns]
            largest = np.argpartition(weights, -number, axis=1)[:, -number:]
            places.append(largest.astype(np.int32))
            values.append(np.take_along_axis(weights, largest, axis=1))
    indices = np.concatenate(places)
    starts = np.arange(0, indices.size + 1, number)
    return csr_array(
        (np.concatenate(values).ravel(), indices.ravel(), starts), shape=(len(indices), len(columns))
    )


def _smooth(offsets: Matrix, weights: Matrix, scale: float | None) -> float:
    """Write the weights of some rows so that their sums reach the target.

    Args:
        offsets: max(0, d_ij - ρ_i), `(rows, n)`, with 0 for the dropped entry.
        weights: output for the weights, `(rows, n)`.
        scale: 1 / σ times the mean offset of earlier rows, to start from; None starts at the left end.

    Returns:
        The median scale.
    """
    number = offsets.shape[1]
    # The dropped entry is no farther than ρ, so it has the weight 1.
    target = math.log2(number - 1) + 1
    mean = offsets.mean(axis=1, dtype=np.float64)
    equal = mean == 0
    mean[equal] = 1
    # By Jensen's inequality, the sum is above its target here.
    left = np.clip(math.log(number / target) / mean, 1 / LARGEST_SIGMA, 1 / SMALLEST_SIGMA)
    inverse_sigma = left if scale is None else np.maximum(left, scale / mean)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        for _ in range(MAX_STEPS):
            np.multiply(offsets, -inverse_sigma[:, None].astype(np.float32), out=weights)
            np.exp(weights, out=weights)
            total = weights.sum(axis=1).astype(np.float64)
            moment = np.vecdot(weights, offsets).astype(np.float64)
            step = np.log(total / target) * total / moment
            moved = np.clip(inverse_sigma + step, left, 1 / SMALLEST_SIGMA)
            # If the moment is 0, all entries with a weight are as near as ρ, and the sum cannot fall further.
            done = equal | (np.abs(total - target) <= TOLERANCE) | (moment == 0) | (moved == inverse_sigma)
            if done.all():
                break
            inverse_sigma = np.where(done, inverse_sigma, moved)
    return float(np.median(inverse_sigma * mean))


def _second_nearest(rows: NDArray[np.floating], first: int) -> NDArray[np.floating]:
    """Return ρ of each row, its second-smallest entry, `(rows, 1)`.

    Raises:
        EventformersError: an entry is not finite.
    """
    remaining = rows.copy()
    # One sum is cheaper than a test of each entry, and is not finite if an entry is not.
    if not np.isfinite(remaining.sum()) and (wrong := np.flatnonzero(~np.isfinite(rows).all(axis=1))).size:
        raise EventformersError(
            f"distances of mention {first + wrong[0]} are NaN or infinite; accepted: finite ones"
        )
    remaining[np.arange(len(rows)), remaining.argmin(axis=1)] = np.inf
    return remaining.min(axis=1, keepdims=True)
