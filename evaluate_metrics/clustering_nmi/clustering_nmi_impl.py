"""The arithmetic of the metric `clustering_nmi`, with only numpy and scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.metrics import (
    adjusted_rand_score,
    fowlkes_mallows_score,
    homogeneity_completeness_v_measure,
    normalized_mutual_info_score,
)
from sklearn.metrics.cluster import contingency_matrix


def clustering_nmi(predictions: Sequence[float], references: Sequence[str | int]) -> dict[str, float | int]:
    """Compute the agreement of clusters with types; `clustering_nmi.py` describes inputs, scores and errors.

    Of equally frequent types in a cluster, the alphabetically first counts. A cluster that is not an
    integer is a `ValueError`, too.
    """
    clusters, types = cluster_numbers(predictions), type_names(references)
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


def cluster_numbers(predictions: Sequence[Any]) -> list[int]:
    """Return the clusters as integers; raise `ValueError` for other values."""
    for place, cluster in enumerate(predictions):
        is_number = isinstance(cluster, Real) and not isinstance(cluster, (bool, np.bool_))
        # Compared first: a float cannot hold every integer.
        if not is_number or not -(2**63) <= cluster < 2**63 or cluster != int(cluster):
            raise ValueError(
                f"predictions has {cluster!r} at index {place}; accepted: the number of a cluster"
            )
    if not len(predictions):
        raise ValueError("predictions is empty; accepted: a cluster for at least one mention")
    return [int(cluster) for cluster in predictions]


def type_names(references: Sequence[Any]) -> list[str]:
    """Return the types as names, also of integers; raise `ValueError` for other values, or a mixture."""
    are_numbers = len(references) > 0 and isinstance(references[0], Integral)
    for place, name in enumerate(references):
        is_number = isinstance(name, Integral) and not isinstance(name, (bool, np.bool_))
        if not (is_number if are_numbers else isinstance(name, str) and name):
            accepted = "an integer, as the first one" if are_numbers else "the name of a type"
            raise ValueError(f"references has {name!r} at index {place}; accepted: {accepted}")
    return [str(name) for name in references]
