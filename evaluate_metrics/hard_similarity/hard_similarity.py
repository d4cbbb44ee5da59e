"""The metric `hard_similarity` for `evaluate.load`."""

from __future__ import annotations

import datasets
import evaluate

from eventformers.evaluate_metrics.inputs import CheckedMetric

from .hard_similarity_impl import hard_similarity

_DESCRIPTION = """
Hard similarity compares two pairs of events in each row. The events of the similar pair mean nearly the same
in different words; those of the dissimilar pair share words but not meaning. The score is the percentage of
rows whose similar pair has the strictly greater similarity.
"""

_KWARGS_DESCRIPTION = """
Args:
    similar (list of float): per row, the similarity (cosine) of the similar pair.
    dissimilar (list of float): per row, the similarity of the dissimilar pair.

Returns:
    accuracy (float): percentage of rows with similar > dissimilar, 0 to 100, higher is better.
    ties (int): rows whose two similarities are equal; they count as wrong.
    count (int): number of rows.

Raises:
    ValueError: no rows, lists of unequal length, or a value that is NaN or infinite.

Examples:
    >>> metric = evaluate.load("hard_similarity")
    >>> metric.compute(similar=[0.8, 0.3, 0.5, 0.9], dissimilar=[0.2, 0.6, 0.5, 0.1])
    {'accuracy': 50.0, 'ties': 1, 'count': 4}
"""

_CITATION = """
@inproceedings{weber2018event,
  title = {Event Representations with Tensor-Based Compositions},
  author = {Weber, Noah and Balasubramanian, Niranjan and Chambers, Nathanael},
  booktitle = {Proceedings of the AAAI Conference on Artificial Intelligence},
  year = {2018}
}
@inproceedings{ding2019event,
  title = {Event Representation Learning Enhanced with External Commonsense Knowledge},
  author = {Ding, Xiao and Liao, Kuo and Liu, Ting and Li, Zhongyang and Duan, Junwen},
  booktitle = {Proceedings of EMNLP-IJCNLP},
  year = {2019}
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class HardSimilarity(CheckedMetric):
    """Accuracy over rows of a similar and a dissimilar pair of events."""

    DESCRIPTION, INPUTS_DESCRIPTION, CITATION = _DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION
    scores = staticmethod(hard_similarity)
    FEATURES = datasets.Features(
        {"similar": datasets.Value("float64"), "dissimilar": datasets.Value("float64")}
    )
