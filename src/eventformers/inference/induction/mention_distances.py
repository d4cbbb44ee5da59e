"""Distances between mentions, by queries and keys or by encoder vectors, and weights from their density.

The weights are those of UMAP (Edwards and Ji, Appendix H).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.inference.encoding.vectors import unit_vectors

Matrix = NDArray[np.float32]
Labels = NDArray[np.int64]

DistanceKind = Literal["cosine", "dot", "encoder"]
DISTANCE_KINDS: tuple[DistanceKind, ...] = ("cosine", "dot", "encoder")

Rho = Literal["positive", "nearest"]
"""The distance ρ from which the weights of a mention fall (`manifold_weights`)."""

TILE = 512
"""Size of a tile when a matrix is averaged with its transpose: two tiles stay in the cache."""


class MentionVectors(NamedTuple):
    """The vectors of n mentions.

    Attributes:
        embeddings: encoder vectors F, `(n, d)`.
        query: queries of the clusterer, `(n, d)`; None for a plain encoder.
        key: keys of the clusterer, likewise.
        triggers: start and end of found triggers in their texts, `(n, 2)`, -1 where none was found; None if
            the model does not find triggers.
    """

    embeddings: Matrix
    query: Matrix | None = None
    key: Matrix | None = None
    triggers: Labels | None = None

    def rows(self, chosen: NDArray[np.integer] | NDArray[np.bool_]) -> MentionVectors:
        """Return the vectors of some mentions, by positions or a mask."""
        return MentionVectors(*(None if part is None else part[chosen] for part in self))  # type: ignore[arg-type]


class DistanceFactors(NamedTuple):
    """Distances of n mentions as products, d(i, j) = offset - left_i·right_j, in memory linear in n.

    Attributes:
        left: `(n, D)`.
        right: `(n, D)`; the same array as `left` for the distance `encoder`.
        offset: 1 for cosines, 0 for dot products.
    """

    left: Matrix
    right: Matrix
    offset: float

    def rows(self, chosen: NDArray[np.integer] | slice) -> Matrix:
        """Compute the distances of some mentions to all, `(len(chosen), n)`."""
        found = self.left[chosen] @ self.right.T
        return np.subtract(np.float32(self.offset), found, out=found)

    def matrix(self) -> Matrix:
        """Compute the distances of all pairs, `(n, n)`, symmetric; the diagonal is 0 only for `encoder`, as a
        mention's query differs from its key."""
        found = self.rows(slice(None))
        if self.offset:
            np.clip(found, 0, 2, out=found)
        if self.left is self.right:
            np.fill_diagonal(found, 0)
        else:
            average_with_transpose(found)
        return found


def distance_factors(runs: Iterable[MentionVectors], kind: DistanceKind) -> DistanceFactors:
    """Compute the factors of the mean distances over runs on the same mentions, the ensemble of section 4.

    Args:
        kind: `cosine`: 1 - cos(Q_i, K_j); `dot`: -Q_i·K_j, not scaled; `encoder`: 1 - cos(F_i, F_j) (Edwards
            and Ji, section 3.7). The first two are the mean of d(i, j) and d(j, i), which differ.

    Raises:
        UnknownNameError: an unknown kind.
        EventformersError: a model has no queries and keys, or a vector is NaN, infinite or zero.
    """
    if kind not in DISTANCE_KINDS:
        raise UnknownNameError("distance", kind, DISTANCE_KINDS)
    left: list[Matrix] = []
    right: list[Matrix] = []
    for vectors in runs:
        given = (vectors.embeddings,) if kind == "encoder" else (vectors.query, vectors.key)
        parts = [part for part in given if part is not None]
        if len(parts) < len(given):
            raise EventformersError(
                f"distance {kind}: the model has no queries and keys; accepted: encoder, or a model of "
                "event type induction"
            )
        sides = [part.astype(np.float32) if kind == "dot" else unit_embeddings(part) for part in parts]
        # The mean of d(i, j) and d(j, i) is a product of concatenated vectors.
        left += sides
        right += sides[::-1]
    scale = np.float32(1 / np.sqrt(len(left)))
    joined = np.concatenate(left, axis=1) * scale
    other = joined if kind == "encoder" else np.concatenate(right, axis=1) * scale
    return DistanceFactors(joined, other, float(kind != "dot"))


def distances(vectors: MentionVectors, kind: DistanceKind) -> Matrix:
    """Compute the distances of all pairs of mentions of one run; see `distance_factors`."""
    return distance_factors([vectors], kind).matrix()


def average_with_transpose(matrix: Matrix) -> None:
    """Replace the entries (i, j) and (j, i) of a matrix by their mean, in place and tile by tile."""
    for start in range(0, len(matrix), TILE):
        rows = slice(start, start + TILE)
        for other in range(start, len(matrix), TILE):
            columns = slice(other, other + TILE)
            tile = (matrix[rows, columns] + matrix[columns, rows].T) / np.float32(2)
            matrix[rows, columns] = tile
            matrix[columns, rows] = tile.T


def unit_embeddings(embeddings: Matrix) -> Matrix:
    """Scale vectors of mentions to length 1, `(n, d)`; a NaN, infinite or zero one is an error."""
    names = [f"mention {place}" for place in range(len(embeddings))]
    return unit_vectors(embeddings, names).astype(np.float32)


BLOCK_BYTES = 2**19
"""Size in bytes of a block of rows: small enough to stay in the cache with its weights."""

SMALLEST_POSITIVE = 1e-6
"""Distance up to which two mentions count as equal: cosines of equal vectors differ from 1 by rounding."""

TOLERANCE = 5e-5
"""Tolerance for the sum of a row's weights."""

LARGEST_SIGMA = 1_000.0
"""Upper bound of the search for σ."""

SMALLEST_SIGMA = 1e-30
"""Replacement for σ = 0, its limit when too many mentions are equally near."""

MAX_STEPS = 64
"""Maximum number of Newton steps; a handful is usual."""


def manifold_weights(
    distances: NDArray[np.floating], rho: Rho = "positive", *, symmetrise: bool = True
) -> Matrix:
    """Compute the weights w_ij = exp(-max(0, d_ij - ρ_i) / σ_i) of all pairs, w_ii = 1 (Appendix H).

    The nearest of the n entries of a row is dropped as the mention itself. ρ_i is the smallest positive one
    of the others, and σ_i, within (0, 1000), makes their weights sum to log2(n - 1). A row of equal entries
    has the weight 1 everywhere. If more mentions are as near as ρ_i than that sum, σ_i goes to 0: they have
    the weight 1, and the others 0.

    All rows of a block take Newton steps together, on the logarithm of the sum as a function of 1 / σ. This
    function is convex and decreasing, so steps from the left never pass the root.

    Args:
        distances: `(n, n)`; larger is farther. They need not be symmetric: only rows are read.
        rho: ρ_i: the smallest `positive` distance, as printed, so that the equals of a mention do not set
            it; or the `nearest` entry, as in the released code, also for entries of any sign.
        symmetrise: use the mean of w_ij and w_ji; if off, keep the weights of each row.

    Returns:
        `(n, n)` float32 within [0, 1]. Besides it and the distances, memory holds a few blocks of rows.
    """
    number = len(distances)
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
        np.subtract(of_block, _rho(of_block, rho), out=offsets, casting="same_kind")
        np.maximum(offsets, 0, out=offsets)
        scale = _smooth(offsets, rows, scale)
    np.fill_diagonal(weights, 1)
    if symmetrise:
        average_with_transpose(weights)
    return weights


def nearest_weights(rows: Iterable[Matrix], columns: Labels, number: int, rho: Rho = "positive") -> csr_array:
    """Compute the weights w_ij of `manifold_weights`, not symmetrised, and keep the `number` largest ones of
    each row.

    Args:
        rows: the distances of some mentions to all n, in blocks of rows, `(block, n)`; they are overwritten.
        columns: the mentions whose weights are kept, `(m,)`.

    Returns:
        `(rows, m)`. A weight of 0 may be among them.
    """
    number = min(number, len(columns))
    places, values = [], []
    scale: float | None = None
    for block in rows:
        step = max(1, BLOCK_BYTES // (4 * block.shape[1]))
        for start in range(0, len(block), step):
            offsets = block[start : start + step]
            offsets -= _rho(offsets, rho)
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


def _rho(rows: NDArray[np.floating], rho: Rho) -> NDArray[np.floating]:
    """Return ρ of each row, `(rows, 1)`; infinite for a mention without others but its equals."""
    remaining = rows.copy()
    remaining[np.arange(len(rows)), remaining.argmin(axis=1)] = np.inf
    if rho == "positive":
        remaining[remaining <= SMALLEST_POSITIVE] = np.inf
    return remaining.min(axis=1, keepdims=True)
