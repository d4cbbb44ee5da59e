"""The metric `transitive_similarity` for `evaluate.load`."""

from __future__ import annotations

from numbers import Real
from typing import Any

import datasets
import evaluate

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
class TransitiveSimilarity(evaluate.Metric):
    """Spearman's rank correlation of predicted similarities with human ratings."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features(
                {"predictions": datasets.Value("float64"), "references": datasets.Value("float64")}
            ),
            license="apache-2.0",
        )

    def add_batch(self, *, predictions: Any = None, references: Any = None) -> None:
        """Add a batch of lists, arrays, tensors, series or columns.

        Raises:
            ValueError: an input is no list, or a value has another type.
        """
        super().add_batch(
            predictions=_listed("predictions", predictions, Real),
            references=_listed("references", references, Real),
        )

    def _compute(self, predictions: list[float], references: list[float]) -> dict[str, float]:
        return transitive_similarity(predictions, references)


def _listed(name: str, values: Any, kind: type, depth: int = 1) -> Any:
    """Return a list, array, tensor, series or column as a list; raise `ValueError` for another type of value.

    `evaluate` itself would read "1" and True as numbers, and fail on None and on a series with other labels.
    """
    values = next((getattr(values, to)() for to in ("tolist", "to_pylist") if hasattr(values, to)), values)
    if not depth:
        if isinstance(values, bool) or not isinstance(values, kind):
            raise ValueError(f"{name} is {values!r}; accepted: a number")
        return values
    if not isinstance(values, (list, tuple)):
        raise ValueError(f"{name} is {values!r}; accepted: a list")
    return [_listed(f"{name}[{place}]", one, kind, depth - 1) for place, one in enumerate(values)]
