"""The metric `ranking` for `evaluate.load`."""

from __future__ import annotations

from numbers import Real
from typing import Any

import datasets
import evaluate

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
class Ranking(evaluate.Metric):
    """Reciprocal rank and hits of the right answers of queries."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features({"predictions": datasets.Value("float64")}),
            license="apache-2.0",
        )

    def add_batch(self, *, predictions: Any = None) -> None:
        """Add a batch of lists, arrays, tensors, series or columns.

        Raises:
            ValueError: an input is no list, or a value has another type.
        """
        super().add_batch(predictions=_listed("predictions", predictions, Real))

    def _compute(self, predictions: list[float]) -> dict[str, float | int]:
        return ranking(predictions)


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
