"""Clustering of mentions by their distances, and the choice of the number of clusters.

Average linkage of many mentions needs no matrix of their distances. In each round, all pairs of clusters that
are nearest to each other merge, which makes the tree of average linkage (Rajagopalan et al., 2021,
https://doi.org/10.48550/arXiv.2105.11653). The mean similarity of two clusters is a sum over pairs of
mentions divided by the number of pairs, and merging clusters adds their sums.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress, track
from scipy.cluster.hierarchy import linkage
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform
from sklearn.cluster import AffinityPropagation
from sklearn.exceptions import ConvergenceWarning

from eventformers.errors import EventformersError
from eventformers.inference.induction.mention_distances import (
    DistanceFactors,
    DistanceKind,
    Labels,
    Matrix,
    MentionVectors,
    Rho,
    distance_factors,
    manifold_weights,
    nearest_weights,
    unit_embeddings,
)

MAX_CANDIDATES = 24
"""Maximum number of candidate numbers of clusters."""

LARGEST_MATRIX = 20_000
"""Largest number of mentions whose distances of all pairs are in memory; 5 GB at the peak."""

NUM_NEIGHBOURS = 200
"""Number of manifold weights kept for each mention beyond `LARGEST_MATRIX`."""

ALIKE = 1e-5
"""Cosine distance up to which a mention counts as equal to the first, as rounding alone may cause it."""

BLOCK_MENTIONS = 16_384
"""Number of mentions whose silhouettes are computed at a time."""

_DAMPINGS = (0.5, 0.9)
_AFFINITY_STEPS = 1_000


class AverageLinkage:
    """The average-linkage tree of mentions (Edwards and Ji, section 3.7), cut into any number of clusters.

    Args:
        merges: the two nodes of each merge, nearest first, `(n - 1, 2)`; node n + i is the i-th merge.
        num_neighbours: number of manifold weights kept for each mention; None if the tree is exact.
    """

    def __init__(self, merges: Labels, num_neighbours: int | None = None) -> None:
        self.number = len(merges) + 1
        self.num_neighbours = num_neighbours
        self._merges = merges

    @classmethod
    def of_distances(cls, distances: NDArray[np.floating]) -> AverageLinkage:
        """Build the tree from finite distances of all pairs, `(n, n)`, symmetric and of any sign."""
        if len(distances) == 1:
            return cls(np.empty((0, 2), dtype=np.int64))
        pairs = squareform(distances, checks=False).astype(np.float64)
        # SciPy rejects negative distances, and adding a constant to all distances does not change the tree.
        pairs -= pairs.min()
        return cls(linkage(pairs, method="average")[:, :2].astype(np.int64))

    @classmethod
    def of_mentions(
        cls,
        runs: Iterable[MentionVectors],
        kind: DistanceKind = "encoder",
        *,
        manifold: bool = True,
        rho: Rho = "positive",
        show_progress: bool = False,
    ) -> AverageLinkage:
        """Build the tree from vectors, beyond `LARGEST_MATRIX` mentions without a matrix of all pairs.

        Beyond that number, only the `NUM_NEIGHBOURS` largest manifold weights of each mention count; see
        `merge_mentions`. Distances without manifold weights need no approximation. Arguments and errors are
        those of `distances_to_cluster`.
        """
        runs = list(runs)
        if not runs or len(runs[0].embeddings) <= LARGEST_MATRIX:
            return cls.of_distances(distances_to_cluster(runs, kind, manifold=manifold, rho=rho))
        neighbours = NUM_NEIGHBOURS if manifold else None
        factors = distance_factors(runs, kind)
        rho = "nearest" if kind == "dot" else rho
        return cls(merge_mentions(factors, neighbours, rho, show_progress=show_progress), neighbours)

    def cut(self, num_clusters: int) -> Labels:
        """Cut the tree into clusters by undoing the last merges.

        Returns:
            `(n,)`; 0 is the largest cluster; ties go by the first mention.

        Raises:
            EventformersError: there are fewer mentions than clusters.
        """
        if not 1 <= num_clusters <= self.number:
            raise EventformersError(
                f"{num_clusters} clusters of {self.number} mentions; accepted: 1 to {self.number}"
            )
        merges = self._merges[: self.number - num_clusters]
        nodes = self.number + len(merges)
        parents = np.repeat(np.arange(self.number, nodes), 2)
        edges = coo_array((np.ones(2 * len(merges)), (merges.ravel(), parents)), shape=(nodes, nodes))
        return by_size(connected_components(edges, directed=False)[1][: self.number])


def cluster_affinity(similarities: NDArray[np.floating]) -> Labels:
    """Cluster by affinity propagation, which finds the number of clusters (Edwards and Ji, Table 1).

    If it does not converge with the default damping, it runs again with more.

    Args:
        similarities: `(n, n)`, finite, for example Q·K or cosines; larger is nearer.

    Returns:
        `(n,)`; 0 is the largest cluster.

    Raises:
        EventformersError: no damping converges.
    """
    number = len(similarities)
    outside = similarities[~np.eye(number, dtype=bool)]
    if not outside.size or outside.min() == outside.max():
        # Equally near mentions are one cluster; the algorithm's answer would depend on its seed.
        return np.zeros(number, dtype=np.int64)
    for damping in _DAMPINGS:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", ConvergenceWarning)
            found = AffinityPropagation(
                affinity="precomputed", random_state=0, damping=damping, max_iter=_AFFINITY_STEPS
            ).fit(similarities)
        if not any(issubclass(warning.category, ConvergenceWarning) for warning in told):
            return by_size(found.labels_)
    raise EventformersError(
        f"affinity propagation of {number} mentions did not converge in {_AFFINITY_STEPS} steps; use "
        "another clustering method, or set a number of clusters"
    )


def silhouette(units: Matrix, labels: Labels) -> float:
    """Compute the mean silhouette of a clustering by cosine distances (Rousseeuw, 1987).

    The sum of the distances from a mention to those of a cluster is their number less the product of its
    vector with the sum of theirs, so the result is exact without the distances of all pairs.

    Args:
        units: vectors of length 1, `(n, d)`.
        labels: `(n,)`, from 0.

    Returns:
        A value in [-1, 1]; higher is better. A mention alone in its cluster counts 0. So does every mention
        if there is one cluster, if there are as many clusters as mentions, or if clusters have no distance.
    """
    sizes = np.bincount(labels)
    if len(sizes) < 2:
        return 0.0
    members = csr_array((np.ones(len(labels), dtype=np.float32), (labels, np.arange(len(labels)))))
    sums = members @ units
    total = 0.0
    for start in range(0, len(labels), BLOCK_MENTIONS):
        own_label = labels[start : start + BLOCK_MENTIONS]
        every = np.arange(len(own_label))
        distances = np.maximum(sizes - units[start : start + BLOCK_MENTIONS] @ sums.T, 0)
        own = distances[every, own_label] / np.maximum(sizes[own_label] - 1, 1)
        means = distances / sizes
        means[every, own_label] = np.inf
        other = means.min(axis=1)
        larger = np.maximum(own, other)
        counted = (sizes[own_label] > 1) & (larger > 0)
        total += float(np.sum((other - own)[counted] / larger[counted]))
    return total / len(labels)


def distances_to_cluster(
    runs: Iterable[MentionVectors],
    kind: DistanceKind = "encoder",
    *,
    manifold: bool = True,
    rho: Rho = "positive",
) -> Matrix:
    """Compute the distances of all pairs to cluster by, those of one run or the mean over several.

    Args:
        runs: the vectors of the same mentions from one model or several.
        manifold: use 1 - w_ij of the distances (`manifold_weights`).
        rho: see `manifold_weights`; products, which have any sign, always take `nearest`.

    Returns:
        `(n, n)`, symmetric.

    Raises:
        EventformersError: an error of `distance_factors`, or more than `LARGEST_MATRIX` mentions.
    """
    factors = distance_factors(runs, kind)
    check_matrix(len(factors.left))
    found = factors.matrix()
    if manifold:
        found = manifold_weights(found, "nearest" if kind == "dot" else rho)
        np.subtract(1, found, out=found)
    return found


def check_matrix(mentions: int) -> None:
    """Raise an error if the distances of all pairs of so many mentions do not fit in memory."""
    if mentions > LARGEST_MATRIX:
        raise EventformersError(
            f"the distances of all pairs of {mentions:,} mentions; accepted: up to {LARGEST_MATRIX:,}, or "
            "the method agglomerative, which needs no matrix"
        )


def choose_num_clusters(
    tree: AverageLinkage, vectors: MentionVectors, *, show_progress: bool = False
) -> tuple[int, dict[int, float]]:
    """Choose the one of `candidate_numbers` with the highest silhouette on the cosines of encoder vectors,
    the smallest if several have it; 1 if all mentions are equal. Also return the mean silhouette of each, in
    [-1, 1]."""
    units = unit_embeddings(vectors.embeddings)
    tried = candidate_numbers(len(units)) if (1 - units @ units[0]).max() > ALIKE else [1]
    silhouettes = {
        number: silhouette(units, tree.cut(number))
        for number in track(
            tried, "number of clusters", console=Console(stderr=True), disable=not show_progress
        )
    }
    return max(silhouettes, key=lambda number: (silhouettes[number], -number)), silhouettes


def candidate_numbers(mentions: int) -> list[int]:
    """Return numbers of clusters to try, in growing steps from 2 to the root of the number of mentions.

    The bound is a rule of thumb. Without it, the silhouette of mentions with many near-duplicates grows until
    each group of near-duplicates is a cluster.
    """
    most = math.isqrt(mentions)
    if most < 2:
        return [1]
    return sorted({int(number) for number in np.geomspace(2, most, MAX_CANDIDATES).round()})


def by_size(labels: NDArray[np.integer]) -> Labels:
    """Renumber clusters by size, largest first, then by their first mention."""
    _, first, inverse, sizes = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    order = np.lexsort((first, -sizes))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return np.asarray(rank[inverse.ravel()], dtype=np.int64)


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
        """Merge clusters in rounds, the nearest first, until there is one or no pair is left."""
        earlier = len(self._children)
        heights = np.full(len(self.sizes), -np.inf)
        height_of: list[float] = []
        draw = np.random.default_rng(SEED)
        with Progress(console=Console(stderr=True), disable=not show_progress) as bar:
            task = bar.add_task("merges", total=len(self.sizes) - 1)
            while len(self.sizes) > 1:
                pairs = sums.pairs(self.sizes)
                if not len(pairs.first):
                    break
                chosen = nearest_to_each_other(pairs, len(self.sizes), draw)
                first, second = pairs.first[chosen], pairs.second[chosen]
                # Rounding must not put a merge before those of its parts.
                above = [-pairs.similarity[chosen], heights[first], heights[second]]
                heights[first] = np.maximum.reduce(above)
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
                bar.advance(task, len(first))
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
