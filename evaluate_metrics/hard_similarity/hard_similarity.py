"""The metric `hard_similarity` for `evaluate.load`."""

from __future__ import annotations

from numbers import Real
from typing import Any

import datasets
import evaluate

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
class HardSimilarity(evaluate.Metric):
    """Accuracy over rows of a similar and a dissimilar pair of events."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features(
                {"similar": datasets.Value("float64"), "dissimilar": datasets.Value("float64")}
            ),
            license="apache-2.0",
        )

    def add_batch(self, *, similar: Any = None, dissimilar: Any = None) -> None:
        """Add a batch of lists, arrays, tensors, series or columns.

        Raises:
            ValueError: an input is no list, or a value has another type.
        """
        super().add_batch(
            similar=_listed("similar", similar, Real), dissimilar=_listed("dissimilar", dissimilar, Real)
        )

    def _compute(self, similar: list[float], dissimilar: list[float]) -> dict[str, float | int]:
        return hard_similarity(similar, dissimilar)


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
