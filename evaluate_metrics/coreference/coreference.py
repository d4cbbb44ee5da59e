"""The metric `coreference` for `evaluate.load`."""

from __future__ import annotations

from typing import Any

import datasets
import evaluate

from eventformers.evaluate_metrics.inputs import CheckedMetric, listed

from .coreference_impl import cluster_labels, coreference

_DESCRIPTION = """
Coreference measures how well clusters of mentions agree with the events (or entities) that they mention. It
returns the CoNLL score, which is the mean of the F1 scores MUC, B-cubed and CEAF-e, with these and LEA.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of str or int): the predicted cluster of each mention, as names or as integers; "" for a
        mention that the system does not have.
    references (list of str or int): the true cluster of each mention, in the same order; "" for a mention
        that only the system has.

Returns:
    conll_f1 (float): mean of muc_f1, b_cubed_f1 and ceafe_f1, 0 to 100, higher is better.
    muc_precision, muc_recall, muc_f1 (float): over the links that hold a cluster together.
    b_cubed_precision, b_cubed_recall, b_cubed_f1 (float): over mentions.
    ceafe_precision, ceafe_recall, ceafe_f1 (float): over clusters, aligned one to one.
    lea_precision, lea_recall, lea_f1 (float): over clusters by the share of their links, weighted by size.
    num_clusters (int): number of predicted clusters.
    count (int): number of mentions.

Raises:
    ValueError: no mentions on one side, lists of unequal length, or a cluster that is neither a text nor an
        integer as the first one is.

Examples:
    >>> metric = evaluate.load("coreference")
    >>> scores = metric.compute(predictions=[0, 0, 1, 1], references=["storm", "storm", "storm", "vote"])
    >>> {name: round(scores[name], 1) for name in ("conll_f1", "muc_f1", "b_cubed_f1", "ceafe_f1", "lea_f1")}
    {'conll_f1': 64.6, 'muc_f1': 50.0, 'b_cubed_f1': 70.6, 'ceafe_f1': 73.3, 'lea_f1': 33.3}
"""

_CITATION = """
@inproceedings{pradhan2014scoring,
  title = {Scoring Coreference Partitions of Predicted Mentions: A Reference Implementation},
  author = {Pradhan, Sameer and Luo, Xiaoqiang and Recasens, Marta and Hovy, Eduard and Ng, Vincent and Strube, Michael},
  booktitle = {Proceedings of ACL},
  year = {2014}
}
@inproceedings{moosavi2016which,
  title = {Which Coreference Evaluation Metric Do You Trust? A Proposal for a Link-based Entity Aware Metric},
  author = {Moosavi, Nafise Sadat and Strube, Michael},
  booktitle = {Proceedings of ACL},
  year = {2016}
}
"""  # noqa: E501 - a title is one line


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class Coreference(CheckedMetric):
    """Agreement of clusters of mentions."""

    DESCRIPTION, INPUTS_DESCRIPTION, CITATION = _DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION
    scores = staticmethod(coreference)
    FEATURES = datasets.Features(
        {"predictions": datasets.Value("string"), "references": datasets.Value("string")}
    )

    def checked(self, name: str, values: Any) -> list[Any]:
        """Return clusters as texts."""
        return cluster_labels(name, listed(name, values))
