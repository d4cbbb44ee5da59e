"""Distances between event mentions: by their queries and keys, or by their encoder vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.inference.encoding.unit_vectors import unit_vectors

Matrix = NDArray[np.float32]
Labels = NDArray[np.int64]

DistanceKind = Literal["cosine", "dot", "encoder"]
DISTANCE_KINDS: tuple[DistanceKind, ...] = ("cosine", "dot", "encoder")

TILE = 512
"""Size of a tile when a matrix is combined with its transpose: two tiles stay in the cache."""


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


def distances(vectors: MentionVectors, kind: DistanceKind, *, symmetrise: bool = True) -> Matrix:
    """Compute the distances of all pairs of mentions (Edwards and Ji, section 3.7).

    Args:
        vectors: the vectors of n mentions.
        kind: `cosine`: 1 - cos(Q_i, K_j); `dot`: -Q_i·K_j, not scaled; `encoder`: 1 - cos(F_i, F_j).
        symmetrise: use the mean of d(i, j) and d(j, i), which differ for the first two kinds.

    Returns:
        `(n, n)` float32. The diagonal is 0 only for `encoder`, as a mention's query differs from its key.

    Raises:
        UnknownNameError: an unknown kind.
        EventformersError: the model has no queries and keys, or a vector is NaN, infinite or zero.
    """
    if kind not in DISTANCE_KINDS:
        raise UnknownNameError("distance", kind, DISTANCE_KINDS)
    if kind == "encoder":
        units = _units(vectors.embeddings)
        found = _cosine_distances(units, units)
        np.fill_diagonal(found, 0)
        return found
    if vectors.query is None or vectors.key is None:
        raise EventformersError(
            f"distance {kind}: the model has no queries and keys; accepted: encoder, or a model of "
            "event type induction"
        )
    if kind == "dot":
        found = vectors.query.astype(np.float32) @ vectors.key.astype(np.float32).T
        np.negative(found, out=found)
    else:
        found = _cosine_distances(_units(vectors.query), _units(vectors.key))
    if symmetrise:
        combine_with_transpose(found, mean_of_both)
    return found


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


def combine_with_transpose(matrix: Matrix, combine: Callable[[Matrix, Matrix], Matrix]) -> None:
    """Replace each pair of entries (i, j) and (j, i) by one value, in place and tile by tile.

    Args:
        matrix: `(n, n)`.
        combine: computes the common value of an entry and its mirror image; symmetric in its arguments.
    """
    for start in range(0, len(matrix), TILE):
        rows = slice(start, start + TILE)
        for other in range(start, len(matrix), TILE):
            columns = slice(other, other + TILE)
            tile = combine(matrix[rows, columns], matrix[columns, rows].T)
            matrix[rows, columns] = tile
            matrix[columns, rows] = tile.T


def mean_of_both(entries: Matrix, mirrored: Matrix) -> Matrix:
    """Return the mean of entries and their mirror images."""
    return (entries + mirrored) / np.float32(2)


def _units(vectors: Matrix) -> Matrix:
    names = [f"mention {place}" for place in range(len(vectors))]
    return unit_vectors(vectors, names).astype(np.float32)


def _cosine_distances(left: Matrix, right: Matrix) -> Matrix:
    found = left @ right.T
    np.subtract(1, found, out=found)
    return np.clip(found, 0, 2, out=found)
