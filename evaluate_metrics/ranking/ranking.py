"""The metric `ranking` for `evaluate.load`."""

from __future__ import annotations

import datasets
import evaluate

from eventformers.evaluate_metrics.inputs import CheckedMetric

from .ranking_impl import ranking

_DESCRIPTION = """
Ranking measures how close to the top of an ordered list the right answer of each query is: the mean
reciprocal rank, the share of queries whose answer is among the first K, and the mean rank.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of float): per query, the rank of its right answer from 1; a fraction if ties share
        their mean rank; infinite if the answer was not found.

Returns:
    mrr (float): mean reciprocal rank in percent, 0 to 100, higher is better.
    hits_at_K (float): percentage of queries with a rank of at most K, for K in 1, 3, 4, 5, 8, 10, 15, 16,
        50 and 100; an answer that was not found is a miss.
    mean_rank (float): mean rank over the answers that were found, lower is better; NaN if none was found.
    not_found (int): number of queries whose answer was not found.

Raises:
    ValueError: no ranks, or a rank that is NaN or below 1.

Examples:
    >>> metric = evaluate.load("ranking")
    >>> scores = metric.compute(predictions=[1, 2.5, 10, float("inf")])
    >>> scores["mrr"], scores["hits_at_3"], scores["mean_rank"], scores["not_found"]
    (37.5, 50.0, 4.5, 1)
"""

_CITATION = """
@inproceedings{bordes2013translating,
  title = {Translating Embeddings for Modeling Multi-relational Data},
  author = {Bordes, Antoine and Usunier, Nicolas and Garcia-Duran, Alberto and Weston, Jason and
            Yakhnenko, Oksana},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2013}
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class Ranking(CheckedMetric):
    """Reciprocal rank and hits of the right answers of queries."""

    DESCRIPTION, INPUTS_DESCRIPTION, CITATION = _DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION
    scores = staticmethod(ranking)
    FEATURES = datasets.Features({"predictions": datasets.Value("float64")})
