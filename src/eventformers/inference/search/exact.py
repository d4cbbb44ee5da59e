"""Exact search for the largest dot products, with FAISS.

`nearest` finds more candidates than needed in single precision, and double precision scores them. A product
in single precision has a bounded error, which shows whether a vector that was left out could be among the
best; such queries are searched again for more candidates. The result equals a full sort of double-precision
scores.
"""

from __future__ import annotations

from typing import NamedTuple

import faiss
import numpy as np
import numpy.typing as npt

from eventformers.errors import EventformersError
from eventformers.inference.encoding.vectors import Positions, Vectors, released_blocks, rows_at

LARGEST = 1e15
"""Largest accepted absolute value of a vector's entry."""

_MORE = 8
"""Least number of candidates to score in double precision beyond the requested number."""
_BLOCK_CANDIDATES = 2**20
"""Number of candidates of a block of queries, which bounds the memory besides the vectors."""
_PAIRS = 4_096
"""Number of pairs scored in double precision at a time, so that their vectors stay in the cache."""


class Found(NamedTuple):
    """The vectors with the largest dot products with each query, best first.

    Attributes:
        scores: the dot products, `(queries, k)`.
        positions: the positions of the vectors, `(queries, k)`.
    """

    scores: Vectors
    positions: Positions


def nearest(vectors: Vectors, queries: Vectors, number: int) -> Found:
    """Find the vectors with the largest dot products with each query, in single precision.

    Args:
        vectors: `(n, d)`, float32, in memory or mapped; pages of a block are released after its search.
        queries: `(m, d)`, float32.
        number: number of vectors to find; fewer if there are not as many.
    """
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    best = Found(np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64))
    for block in released_blocks(vectors):
        own = np.ascontiguousarray(vectors[block], dtype=np.float32)
        scores, positions = faiss.knn(queries, own, min(number, len(own)), faiss.METRIC_INNER_PRODUCT)
        scores = np.concatenate([best.scores, scores], axis=1)
        positions = np.concatenate([best.positions, positions + block.start], axis=1)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :number]
        best = Found(*(np.take_along_axis(part, order, axis=1) for part in (scores, positions)))
    return best


class ExactSearch:
    """Exact search among vectors by dot product.

    Args:
        vectors: `(n, d)`, float32; they are not copied.

    Raises:
        EventformersError: there are no vectors, or one is not finite or too long.
    """

    def __init__(self, vectors: Vectors) -> None:
        if vectors.ndim != 2 or not vectors.size:
            raise EventformersError(f"vectors of shape {vectors.shape}; accepted: (n, d), at least one")
        self.vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        self._longest = 0.0
        for block in released_blocks(self.vectors):
            _check_size(self.vectors[block], "vectors")
            self._longest = max(self._longest, float(_lengths(self.vectors[block]).max()))

    def search(self, queries: Vectors, number: int) -> Found:
        """Find the vectors with the largest dot products with each query.

        Args:
            queries: `(m, d)`, float32.
            number: number of vectors to find; fewer if there are not as many.

        Returns:
            Scores in double precision, rounded to single; the lower position wins ties.

        Raises:
            EventformersError: queries of another dimension, one not finite or too long, or a number below 1.
        """
        total, dimension = self.vectors.shape
        check_queries(queries, dimension, number)
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        number = min(number, total)
        scores = np.empty((len(queries), number), dtype=np.float32)
        positions = np.empty((len(queries), number), dtype=np.int64)
        # In any order of summation, a product in single precision is off by at most d 2⁻²⁴ |x||y|, doubled
        # here for the rounding of the scores that are compared, and by what is too small for its range.
        lengths = _lengths(queries)
        error = (dimension + 2) * 2.0**-23 * lengths * self._longest
        error += dimension * 2.0**-126 * (1 + lengths + self._longest)
        undecided, candidates = np.arange(len(queries)), number + max(_MORE, number // 4)
        while len(undecided):
            candidates = min(candidates, total)
            again = []
            step = max(1, _BLOCK_CANDIDATES // candidates)
            for start in range(0, len(undecided), step):
                rows = undecided[start : start + step]
                near = nearest(self.vectors, queries[rows], candidates)
                exact = self._score(queries[rows], near.positions)
                order = np.lexsort((near.positions, -exact), axis=1)[:, :number]
                scores[rows] = np.take_along_axis(exact, order, axis=1)
                positions[rows] = np.take_along_axis(near.positions, order, axis=1)
                if candidates < total:
                    again.append(rows[near.scores[:, -1] + error[rows] >= scores[rows, -1]])
            undecided = np.concatenate([undecided[:0], *again])
            candidates *= 4
        return Found(scores, positions)

    def _score(self, queries: Vectors, positions: Positions) -> Vectors:
        """Compute the dot products of queries, `(m, d)`, with the vectors at their positions, `(m, k)`, in
        double precision, rounded to single."""
        scores = np.empty(positions.shape, dtype=np.float32)
        step = max(1, _PAIRS // positions.shape[1])
        for start in range(0, len(queries), step):
            rows = slice(start, start + step)
            vectors = rows_at(self.vectors, positions[rows])
            scores[rows] = np.einsum("md,mkd->mk", queries[rows], vectors, dtype=np.float64)
        return scores


def check_queries(queries: Vectors, dimension: int, number: int) -> None:
    """Raise an error for invalid queries or an invalid number.

    Raises:
        EventformersError: queries of another dimension, one not finite or too long, or a number below 1.
    """
    if queries.ndim != 2 or queries.shape[1] != dimension:
        raise EventformersError(f"queries of shape {queries.shape}; accepted: (m, {dimension})")
    if number < 1:
        raise EventformersError(f"the number to find is {number}; accepted: 1 or more")
    _check_size(queries, "queries")


def _check_size(vectors: Vectors, name: str) -> None:
    """Raise an error for vectors whose products could overflow single precision."""
    if vectors.size and not np.abs(vectors).max() <= LARGEST:
        wrong = int(np.sum(~(np.abs(vectors) <= LARGEST).all(axis=1)))
        raise EventformersError(
            f"{wrong} {name} have an entry that is NaN, infinite or above {LARGEST:.0e}; accepted: smaller, "
            "finite entries"
        )


def _lengths(vectors: Vectors) -> npt.NDArray[np.float64]:
    """Compute lengths in double precision, `(n,)`: squares of small entries underflow single precision."""
    return np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64))
