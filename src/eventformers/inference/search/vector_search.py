"""Exact and approximate search for the largest dot products, with FAISS.

`nearest` finds more candidates than needed in single precision, and double precision scores them. A product
in single precision has a bounded error, which shows whether a vector that was left out could be among the
best; such queries are searched again for more candidates. The result equals a full sort of double-precision
scores.

The approximate search takes little memory, and adding vectors needs no rebuild. An inverted file of
product-quantised vectors (Jégou et al., 2011, https://doi.org/10.1109/TPAMI.2010.57) finds more candidates
than needed, and the vectors themselves, which may be mapped from disk, score them. In memory, a vector takes
a byte for each `SUBVECTOR` dimensions and eight for its position.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import faiss
import numpy as np
import numpy.typing as npt

from eventformers.errors import EventformersError
from eventformers.files import file_digest, replaced_file, write_text
from eventformers.inference.encoding.vectors import Positions, Vectors, released_blocks, rows_at

LARGEST = 1e15
"""Largest accepted absolute value of a vector's entry."""

SMALLEST = 1_024
"""Smallest number of vectors; an exact search among fewer is faster."""
LISTS = 1.0
"""Number of lists, as a multiple of the square root of the number of vectors."""
PROBED = 1 / 16
"""Share of the lists to search."""
SUBVECTOR = 4
"""Number of dimensions that one byte stands for."""
RESCORED = 64
"""Number of candidates to score exactly, as a multiple of the requested number."""
INDEX_SUFFIX, RECALL_SUFFIX = ".ivf", ".recall"
RECALL_AT = 8
RECALL_QUERIES = 256
"""Number of vectors whose nearest ones are also searched exactly to measure the recall."""

_MORE = 8
"""Least number of candidates to score in double precision beyond the requested number."""
_BLOCK_FOUND = 2**20
"""Number of candidates of a block of queries, which bounds the memory besides the vectors."""
_PAIRS = 4_096
"""Number of pairs scored in double precision at a time, so that their vectors stay in the cache."""
_BITS = 8
"""Number of bits of a code for `SUBVECTOR` dimensions."""
_TRAINED_ON = 64
"""Number of vectors for each list, and for each code, from which both are learned."""
_BLOCK_VECTORS = 65_536
_BLOCK_CANDIDATES = 65_536
"""Number of candidates whose vectors are in memory at a time."""


class Found(NamedTuple):
    """The dot products with each query and the positions of the vectors with the largest ones, best first,
    `(queries, k)`."""

    scores: Vectors
    positions: Positions


def nearest(vectors: Vectors, queries: Vectors, number: int) -> Found:
    """Find the `number` vectors, or all if there are fewer, with the largest dot products with each query, in
    single precision.

    Args:
        vectors: `(n, d)`, float32, in memory or mapped; pages of a block are released after its search.
        queries: `(m, d)`, float32.
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
    """Exact search by dot product among vectors `(n, d)`, float32, one or more, which are not copied.

    Raises:
        EventformersError: a vector has an entry that is not finite, or whose products could overflow single
            precision.
    """

    def __init__(self, vectors: Vectors) -> None:
        self.vectors = np.ascontiguousarray(vectors, dtype=np.float32)
        self._longest = 0.0
        for block in released_blocks(self.vectors):
            largest = np.abs(self.vectors[block]).max()
            if not largest <= LARGEST:
                raise EventformersError(
                    f"a vector has an entry of the size {largest:.0e}; accepted: finite entries up to "
                    f"{LARGEST:.0e}"
                )
            self._longest = max(self._longest, float(_lengths(self.vectors[block]).max()))

    def search(self, queries: Vectors, number: int) -> Found:
        """Find the `number` vectors, or all if there are fewer, with the largest dot products with each
        query, `(m, d)`, float32.

        Returns:
            Scores in double precision, rounded to single; the lower position wins ties.
        """
        total, dimension = self.vectors.shape
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
            step = max(1, _BLOCK_FOUND // candidates)
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


def _lengths(vectors: Vectors) -> npt.NDArray[np.float64]:
    """Compute lengths in double precision, `(n,)`: squares of small entries underflow single precision."""
    return np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64))


class ApproximateSearch:
    """Approximate search by dot product among vectors `(n, d)`, float32, which are not copied.

    Args:
        index: the positions of the vectors by list, and their codes.
        recall: share of the `RECALL_AT` exact neighbours that the search found when it was built; None if
            unknown.
    """

    def __init__(self, vectors: Vectors, index: faiss.IndexIVFPQ, recall: float | None = None) -> None:
        self.vectors, self.index, self.recall = vectors, index, recall

    @classmethod
    def build(cls, vectors: Vectors) -> ApproximateSearch:
        """Learn lists and codes from a sample of `SMALLEST` vectors or more, `(n, d)`, then add all."""
        number, dimension = vectors.shape
        lists = round(LISTS * number**0.5)
        parts = max(part for part in range(1, max(1, dimension // SUBVECTOR) + 1) if dimension % part == 0)
        metric = faiss.METRIC_INNER_PRODUCT
        index = faiss.IndexIVFPQ(faiss.IndexFlatIP(dimension), dimension, lists, parts, _BITS, metric)
        # Otherwise FAISS prints a warning for small samples.
        index.cp.min_points_per_centroid = index.pq.cp.min_points_per_centroid = 1
        wanted = min(number, _TRAINED_ON * max(lists, 2**_BITS))
        sample = np.sort(np.random.default_rng(0).choice(number, wanted, replace=False))
        index.train(rows_at(vectors, sample))
        index.nprobe = max(1, round(PROBED * lists))
        built = cls(vectors, index)
        built.add(np.arange(number))
        return built

    def add(self, positions: Positions) -> None:
        """Add the vectors at some positions."""
        for start in range(0, len(positions), _BLOCK_VECTORS):
            block = np.ascontiguousarray(positions[start : start + _BLOCK_VECTORS], dtype=np.int64)
            self.index.add_with_ids(rows_at(self.vectors, block), block)

    def moved(self, vectors: Vectors, places: Positions) -> ApproximateSearch:
        """Return a search among other vectors, `(m, d)`, most of them the same, with the same lists and
        codes; `places` has the earlier position of each, -1 for a vector that is new, `(m,)`."""
        now_at = np.full(len(self.vectors), -1, dtype=np.int64)
        kept = np.flatnonzero(places >= 0)
        now_at[places[kept]] = kept
        # The stubs of FAISS know neither the lists nor the settings of a search.
        index: Any = faiss.clone_index(self.index)
        index.remove_ids(np.flatnonzero(now_at < 0))
        for positions in _ids_of_lists(index):
            positions[:] = now_at[positions]
        search = ApproximateSearch(vectors, index)
        search.add(np.flatnonzero(places < 0))
        return search

    def search(self, queries: Vectors, number: int, among: slice | None = None) -> Found:
        """Find the `number` vectors, or all if there are fewer, with the largest dot products with each
        query, `(m, d)`, float32.

        Args:
            among: the positions to search, without a step; None searches all.

        Returns:
            Positions in `vectors`; -1 with minus infinity after the last one that was found.
        """
        first, last, _ = (among or slice(None)).indices(len(self.vectors))
        number = min(number, last - first)
        wanted = min(number * RESCORED, last - first)
        make_settings: Any = faiss.SearchParametersIVF
        selector = {} if among is None else {"sel": faiss.IDSelectorRange(first, last)}
        settings = make_settings(nprobe=self.index.nprobe, **selector)
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        scores = np.empty((len(queries), number), dtype=np.float32)
        positions = np.empty((len(queries), number), dtype=np.int64)
        step = max(1, _BLOCK_CANDIDATES // wanted)
        for start in range(0, len(queries), step):
            rows = slice(start, start + step)
            _, near = self.index.search(queries[rows], wanted, params=settings)
            exact = np.einsum("mnd,md->mn", rows_at(self.vectors, near), queries[rows])
            exact[near < 0] = -np.inf
            # The lower position wins ties, as in an exact search.
            order = np.lexsort((near, -exact), axis=1)[:, :number]
            scores[rows] = np.take_along_axis(exact, order, axis=1)
            positions[rows] = np.take_along_axis(near, order, axis=1)
        return Found(scores, positions)

    def measure_recall(self) -> float:
        """Measure the share of the exact neighbours of some of the vectors that the search finds."""
        total = len(self.vectors)
        sample = np.unique(np.linspace(0, total - 1, RECALL_QUERIES).round().astype(np.int64))
        queries, number = rows_at(self.vectors, sample), min(RECALL_AT + 1, total)
        exact = ExactSearch(self.vectors).search(queries, number).positions
        return shared(self.search(queries, number).positions, exact, without=sample)

    def write(self, path: Path) -> None:
        """Write the lists and codes, then the recall and the digest of the first file, in a file each."""
        with replaced_file(path) as temporary:
            faiss.write_index(self.index, str(temporary))
        write_text(
            _recall_file(path), json.dumps({"recall": self.recall, "digest": file_digest(path)}) + "\n"
        )


def read_search(path: Path, vectors: Vectors) -> ApproximateSearch | None:
    """Read the search among vectors, `(n, d)`; None if there is no whole one of as many vectors."""
    if not (path.is_file() and _recall_file(path).is_file()):
        return None
    with suppress(OSError, ValueError, RuntimeError, TypeError, KeyError):
        record = json.loads(_recall_file(path).read_text(encoding="utf-8"))
        if record["digest"] != file_digest(path):
            return None
        index = faiss.read_index(str(path))
        if (
            isinstance(index, faiss.IndexIVFPQ)
            and (index.ntotal, index.d) == vectors.shape
            and all(ids.min() >= 0 and ids.max() < len(vectors) for ids in _ids_of_lists(index))
        ):
            return ApproximateSearch(vectors, index, float(record["recall"]))
    return None


def shared(found: Positions, exact: Positions, *, without: Sequence[int] | Positions = ()) -> float:
    """Return the share of exact positions, `(m, k)`, that were found; `without` is a position to leave out of
    each row, such as that of the query itself."""
    own = np.full(len(exact), -1) if not len(without) else np.asarray(without)
    counted = exact != own[:, None]
    hits = (exact[:, :, None] == found[:, None, :]).any(axis=2)
    return float(hits[counted].mean()) if counted.any() else 1.0


def _ids_of_lists(index: Any) -> Iterator[Positions]:
    """Yield the positions in each list that is not empty; they can be written to."""
    for place in range(index.nlist):
        if size := index.invlists.list_size(place):
            yield faiss.rev_swig_ptr(index.invlists.get_ids(place), size)


def _recall_file(path: Path) -> Path:
    """Return the file beside an index with its recall, which is written last."""
    return path.with_suffix(RECALL_SUFFIX)
