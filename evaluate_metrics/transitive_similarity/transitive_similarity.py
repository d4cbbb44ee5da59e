"""The metric `transitive_similarity` for `evaluate.load`."""

from __future__ import annotations

import datasets
import evaluate

from eventformers.evaluate_metrics.inputs import CheckedMetric

from .transitive_similarity_impl import transitive_similarity

_DESCRIPTION = """
Transitive similarity measures how well a model's similarities of pairs of transitive sentences (subject,
verb, object) agree with human ratings. The score is Spearman's rank correlation; ties get their mean rank.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of float): per pair, the similarity (cosine) given by the model.
    references (list of float): per pair, the mean human rating (1 to 7 in the published set).

Returns:
    spearman (float): -1 to 1, higher is better; NaN if all predictions or all references are equal.

Raises:
    ValueError: fewer than two pairs, lists of unequal length, or a value that is NaN or infinite.

Examples:
    >>> metric = evaluate.load("transitive_similarity")
    >>> scores = metric.compute(predictions=[0.9, 0.4, 0.5, 0.1], references=[6.2, 4.5, 3.0, 1.1])
    >>> round(scores["spearman"], 2)
    0.8
"""

_CITATION = """
@inproceedings{kartsaklis2014study,
  title = {A Study of Entanglement in a Categorical Framework of Natural Language},
  author = {Kartsaklis, Dimitri and Sadrzadeh, Mehrnoosh},
  booktitle = {Proceedings of the 11th Workshop on Quantum Physics and Logic},
  year = {2014}
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class TransitiveSimilarity(CheckedMetric):
    """Spearman's rank correlation of predicted similarities with human ratings."""

    DESCRIPTION, INPUTS_DESCRIPTION, CITATION = _DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION
    scores = staticmethod(transitive_similarity)
    FEATURES = datasets.Features(
        {"predictions": datasets.Value("float64"), "references": datasets.Value("float64")}
    )
