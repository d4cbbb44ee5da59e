"""Distances between event mentions: by their queries and keys, or by their encoder vectors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.inference.encoding.vectors import unit_vectors

Matrix = NDArray[np.float32]
Labels = NDArray[np.int64]

DistanceKind = Literal["cosine", "dot", "encoder"]
DISTANCE_KINDS: tuple[DistanceKind, ...] = ("cosine", "dot", "encoder")

TILE = 512
"""Size of a tile when a matrix is averaged with its transpose: two tiles stay in the cache."""


class MentionVectors(NamedTuple):
    """The vectors of n mentions.

    Attributes:
        embeddings: encoder vectors F, `(n, d)`.
        query: queries of the clusterer, `(n, d)`; None for a plain encoder.
        key: keys of the clusterer, `(n, d)`; None for a plain encoder.
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


def distances(vectors: MentionVectors, kind: DistanceKind) -> Matrix:
    """Compute the distances of all pairs of mentions (Edwards and Ji, section 3.7).

    Args:
        vectors: the vectors of n mentions.
        kind: `cosine`: 1 - cos(Q_i, K_j); `dot`: -Q_i·K_j, not scaled; `encoder`: 1 - cos(F_i, F_j). The
            first two are the mean of d(i, j) and d(j, i), which differ.

    Returns:
        `(n, n)` float32, symmetric. The diagonal is 0 only for `encoder`, as a mention's query differs from
        its key.

    Raises:
        UnknownNameError: an unknown kind.
        EventformersError: the model has no queries and keys, or a vector is NaN, infinite or zero.
    """
    queries, keys, is_cosine = _sides(vectors, kind)
    found = queries @ keys.T
    if is_cosine:
        np.subtract(1, found, out=found)
        np.clip(found, 0, 2, out=found)
    else:
        np.negative(found, out=found)
    if kind == "encoder":
        np.fill_diagonal(found, 0)
    else:
        average_with_transpose(found)
    return found


class DistanceFactors(NamedTuple):
    """Distances of n mentions as products, d(i, j) = offset - left_i·right_j, in memory linear in n.

    They equal `distances`, averaged over runs as by `average_distances`.

    Attributes:
        left: `(n, D)`.
        right: `(n, D)`; the same array as `left` for the distance `encoder`.
        offset: 1 for cosines, 0 for dot products.
    """

    left: Matrix
    right: Matrix
    offset: float

    def rows(self, chosen: NDArray[np.integer]) -> Matrix:
        """Compute the distances of some mentions to all, `(len(chosen), n)`."""
        found = self.left[chosen] @ self.right.T
        return np.subtract(np.float32(self.offset), found, out=found)


def distance_factors(runs: Iterable[MentionVectors], kind: DistanceKind) -> DistanceFactors:
    """Compute the factors of the mean distances over runs on the same mentions.

    Args:
        runs: the vectors of one model or several.
        kind: see `distances`.

    Raises:
        UnknownNameError: an unknown kind.
        EventformersError: there are no runs, the runs differ in their mentions, the model has no queries and
            keys, or a vector is not valid.
    """
    left, right = [], []
    is_cosine = True
    for vectors in runs:
        queries, keys, is_cosine = _sides(vectors, kind)
        # The mean of d(i, j) and d(j, i) is a product of concatenated vectors.
        left += [queries] if queries is keys else [queries, keys]
        right += [keys] if queries is keys else [keys, queries]
        if len(queries) != len(left[0]):
            raise EventformersError(
                f"an ensemble of runs on {len(left[0]):,} and {len(queries):,} mentions; accepted: runs on "
                "the same mentions"
            )
    if not left:
        raise EventformersError("the ensemble has no runs; accepted: at least one")
    scale = np.float32(1 / np.sqrt(len(left)))
    joined = np.concatenate(left, axis=1) * scale
    if not np.isfinite(joined).all():
        raise EventformersError("queries or keys are NaN or infinite; accepted: finite ones")
    other = joined if kind == "encoder" else np.concatenate(right, axis=1) * scale
    return DistanceFactors(joined, other, float(is_cosine))


def average_distances(matrices: Iterable[Matrix]) -> Matrix:
    """Average the matrices of several runs on the same mentions: the ensemble of section 4.

    Args:
        matrices: each `(n, n)`; from a generator, memory holds only two at a time.

    Raises:
        EventformersError: there are no matrices, or their shapes differ.
    """
    total: Matrix | None = None
    number = 0
    for matrix in matrices:
        if total is None:
            total = np.array(matrix, dtype=np.float32)
        elif total.shape != matrix.shape:
            raise EventformersError(
                f"an ensemble of matrices of shapes {total.shape} and {matrix.shape}; accepted: runs on the "
                "same mentions"
            )
        else:
            total += matrix
        number += 1
    if total is None:
        raise EventformersError("the ensemble has no runs; accepted: at least one")
    total /= np.float32(number)
    return total


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
    """Scale encoder vectors of mentions to length 1, `(n, d)`.

    Raises:
        EventformersError: a vector is NaN, infinite or zero.
    """
    names = [f"mention {place}" for place in range(len(embeddings))]
    return unit_vectors(embeddings, names).astype(np.float32)


def _sides(vectors: MentionVectors, kind: DistanceKind) -> tuple[Matrix, Matrix, bool]:
    """Return the vectors whose products make the distances, and whether these are cosines; see
    `distances`."""
    if kind not in DISTANCE_KINDS:
        raise UnknownNameError("distance", kind, DISTANCE_KINDS)
    if kind == "encoder":
        units = unit_embeddings(vectors.embeddings)
        return units, units, True
    if vectors.query is None or vectors.key is None:
        raise EventformersError(
            f"distance {kind}: the model has no queries and keys; accepted: encoder, or a model of "
            "event type induction"
        )
    if kind == "dot":
        return vectors.query.astype(np.float32), vectors.key.astype(np.float32), False
    return unit_embeddings(vectors.query), unit_embeddings(vectors.key), True
