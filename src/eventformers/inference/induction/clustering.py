"""Clustering of mentions by their distances, and the choice of the number of clusters."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from scipy.cluster.hierarchy import linkage
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform
from sklearn.cluster import AffinityPropagation
from sklearn.exceptions import ConvergenceWarning

from eventformers.errors import EventformersError
from eventformers.inference.induction.mention_distances import (
    DistanceKind,
    Labels,
    Matrix,
    MentionVectors,
    Rho,
    distance_factors,
    manifold_weights,
    unit_embeddings,
)
from eventformers.inference.induction.reciprocal_linkage import merge_mentions

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
        EventformersError: there are no runs, the runs differ in their mentions, a vector is not valid, or
            there are more than `LARGEST_MATRIX` mentions.
        UnknownNameError: an unknown kind.
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
