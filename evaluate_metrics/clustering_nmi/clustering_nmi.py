"""The metric `clustering_nmi` for `evaluate.load`."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import datasets
import numpy as np
from sklearn.metrics import (
    adjusted_rand_score,
    fowlkes_mallows_score,
    homogeneity_completeness_v_measure,
    normalized_mutual_info_score,
)
from sklearn.metrics.cluster import contingency_matrix

from eventformers.evaluate_metrics.inputs import CheckedMetric, listed

_DESCRIPTION = """
Clustering NMI measures how well clusters of mentions agree with their true types; the names of the clusters
do not matter. It returns the mutual information normalized by the geometric mean of both entropies, related
scores, and the share of types that were found.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of int): the cluster of each mention, as any integers; floats without a fraction count.
    references (list of str or int): the type of each mention, as names, or as integers for all mentions.

Returns:
    nmi (float): mutual information over the geometric mean of both entropies, 0 to 100, higher is better.
    fowlkes_mallows (float): geometric mean of precision and recall over pairs of mentions, 0 to 100.
    completeness (float): degree to which the mentions of a type share a cluster, 0 to 100.
    homogeneity (float): degree to which the mentions of a cluster share a type, 0 to 100.
    v_measure (float): harmonic mean of these two, equal to NMI with the arithmetic mean, 0 to 100.
    ari (float): Rand index adjusted for chance, 100 at best, 0 for chance, below 0 for worse.
    purity (float): share of a cluster's most frequent type, unweighted mean over clusters.
    type_representation (float): percentage of types that are the most frequent type of some cluster.
    num_clusters (int): number of clusters.

Raises:
    ValueError: no mentions, lists of unequal length, a mention without a type, or a
        cluster that is NaN or has a fraction.

Examples:
    >>> metric = evaluate.load("clustering_nmi")
    >>> scores = metric.compute(predictions=[0, 0, 1, 1], references=["Sue", "Sue", "Marry", "Sue"])
    >>> {name: round(score, 1) for name, score in scores.items()}
    {'nmi': 34.6, 'fowlkes_mallows': 40.8, 'completeness': 31.1, 'homogeneity': 38.4, 'v_measure': 34.4, \
'ari': 0.0, 'purity': 75.0, 'type_representation': 100.0, 'num_clusters': 2}
"""

_CITATION = """
@article{fowlkes1983method,
  title = {A Method for Comparing Two Hierarchical Clusterings},
  author = {Fowlkes, Edward B. and Mallows, Colin L.},
  journal = {Journal of the American Statistical Association},
  year = {1983}
}
@inproceedings{rosenberg2007v,
  title = {{V}-Measure: A Conditional Entropy-Based External Cluster Evaluation Measure},
  author = {Rosenberg, Andrew and Hirschberg, Julia},
  booktitle = {Proceedings of EMNLP-CoNLL},
  year = {2007}
}
@inproceedings{edwards2023semi,
  title = {Semi-supervised New Event Type Induction and Description via Contrastive Loss-Enforced Batch Attention},
  author = {Edwards, Carl and Ji, Heng},
  booktitle = {Proceedings of EACL},
  year = {2023}
}
"""  # noqa: E501 - a title is one line


def clustering_nmi(predictions: Sequence[float], references: Sequence[str | int]) -> dict[str, float | int]:
    """Compute the agreement of clusters with types; `_KWARGS_DESCRIPTION` has inputs, scores and errors.

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


class ClusteringNmi(CheckedMetric):
    """Agreement of clusters with types."""

    DESCRIPTION, INPUTS_DESCRIPTION, CITATION = _DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION
    scores = staticmethod(clustering_nmi)
    FEATURES = datasets.Features(
        {"predictions": datasets.Value("int64"), "references": datasets.Value("string")}
    )

    def checked(self, name: str, values: Any) -> list[Any]:
        """Return clusters as integers and types as names; `evaluate` itself would cut fractions."""
        return (cluster_numbers if name == "predictions" else type_names)(listed(name, values))
