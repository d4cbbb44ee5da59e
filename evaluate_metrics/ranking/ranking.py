"""The metric `ranking` for `evaluate.load`."""

from __future__ import annotations

from collections.abc import Sequence

import datasets
import numpy as np

from eventformers.evaluate_metrics.inputs import CheckedMetric

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

HITS_AT = (1, 3, 4, 5, 8, 10, 15, 16, 50, 100)
"""The depths K of the hits."""


def ranking(predictions: Sequence[float]) -> dict[str, float | int]:
    """Compute mean reciprocal rank, hits at fixed depths and mean rank; `_KWARGS_DESCRIPTION` has inputs,
    scores and errors."""
    ranks = np.asarray(predictions, dtype=np.float64)
    if ranks.ndim != 1 or ranks.size == 0:
        raise ValueError(f"predictions has shape {ranks.shape}; accepted: a list of at least one rank")
    wrong = np.flatnonzero(~(ranks >= 1))
    if wrong.size:
        raise ValueError(
            f"predictions has {wrong.size} values that are NaN or below 1, the first {ranks[wrong[0]]} at "
            f"index {wrong[0]}; accepted: ranks from 1, and infinity for an answer that was not found"
        )
    found = np.isfinite(ranks)
    scores: dict[str, float | int] = {"mrr": 100.0 * float(np.mean(1.0 / ranks))}
    for depth in HITS_AT:
        scores[f"hits_at_{depth}"] = 100.0 * int(np.sum(ranks <= depth)) / len(ranks)
    scores["mean_rank"] = float(np.mean(ranks[found])) if found.any() else float("nan")
    scores["not_found"] = int(np.sum(~found))
    return scores


class Ranking(CheckedMetric):
    """Reciprocal rank and hits of the right answers of queries."""

    DESCRIPTION, INPUTS_DESCRIPTION, CITATION = _DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION
    scores = staticmethod(ranking)
    FEATURES = datasets.Features({"predictions": datasets.Value("float64")})
