"""Average linkage of many mentions without the matrix of their distances.

In each round, all pairs of clusters that are nearest to each other merge, which makes the tree of average
linkage (Rajagopalan et al., 2021, https://doi.org/10.48550/arXiv.2105.11653). The mean similarity of two
clusters is a sum over pairs of mentions divided by the number of pairs, and merging clusters adds their sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress, track
from scipy.sparse import coo_array, csr_array

from eventformers.inference.induction.mention_distances import (
    DistanceFactors,
    Labels,
    Matrix,
    Rho,
    nearest_weights,
)

Places = NDArray[np.integer]
"""Numbers of clusters or mentions, in 32 bits where there are many."""

BLOCK_BYTES = 2**26
"""Size in bytes of a block of distances or similarities."""

SEED = 0
"""Seed of the order in which equally near pairs merge."""


class Pairs(NamedTuple):
    """Pairs of clusters, the one with the smaller number first, and the mean similarity of their mentions,
    `(p,)` each."""

    first: Places
    second: Places
    similarity: NDArray[np.floating]


class GraphSums:
    """Sums of weights in a graph; pairs of clusters without an edge have the sum 0 and are left out.

    Args:
        weights: for each pair of clusters a part of its sum at (i, j) and the rest at (j, i), `(c, c)`.
    """

    def __init__(self, weights: csr_array) -> None:
        entries = weights.tocoo()
        positive = entries.data > 0
        rows, columns = entries.coords
        self._add(rows[positive], columns[positive], entries.data[positive], weights.shape[0])

    def pairs(self, sizes: NDArray[np.float64]) -> Pairs:
        """Return pairs of clusters, among them each cluster with its nearest one; none if all are apart."""
        return Pairs(self._first, self._second, self._sums / (sizes[self._first] * sizes[self._second]))

    def merge(self, first: Places, second: Places, renamed: Places) -> None:
        """Merge pairs of clusters, then give all clusters their new numbers."""
        number = int(renamed.max()) + 1
        self._add(renamed[self._first], renamed[self._second], self._sums, number)

    def _add(self, rows: Places, columns: Places, sums: NDArray[np.floating], number: int) -> None:
        outside = rows != columns
        rows, columns = rows[outside], columns[outside]
        places = (np.minimum(rows, columns), np.maximum(rows, columns))
        # The conversion adds the entries of a pair.
        added = coo_array((sums[outside], places), shape=(number, number)).tocsr().tocoo()
        self._first, self._second = added.coords
        self._sums = added.data


class ProductSums:
    """Sums of products of vectors, which are the products of the clusters' sums of vectors.

    Args:
        left: sum of each cluster's vectors, `(c, D)`; overwritten.
        right: the same for the vectors that they are multiplied with; None if these are the same.
    """

    def __init__(self, left: Matrix, right: Matrix | None = None) -> None:
        self._sides = [left] if right is None else [left, right]
        self._nearest = np.full(len(left), -1)
        self._similarity = np.zeros(len(left), dtype=np.float32)

    def pairs(self, sizes: NDArray[np.float64]) -> Pairs:
        """Return each cluster with its nearest one; only those whose nearest one has merged search again."""
        weights = (1 / sizes[:, None]).astype(np.float32)
        means = self._sides[-1] * weights
        searching = np.flatnonzero(self._nearest < 0)
        for rows in blocks_of(searching, len(sizes)):
            found = (self._sides[0][rows] * weights[rows]) @ means.T
            own = np.arange(len(rows))
            found[own, rows] = -np.inf
            self._nearest[rows] = found.argmax(axis=1)
            self._similarity[rows] = found[own, self._nearest[rows]]
        every = np.arange(len(sizes))
        return Pairs(np.minimum(every, self._nearest), np.maximum(every, self._nearest), self._similarity)

    def merge(self, first: Places, second: Places, renamed: Places) -> None:
        """Merge pairs of clusters, then give all clusters their new numbers."""
        kept = np.ones(len(renamed), dtype=bool)
        kept[second] = False
        for place, side in enumerate(self._sides):
            side[first] += side[second]
            self._sides[place] = side[kept]
        merged = np.zeros(len(renamed), dtype=bool)
        merged[first] = merged[second] = True
        # A merged cluster is no nearer than the nearer of its parts, so that others keep their nearest one.
        moved = np.where(merged | merged[self._nearest], -1, renamed[self._nearest])
        self._nearest, self._similarity = moved[kept], self._similarity[kept]


class GrowingTree:
    """A tree of merges that grows from equal mentions, which merge first, to one cluster.

    Args:
        groups: the group of equal mentions of each mention, from 0, `(n,)`.

    Attributes:
        clusters: the cluster of each mention, from 0, `(n,)`.
        sizes: number of mentions of each cluster, `(c,)`.
    """

    def __init__(self, groups: Labels) -> None:
        self.clusters: Places = groups
        self.sizes = np.bincount(groups).astype(np.float64)
        self._children: list[tuple[int, int]] = []
        self._nodes = np.full(len(self.sizes), -1)
        for mention, group in enumerate(groups.tolist()):
            node = int(self._nodes[group])
            self._nodes[group] = mention if node < 0 else self._joined(node, mention)

    @property
    def merges(self) -> Labels:
        """The two nodes of each merge, `(m, 2)`; nodes from n are earlier merges, and m is n - 1 if all is
        merged."""
        return np.array(self._children, dtype=np.int64).reshape(-1, 2)

    def grow(self, sums: GraphSums | ProductSums, *, show_progress: bool = False) -> None:
        """Merge clusters, the nearest first, until there is one or no pair is left."""
        with Progress(console=Console(stderr=True), disable=not show_progress) as bar:
            task = bar.add_task("merges", total=len(self.sizes) - 1)
            for merged in self._rounds(sums):
                bar.advance(task, merged)

    def _rounds(self, sums: GraphSums | ProductSums) -> Iterator[int]:
        """Merge in rounds; yield the number of merges of each."""
        earlier = len(self._children)
        heights = np.full(len(self.sizes), -np.inf)
        height_of: list[float] = []
        draw = np.random.default_rng(SEED)
        while len(self.sizes) > 1:
            pairs = sums.pairs(self.sizes)
            if not len(pairs.first):
                break
            chosen = nearest_to_each_other(pairs, len(self.sizes), draw)
            first, second = pairs.first[chosen], pairs.second[chosen]
            # Rounding must not put a merge before those of its parts.
            heights[first] = np.maximum.reduce([-pairs.similarity[chosen], heights[first], heights[second]])
            height_of += heights[first].tolist()
            parts = zip(self._nodes[first].tolist(), self._nodes[second].tolist(), strict=True)
            self._nodes[first] = [self._joined(*pair) for pair in parts]
            self.sizes[first] += self.sizes[second]
            kept = np.ones(len(self.sizes), dtype=bool)
            kept[second] = False
            renamed = np.cumsum(kept, dtype=np.int32) - 1
            renamed[second] = renamed[first]
            sums.merge(first, second, renamed)
            self.clusters = renamed[self.clusters]
            self.sizes, self._nodes, heights = self.sizes[kept], self._nodes[kept], heights[kept]
            yield len(first)
        # Sort the merges after the earlier ones; merges of one round are not yet in order with others.
        order = np.argsort(height_of, kind="stable")
        start = len(self.clusters) + earlier
        names = np.arange(start + len(order))
        names[start + order] = start + np.arange(len(order))
        merges = self.merges
        merges[earlier:] = names[merges[earlier:]][order]
        self._children = list(map(tuple, merges.tolist()))
        self._nodes = names[self._nodes]

    def _joined(self, first: int, second: int) -> int:
        self._children.append((first, second))
        return len(self.clusters) + len(self._children) - 1


def merge_mentions(
    factors: DistanceFactors,
    num_neighbours: int | None = None,
    rho: Rho = "positive",
    *,
    show_progress: bool = False,
) -> Labels:
    """Merge mentions by average linkage on their distances, or on manifold weights of the nearest ones.

    Equal mentions merge first. With manifold weights, only the largest weights of each mention are kept and
    all others count as 0; parts of this graph without an edge between them merge last, by the mean distance
    of their mentions. Without, the tree is exact but for rounding.

    Args:
        num_neighbours: number of weights kept for each mention; None clusters by the distances themselves.

    Returns:
        The two nodes of each merge, nearest first, `(n - 1, 2)`; node n + i is the i-th merge.
    """
    left = np.ascontiguousarray(factors.left)
    bytes_of = left.view(np.dtype((np.void, left.itemsize * left.shape[1])))
    _, distinct, groups = np.unique(bytes_of.ravel(), return_index=True, return_inverse=True)
    tree = GrowingTree(groups)
    if num_neighbours is not None:
        blocks = track(
            list(blocks_of(distinct, len(groups))),
            "nearest mentions",
            console=Console(stderr=True),
            disable=not show_progress,
        )
        # A mention is one of its own nearest.
        weights = nearest_weights(map(factors.rows, blocks), distinct, num_neighbours + 1, rho)
        weights.data *= np.repeat(tree.sizes / 2, np.diff(weights.indptr)) * tree.sizes[weights.indices]
        tree.grow(GraphSums(weights), show_progress=show_progress)
    if len(tree.sizes) > 1:
        places = (tree.clusters, np.arange(len(groups)))
        members = coo_array((np.ones(len(groups), dtype=np.float32), places)).tocsr()
        symmetric = factors.left is factors.right
        sums = ProductSums(members @ factors.left, None if symmetric else members @ factors.right)
        tree.grow(sums, show_progress=show_progress)
    return tree.merges


def nearest_to_each_other(pairs: Pairs, number: int, draw: np.random.Generator) -> NDArray[np.bool_]:
    """Find the pairs whose clusters are nearest to each other, a cluster in at most one of them.

    `draw` decides between equally near clusters: always preferring the same one would merge many equal
    clusters one at a time.
    """
    best = np.full(number, -np.inf, dtype=pairs.similarity.dtype)
    for side in (pairs.first, pairs.second):
        np.maximum.at(best, side, pairs.similarity)
    chosen = (pairs.similarity == best[pairs.first]) & (pairs.similarity == best[pairs.second])
    places = np.flatnonzero(chosen)
    rank = draw.permutation(len(places))
    highest = np.full(number, -1)
    for side in (pairs.first, pairs.second):
        np.maximum.at(highest, side[places], rank)
    chosen[places] = (rank == highest[pairs.first[places]]) & (rank == highest[pairs.second[places]])
    return chosen


def blocks_of(chosen: Labels, number: int) -> Iterator[Labels]:
    """Split positions into blocks whose rows of `number` entries each fill `BLOCK_BYTES`."""
    step = max(1, BLOCK_BYTES // (4 * number))
    for start in range(0, len(chosen), step):
        yield chosen[start : start + step]
