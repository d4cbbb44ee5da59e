"""The arithmetic of the metric `clustering_nmi`, with only numpy and scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import (
    adjusted_rand_score,
    fowlkes_mallows_score,
    homogeneity_completeness_v_measure,
    normalized_mutual_info_score,
)
from sklearn.metrics.cluster import contingency_matrix


def clustering_nmi(predictions: Sequence[int], references: Sequence[str]) -> dict[str, float | int]:
    """Compute the agreement of clusters with types; `clustering_nmi.py` describes inputs, scores and errors.

    Of equally frequent types in a cluster, the alphabetically first counts. A cluster that is not an
    integer is a `ValueError`, too.
    """
    clusters, types = _clusters(predictions), _types(references)
    if len(clusters) != len(types):
        raise ValueError(
            f"predictions has {len(clusters)} values and references {len(types)}; accepted: one of each per "
            "mention"
        )
    homogeneity, completeness, v_measure = homogeneity_completeness_v_measure(types, clusters)
    # Types in alphabetical order, clusters in numerical order.
    counts = contingency_matrix(types, clusters)
    shares = {
        "nmi": normalized_mutual_info_score(types, clusters, average_method="geometric"),
        "fowlkes_mallows": fowlkes_mallows_score(types, clusters),
        "completeness": completeness,
        "homogeneity": homogeneity,
        "v_measure": v_measure,
        "ari": adjusted_rand_score(types, clusters),
        "purity": np.mean(counts.max(axis=0) / counts.sum(axis=0)),
        "type_representation": len(set(counts.argmax(axis=0).tolist())) / len(counts),
    }
    return {**{name: 100.0 * float(share) for name, share in shares.items()}, "num_clusters": counts.shape[1]}


def _clusters(predictions: Sequence[int]) -> list[int]:
    for place, cluster in enumerate(predictions):
        if isinstance(cluster, bool) or not isinstance(cluster, (int, np.integer)):
            raise ValueError(
                f"predictions has {cluster!r} at index {place}; accepted: the number of a cluster"
            )
    if not len(predictions):
        raise ValueError("predictions is empty; accepted: a cluster for at least one mention")
    return [int(cluster) for cluster in predictions]


def _types(references: Sequence[str]) -> list[str]:
    for place, name in enumerate(references):
        if not isinstance(name, str) or not name:
            raise ValueError(f"references has {name!r} at index {place}; accepted: the name of a type")
    return list(references)
