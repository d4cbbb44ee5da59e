"""Exact search for the largest dot products, in blocks, several times faster than a full sort.

A first pass in low precision finds the candidates that can be among the best: the error of a product has a
bound, and candidates below the k-th best by more than twice that bound are dropped. The few others are scored
in double precision. The result equals a full sort of double-precision scores and depends neither on the block
size nor on the precision of the first pass.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from eventformers.errors import EventformersError
from eventformers.inference.encoding.vectors import Positions, Vectors, release_pages
from eventformers.inference.search.ranking import full_single_precision

BLOCK_MEBIBYTES = 16
"""Size of a block of low-precision scores, which bounds the memory besides the vectors: it fits a large cache
and is large enough for a fast product."""

LARGEST = 1e15
"""Largest accepted absolute value of a vector's entry."""

_BLOCK_VECTORS = 16_384
"""Number of vectors in a block, large enough for a fast product."""
_BLOCK_QUERIES = 8_192
"""Number of queries that share one conversion of a block of vectors to low precision."""
_GROUP = 8
"""Number of scores in a group; the search first looks only at the largest score of a group."""
_GROUPS = 4
"""Number of groups whose largest scores together give a first limit."""
_PAIRS = 256
"""Number of pairs scored in double precision at a time, so that their vectors stay in the cache."""
_GROUPS_AT_ONCE = 65_536
"""Number of groups whose single scores are compared at a time."""
_MANY, _TIMES = 1 / 64, 8
"""Limits beyond which single precision replaces bfloat16, which is then too coarse: this share of a block's
scores, and this multiple of the requested number, could be among the best."""


class Found(NamedTuple):
    """The vectors with the largest dot products with each query, best first.

    Attributes:
        scores: the dot products in double precision, rounded to single, `(queries, k)`.
        positions: the positions of the vectors, `(queries, k)`; the lower position wins ties.
    """

    scores: Vectors
    positions: Positions


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
        # The mean adds the same to all scores of a query. Vectors without it are shorter, which tightens the
        # bound: the vectors of an untrained encoder nearly all have one direction.
        mean = np.zeros(vectors.shape[1])
        for block in self._blocks():
            _check_size(self.vectors[block], "vectors")
            mean += self.vectors[block].sum(axis=0, dtype=np.float64)
            release_pages(self.vectors[block])
        self._mean = torch.from_numpy((mean / len(vectors)).astype(np.float32))
        self._bounds: dict[tuple[torch.dtype, int], _Bounds] = {}

    def search(self, queries: Vectors, number: int) -> Found:
        """Find the vectors with the largest dot products with each query.

        Args:
            queries: `(m, d)`, float32.
            number: number of vectors to find; fewer if there are not as many.

        Raises:
            EventformersError: queries of another dimension, one not finite or too long, or a number below 1.
        """
        check_queries(queries, self.vectors.shape[1], number)
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        number = min(number, len(self.vectors))
        scores = np.full((len(queries), number), -np.inf, dtype=np.float32)
        positions = np.full((len(queries), number), -1, dtype=np.int64)
        precision = low_precision()
        with torch.inference_mode(), full_single_precision():
            for start in range(0, len(queries), _BLOCK_QUERIES):
                rows = slice(start, min(start + _BLOCK_QUERIES, len(queries)))
                best = Found(scores[rows], positions[rows])
                if not self._search_block(queries[rows], best, precision):
                    precision = torch.float32
                    scores[rows], positions[rows] = -np.inf, -1
                    self._search_block(queries[rows], best, precision)
        return Found(scores, positions)

    def _blocks(self) -> Iterator[slice]:
        for start in range(0, len(self.vectors), _BLOCK_VECTORS):
            yield slice(start, min(start + _BLOCK_VECTORS, len(self.vectors)))

    def _search_block(self, queries: Vectors, best: Found, precision: torch.dtype) -> bool:
        """Search for some queries, into `best`; return False if the precision is too coarse."""
        number = best.scores.shape[1]
        exact = torch.from_numpy(queries)
        low = exact.to(precision)
        sides = _Queries(
            low=low,
            length=_lengths(exact),
            low_length=_lengths(low),
            error=_lengths(low.float() - exact),
            shift=exact.double() @ self._mean.double(),
        )
        for block in self._blocks():
            vectors, group = self._lowered(block, number, precision)
            bounds = self._block_bounds(block, vectors, precision)
            size = len(vectors)
            rows_at_once = max(1, BLOCK_MEBIBYTES * 2**20 // (size * vectors.itemsize))
            scores = torch.empty((min(rows_at_once, len(queries)), size), dtype=precision)
            for start in range(0, len(queries), rows_at_once):
                rows = slice(start, min(start + rows_at_once, len(queries)))
                of_rows = Found(best.scores[rows], best.positions[rows])
                products = torch.mm(sides.low[rows], vectors.T, out=scores[: rows.stop - rows.start])
                products[:, block.stop - block.start :] = -torch.inf
                grouped = products.view(len(products), group, -1)
                largest = grouped.amax(dim=1)
                limits = _limits(largest, of_rows, sides, rows, bounds, precision)
                hits = 0
                for found_rows, found in _at_least(grouped, largest, limits):
                    hits += len(found)
                    if precision != torch.float32 and hits > len(products) * (_TIMES * number + size * _MANY):
                        return False
                    inside = found < block.stop - block.start
                    found_rows, found = found_rows[inside], found[inside] + block.start
                    _keep_best(of_rows, found_rows, found, self._score(queries[rows], found_rows, found))
            release_pages(self.vectors[block])
        return True

    def _lowered(self, block: slice, number: int, precision: torch.dtype) -> tuple[torch.Tensor, int]:
        """Return a block's vectors without the mean, padded with zeros to whole groups, and the group
        size."""
        vectors = self._centred(block)
        group = max(1, min(_GROUP, len(vectors) // (4 * _GROUPS * number)))
        whole = group * _GROUPS
        lowered = torch.zeros((-(-len(vectors) // whole) * whole, vectors.shape[1]), dtype=precision)
        lowered[: len(vectors)] = vectors
        return lowered, group

    def _centred(self, block: slice) -> torch.Tensor:
        """Return a block's vectors without the mean, in single precision."""
        # NumPy subtracts, since PyTorch warns about an array that it may not write to, such as a mapped one.
        return torch.from_numpy(self.vectors[block] - self._mean.numpy())

    def _block_bounds(self, block: slice, lowered: torch.Tensor, precision: torch.dtype) -> _Bounds:
        """Return the largest length of the block's vectors, and the largest error of low precision."""
        key = (precision, block.start)
        if key not in self._bounds:
            exact = self._centred(block)
            moved = lowered[: len(exact)].float() - exact
            self._bounds[key] = _Bounds(
                length=float(_lengths(exact).max()),
                low_length=float(_lengths(lowered).max()),
                error=float(_lengths(moved).max()),
                mean=float(_lengths(self._mean[None])),
            )
        return self._bounds[key]

    def _score(self, queries: Vectors, rows: Positions, positions: Positions) -> Vectors:
        """Compute the dot products of pairs in double precision, rounded to single, `(pairs,)`."""
        scores = np.empty(len(rows), dtype=np.float32)
        for start in range(0, len(rows), _PAIRS):
            pairs = slice(start, start + _PAIRS)
            scores[pairs] = np.einsum(
                "nd,nd->n",
                queries[rows[pairs]].astype(np.float64),
                self.vectors[positions[pairs]].astype(np.float64),
            )
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


class _Queries(NamedTuple):
    """Queries in low precision, with their lengths, rounding errors and products with the mean."""

    low: torch.Tensor
    length: torch.Tensor
    low_length: torch.Tensor
    error: torch.Tensor
    shift: torch.Tensor


class _Bounds(NamedTuple):
    length: float
    low_length: float
    error: float
    mean: float


@functools.cache
def low_precision() -> torch.dtype:
    """Measure which precision is faster on this processor: bfloat16 or float32.

    Without bfloat16 instructions, a processor computes its products slower than those in single precision.
    """
    seconds = {}
    for precision in (torch.float32, torch.bfloat16):
        left, right = torch.ones((512, 256), dtype=precision), torch.ones((4_096, 256), dtype=precision)
        taken = []
        for _ in range(4):
            started = time.perf_counter()
            left @ right.T
            taken.append(time.perf_counter() - started)
        seconds[precision] = min(taken)
    return min(seconds, key=lambda precision: seconds[precision])


def _check_size(vectors: Vectors, name: str) -> None:
    """Raise an error for vectors whose products could overflow single precision."""
    if vectors.size and not np.abs(vectors).max() <= LARGEST:
        wrong = int(np.sum(~(np.abs(vectors) <= LARGEST).all(axis=1)))
        raise EventformersError(
            f"{wrong} {name} have an entry that is NaN, infinite or above {LARGEST:.0e}; accepted: smaller, "
            "finite entries"
        )


def _lengths(vectors: torch.Tensor) -> torch.Tensor:
    """Compute lengths in double precision, `(n,)`: squares of small entries underflow single precision."""
    return torch.cat([torch.linalg.vector_norm(part.double(), dim=1) for part in vectors.split(1_024)])


def _limits(
    largest: torch.Tensor,
    best: Found,
    queries: _Queries,
    rows: slice,
    bounds: _Bounds,
    precision: torch.dtype,
) -> torch.Tensor:
    """Return the low-precision scores below which no vector of a block is among a query's best, `(rows,)`.

    |x·y - x̃·ỹ| ≤ |x - x̃||y| + |x̃||y - ỹ|, and in any order of summation a product in single precision is off
    by at most d 2⁻²³ |x̃||ỹ|, and by what is too small for its range. The last term covers the rounding of the
    scores that are compared, and of the vectors without their mean.
    """
    dimension = queries.low.shape[1]
    length, low_length = queries.length[rows], queries.low_length[rows]
    error = (
        queries.error[rows] * bounds.length
        + low_length * bounds.error
        + dimension * 2.0**-23 * low_length * bounds.low_length
        + dimension * 2.0**-126 * (1 + length + bounds.length)
        + 2.0**-21 * length * (bounds.length + bounds.mean)
    )
    worst = torch.from_numpy(best.scores[:, -1]).double()
    limits = worst - queries.shift[rows] - error
    unknown = torch.isinf(worst)
    number = best.scores.shape[1]
    several = largest.view(len(largest), _GROUPS, -1)
    if unknown.any() and several.shape[2] >= number:
        # The k-th largest of the groups' largest scores is no larger than the k-th largest score.
        reached = several.amax(dim=1).float().topk(number, dim=1).values[:, -1].double()
        rounding = reached.abs() * torch.finfo(precision).eps / 2
        limits = torch.where(unknown, reached - rounding - 2 * error, limits)
    # Rounding keeps the order, so a score that reaches the limit also reaches it when rounded.
    return limits.to(precision)


def _at_least(
    grouped: torch.Tensor, largest: torch.Tensor, limits: torch.Tensor
) -> Iterator[tuple[Positions, Positions]]:
    """Return rows and columns of the scores, `(rows, group, groups)`, that reach their row's limit."""
    groups = grouped.shape[2]
    rows, of_group = torch.nonzero(largest >= limits[:, None], as_tuple=True)
    for start in range(0, len(rows), _GROUPS_AT_ONCE):
        some = slice(start, start + _GROUPS_AT_ONCE)
        members = grouped[rows[some], :, of_group[some]] >= limits[rows[some], None]
        pairs, member = torch.nonzero(members, as_tuple=True)
        columns = of_group[some][pairs] + member * groups
        yield rows[some][pairs].numpy(), columns.numpy()


def _keep_best(best: Found, rows: Positions, positions: Positions, scores: Vectors) -> None:
    """Merge scored pairs into the best of their rows."""
    number = best.scores.shape[1]
    touched, row_of_pair = np.unique(rows, return_inverse=True)
    row = np.concatenate((np.repeat(np.arange(len(touched)), number), row_of_pair))
    score = np.concatenate((best.scores[touched].ravel(), scores))
    position = np.concatenate((best.positions[touched].ravel(), positions))
    order = np.lexsort((position, -score, row))
    first = np.searchsorted(row[order], np.arange(len(touched)))
    kept = order[first[:, None] + np.arange(number)]
    best.scores[touched], best.positions[touched] = score[kept], position[kept]
