"""The metric `transitive_similarity` for `evaluate.load`."""

from __future__ import annotations

from collections.abc import Sequence

import datasets
import numpy as np
from numpy.typing import NDArray
from scipy import stats

from eventformers.evaluate_metrics.inputs import CheckedMetric

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


def transitive_similarity(predictions: Sequence[float], references: Sequence[float]) -> dict[str, float]:
    """Compute Spearman's rank correlation between predicted similarities and human ratings;
    `_KWARGS_DESCRIPTION` has inputs, scores and errors."""
    predicted, rated = _finite("predictions", predictions), _finite("references", references)
    if len(predicted) != len(rated):
        raise ValueError(
            f"predictions has {len(predicted)} values and references {len(rated)}; "
            "accepted: one of each per pair"
        )
    if len(predicted) < 2:
        raise ValueError("found 1 pair; accepted: two or more, because a rank correlation needs an order")
    if np.ptp(predicted) == 0 or np.ptp(rated) == 0:
        return {"spearman": float("nan")}
    return {"spearman": float(stats.spearmanr(predicted, rated).statistic)}


def _finite(name: str, values: Sequence[float]) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} has shape {array.shape}; accepted: a list of at least one number")
    wrong = np.flatnonzero(~np.isfinite(array))
    if wrong.size:
        raise ValueError(
            f"{name} has {wrong.size} values that are NaN or infinite, the first at index {wrong[0]}; "
            "accepted: finite numbers"
        )
    return array


class TransitiveSimilarity(CheckedMetric):
    """Spearman's rank correlation of predicted similarities with human ratings."""

    DESCRIPTION, INPUTS_DESCRIPTION, CITATION = _DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION
    scores = staticmethod(transitive_similarity)
    FEATURES = datasets.Features(
        {"predictions": datasets.Value("float64"), "references": datasets.Value("float64")}
    )
