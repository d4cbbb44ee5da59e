"""The metric `clustering_nmi` for `evaluate.load`."""

from __future__ import annotations

from typing import Any

import datasets
import evaluate

from eventformers.evaluate_metrics.inputs import CheckedMetric, listed

from .clustering_nmi_impl import cluster_numbers, clustering_nmi, type_names

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


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
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
