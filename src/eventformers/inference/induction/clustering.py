"""Clustering of mentions by their distances, and the choice of the number of clusters."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from scipy.cluster.hierarchy import linkage
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.cluster import AffinityPropagation
from sklearn.exceptions import ConvergenceWarning

from eventformers.errors import EventformersError
from eventformers.inference.induction.manifold import manifold_distances
from eventformers.inference.induction.mention_distances import (
    DistanceKind,
    Labels,
    Matrix,
    MentionVectors,
    average_distances,
    distances,
)

MAX_CANDIDATES = 24
"""Maximum number of candidate numbers of clusters."""

ALIKE = 1e-5
"""Cosine distance up to which two mentions count as equal, as rounding alone may cause it."""

_DAMPINGS = (0.5, 0.9)
_AFFINITY_STEPS = 1_000


class ChosenNumber(NamedTuple):
    """A chosen number of clusters and its silhouettes.

    Attributes:
        num_clusters: the number with the highest silhouette; the smallest wins ties.
        silhouettes: the mean silhouette of each candidate, in [-1, 1].
    """

    num_clusters: int
    silhouettes: dict[int, float]


class AverageLinkage:
    """The average-linkage tree of mentions, which can be cut into any number of clusters.

    Args:
        distances: `(n, n)`, of any sign.
        symmetrise: use the mean of d(i, j) and d(j, i). If off, only the upper triangle counts, as in
            scikit-learn, and the clusters depend on the order of the rows.

    Raises:
        EventformersError: the matrix is not square, is empty, or is not finite.
    """

    def __init__(self, distances: NDArray[np.floating], *, symmetrise: bool = True) -> None:
        number = len(distances)
        if distances.shape != (number, number) or not number:
            raise EventformersError(
                f"distances of shape {distances.shape}; accepted: (n, n) with at least one mention"
            )
        pairs = np.empty(number * (number - 1) // 2)
        start = 0
        for row in range(number - 1):
            of_row = pairs[start : start + number - 1 - row]
            of_row[:] = distances[row, row + 1 :]
            if symmetrise:
                of_row += distances[row + 1 :, row]
                of_row /= 2
            start += len(of_row)
        if not np.isfinite(pairs).all():
            raise EventformersError("distances are NaN or infinite; accepted: finite ones")
        self.number = number
        self._merges = np.empty((0, 4))
        if number > 1:
            # SciPy rejects negative distances, and adding a constant to all distances does not change the
            # tree.
            pairs -= pairs.min()
            self._merges = linkage(pairs, method="average")

    def cut(self, num_clusters: int) -> Labels:
        """Cut the tree into clusters by undoing the last merges.

        Args:
            num_clusters: how many.

        Returns:
            `(n,)`; 0 is the largest cluster; ties go by the first mention.

        Raises:
            EventformersError: there are fewer mentions than clusters.
        """
        if not 1 <= num_clusters <= self.number:
            raise EventformersError(
                f"{num_clusters} clusters of {self.number} mentions; accepted: 1 to {self.number}"
            )
        merges = self._merges[: self.number - num_clusters, :2].astype(np.int64)
        nodes = self.number + len(merges)
        parents = np.repeat(np.arange(self.number, nodes), 2)
        edges = coo_array((np.ones(2 * len(merges)), (merges.ravel(), parents)), shape=(nodes, nodes))
        return by_size(connected_components(edges, directed=False)[1][: self.number])


def cluster_agglomerative(
    distances: NDArray[np.floating], num_clusters: int, *, symmetrise: bool = True
) -> Labels:
    """Cluster by average linkage (Edwards and Ji, section 3.7).

    Args:
        distances: `(n, n)`.
        num_clusters: how many.
        symmetrise: see `AverageLinkage`.

    Returns:
        `(n,)`; 0 is the largest cluster.

    Raises:
        EventformersError: there are fewer mentions than clusters, or the distances are not valid.
    """
    return AverageLinkage(distances, symmetrise=symmetrise).cut(num_clusters)


def cluster_affinity(similarities: NDArray[np.floating], *, seed: int = 0) -> Labels:
    """Cluster by affinity propagation, which finds the number of clusters (Edwards and Ji, Table 1).

    If it does not converge with the default damping, it runs again with more.

    Args:
        similarities: `(n, n)`, for example Q·K or cosines; larger is nearer.
        seed: random seed, which breaks ties.

    Returns:
        `(n,)`; 0 is the largest cluster.

    Raises:
        EventformersError: the matrix is not square, is empty or not finite, or no damping converges.
    """
    number = len(similarities)
    if similarities.shape != (number, number) or not number:
        raise EventformersError(
            f"similarities of shape {similarities.shape}; accepted: (n, n) with at least one mention"
        )
    if not np.isfinite(similarities).all():
        raise EventformersError("similarities are NaN or infinite; accepted: finite ones")
    outside = similarities[~np.eye(number, dtype=bool)]
    if not outside.size or outside.min() == outside.max():
        # Equally near mentions are one cluster; the algorithm's answer would depend on its seed.
        return np.zeros(number, dtype=np.int64)
    for damping in _DAMPINGS:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", ConvergenceWarning)
            found = AffinityPropagation(
                affinity="precomputed", random_state=seed, damping=damping, max_iter=_AFFINITY_STEPS
            ).fit(similarities)
        if not any(issubclass(warning.category, ConvergenceWarning) for warning in told):
            return by_size(found.labels_)
    raise EventformersError(
        f"affinity propagation of {number} mentions did not converge in {_AFFINITY_STEPS} steps; use "
        "another clustering method, or set a number of clusters"
    )


def silhouette(distances: Matrix, labels: Labels) -> float:
    """Compute the mean silhouette of a clustering (Rousseeuw, 1987).

    Args:
        distances: `(n, n)`, symmetric, with a diagonal of 0.
        labels: `(n,)`, from 0.

    Returns:
        A value in [-1, 1]; higher is better. A mention alone in its cluster counts 0. So does every mention
        if there is one cluster, if there are as many clusters as mentions, or if clusters have no distance.
    """
    sizes = np.bincount(labels)
    if len(sizes) < 2:
        return 0.0
    members = np.zeros((len(labels), len(sizes)), dtype=np.float32)
    every = np.arange(len(labels))
    members[every, labels] = 1
    sums = (distances @ members).astype(np.float64)
    own = sums[every, labels] / np.maximum(sizes[labels] - 1, 1)
    means = sums / sizes
    means[every, labels] = np.inf
    other = means.min(axis=1)
    larger = np.maximum(own, other)
    counted = (sizes[labels] > 1) & (larger > 0)
    return float(np.sum((other - own)[counted] / larger[counted]) / len(labels))


def distances_to_cluster(
    runs: Iterable[MentionVectors],
    kind: DistanceKind = "encoder",
    *,
    manifold: bool = True,
    num_neighbours: int | None = None,
) -> Matrix:
    """Compute the distances to cluster by: those of one run or the mean over several, and the manifold.

    Args:
        runs: the vectors of the same mentions from one model or several; see `average_distances`.
        kind: see `distances`.
        manifold: use 1 - w_ij of the distances (`manifold_distances`).
        num_neighbours: see `manifold_weights`.

    Returns:
        `(n, n)`, symmetric.

    Raises:
        EventformersError: there are no runs, the runs differ in their mentions, or a vector is not valid.
        UnknownNameError: an unknown kind.
    """
    found = average_distances(distances(vectors, kind) for vectors in runs)
    return manifold_distances(found, num_neighbours) if manifold else found


def choose_num_clusters(
    tree: AverageLinkage,
    vectors: MentionVectors,
    candidates: Sequence[int] | None = None,
    *,
    show_progress: bool = False,
) -> ChosenNumber:
    """Choose the number of clusters with the highest silhouette on the cosines of encoder vectors.

    If all mentions are equal and `candidates` is None, the number is 1.

    Args:
        tree: the tree of the mentions.
        vectors: the vectors of the mentions.
        candidates: numbers to try; None uses `candidate_numbers`.
        show_progress: draw a progress bar on standard error.

    Raises:
        EventformersError: there are no candidates, or one is below 1 or above the number of mentions.
    """
    cosines = distances(vectors, "encoder")
    if candidates is not None:
        tried = sorted(set(candidates))
    else:
        tried = candidate_numbers(len(cosines)) if cosines.max() > ALIKE else [1]
    if not tried:
        raise EventformersError("the candidate numbers of clusters are empty; accepted: at least one")
    silhouettes = {
        number: silhouette(cosines, tree.cut(number))
        for number in track(
            tried, "number of clusters", console=Console(stderr=True), disable=not show_progress
        )
    }
    return ChosenNumber(max(silhouettes, key=lambda number: (silhouettes[number], -number)), silhouettes)


def candidate_numbers(mentions: int, most: int | None = None) -> list[int]:
    """Return numbers of clusters to try: from 2, in growing steps.

    Args:
        mentions: number of mentions.
        most: largest number to try; None uses the square root of the number of mentions. The bound is a rule
            of thumb. Without it, the silhouette of mentions with many near-duplicates grows until each group
            of near-duplicates is a cluster.
    """
    most = math.isqrt(mentions) if most is None else most
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
