"""Clusters of mentions from their distances, and how many there are."""

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
"""Numbers of clusters that are tried where none are given."""

ALIKE = 1e-5
"""Cosine distance up to which two mentions are alike: rounding alone may be the cause."""

_DAMPINGS = (0.5, 0.9)
_AFFINITY_STEPS = 1_000


class ChosenNumber(NamedTuple):
    """A number of clusters, and what it was chosen by.

    Attributes:
        num_clusters: the number with the highest silhouette; of equal ones the smallest.
        silhouettes: the mean silhouette of each candidate, in [-1, 1].
    """

    num_clusters: int
    silhouettes: dict[int, float]


class AverageLinkage:
    """The tree of average linkage over mentions, which can be cut into any number of clusters.

    Args:
        distances: `(n, n)`, of any sign.
        symmetrise: take the mean of d(i, j) and d(j, i); without it the upper triangle alone is read, as
            scikit-learn does, and the clusters depend on the order of the rows.

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
            # The tree does not change when all distances grow alike, and SciPy wants none below zero.
            pairs -= pairs.min()
            self._merges = linkage(pairs, method="average")

    def cut(self, num_clusters: int) -> Labels:
        """The clusters that are left when the last merges are undone.

        Args:
            num_clusters: how many.

        Returns:
            `(n,)`; 0 is the largest cluster, and of equally large ones that of the first mention.

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
    """Clusters by average linkage (Edwards and Ji, section 3.7).

    Args:
        distances: `(n, n)`.
        num_clusters: how many.
        symmetrise: see `AverageLinkage`.

    Returns:
        `(n,)`; 0 is the largest cluster.

    Raises:
        EventformersError: there are fewer mentions than clusters, or the distances cannot be read.
    """
    return AverageLinkage(distances, symmetrise=symmetrise).cut(num_clusters)


def cluster_affinity(similarities: NDArray[np.floating], *, seed: int = 0) -> Labels:
    """Clusters by affinity propagation, which finds their number itself (Edwards and Ji, Table 1).

    Where it does not settle with the usual damping, it is run again with more.

    Args:
        similarities: `(n, n)`, such as Q·K or cosines; larger is nearer.
        seed: decides between equal similarities.

    Returns:
        `(n,)`; 0 is the largest cluster.

    Raises:
        EventformersError: the matrix is not square, is empty or not finite, or no damping settles.
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
        # Mentions that are all equally near are one cluster; the method's own answer depends on its seed.
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
        f"affinity propagation of {number} mentions did not settle in {_AFFINITY_STEPS} steps; accepted: "
        "another way to cluster, or a number of clusters"
    )


def silhouette(distances: Matrix, labels: Labels) -> float:
    """The mean silhouette of a clustering (Rousseeuw, 1987).

    Args:
        distances: `(n, n)`, symmetric, with a diagonal of 0.
        labels: `(n,)`, from 0.

    Returns:
        A value in [-1, 1], higher is better. A mention alone in its cluster counts 0, and so does each of one
        cluster, of as many clusters as mentions, and of clusters at no distance.
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
    """What mentions are clustered by: the distances of one run, or their mean over several, and the manifold.

    Args:
        runs: the vectors of the same mentions under one model or several; see `average_distances`.
        kind: see `distances`.
        manifold: take 1 - w_ij of the distances (`manifold_distances`).
        num_neighbours: see `manifold_weights`.

    Returns:
        `(n, n)`, symmetric.

    Raises:
        EventformersError: there is no run, the runs differ in their mentions, or a vector cannot be used.
        UnknownNameError: an unknown kind.
    """
    found = average_distances(distances(vectors, kind) for vectors in runs)
    return manifold_distances(found, num_neighbours) if manifold else found


def choose_num_clusters(
    matrix: NDArray[np.floating],
    vectors: MentionVectors,
    candidates: Sequence[int] | None = None,
    *,
    show_progress: bool = False,
) -> ChosenNumber:
    """Choose the number of clusters whose silhouette on the encoder vectors' cosines is highest.

    Without candidates, mentions that are all alike are one cluster.

    Args:
        matrix: `(n, n)`, what average linkage clusters by.
        vectors: the vectors of the mentions.
        candidates: numbers to try; None takes `candidate_numbers`.
        show_progress: draw a progress bar on standard error.

    Raises:
        EventformersError: no candidate, one below 1, or one above the number of mentions.
    """
    cosines = distances(vectors, "encoder")
    if candidates is not None:
        tried = sorted(set(candidates))
    else:
        tried = candidate_numbers(len(cosines)) if (cosines > ALIKE).any() else [1]
    if not tried:
        raise EventformersError("no number of clusters to try; accepted: at least one")
    tree = AverageLinkage(matrix)
    silhouettes = {
        number: silhouette(cosines, tree.cut(number))
        for number in track(
            tried, "number of clusters", console=Console(stderr=True), disable=not show_progress
        )
    }
    return ChosenNumber(max(silhouettes, key=lambda number: (silhouettes[number], -number)), silhouettes)


def candidate_numbers(mentions: int) -> list[int]:
    """Numbers of clusters to try: from 2 in steps that grow, to the square root of the number of mentions.

    That bound is a rule of thumb. Without one the silhouette of mentions, of which many are nearly alike,
    grows until each group of these is a cluster.
    """
    most = math.isqrt(mentions)
    if most < 2:
        return [1]
    return sorted({int(number) for number in np.geomspace(2, most, MAX_CANDIDATES).round()})


def by_size(labels: NDArray[np.integer]) -> Labels:
    """Labels numbered by the size of their clusters, largest first, then by their first mention."""
    _, first, inverse, sizes = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    order = np.lexsort((first, -sizes))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return np.asarray(rank[inverse.ravel()], dtype=np.int64)
