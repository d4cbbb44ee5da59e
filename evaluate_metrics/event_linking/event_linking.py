"""The metric `event_linking` for `evaluate.load`."""

from __future__ import annotations

from typing import Any

import datasets
import evaluate

from .event_linking_impl import event_linking

_DESCRIPTION = """
Event linking measures how well the events that a mention is linked to agree with its gold events, from the
atomic event to the root of the hierarchy: the share of mentions whose sets are equal, and precision, recall
and F1 over mentions and over events.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of list of str): per mention, the ids of the events that it is linked to, in any order.
        An empty list means {NULL} and counts as one event that is always wrong.
    references (list of list of str): per mention, the ids of its gold events, in any order.

Returns:
    strict_accuracy (float): percentage of mentions whose two sets are equal, 0 to 100, higher is better.
    macro_precision (float): share of a mention's linked events that are right, mean over mentions.
    macro_recall (float): share of a mention's gold events that are linked, mean over mentions.
    macro_f1 (float): harmonic mean of these two.
    micro_precision (float): share of all mentions' linked events that are right.
    micro_recall (float): share of all mentions' gold events that are linked.
    micro_f1 (float): harmonic mean of these two.

Raises:
    ValueError: no mentions, lists of unequal length, a mention without a gold event, or an id that is
        not a string.

Examples:
    >>> metric = evaluate.load("event_linking")
    >>> predictions = [["war", "landing"], ["siege", "war"], []]
    >>> references = [["landing", "war"], ["siege"], ["siege"]]
    >>> scores = metric.compute(predictions=predictions, references=references)
    >>> {name: round(score, 1) for name, score in scores.items()}
    {'strict_accuracy': 33.3, 'macro_precision': 50.0, 'macro_recall': 66.7, 'macro_f1': 57.1, \
'micro_precision': 60.0, 'micro_recall': 75.0, 'micro_f1': 66.7}
"""

_CITATION = """
@inproceedings{ou2023hierarchical,
  title = {Hierarchical Event Grounding},
  author = {Ou, Jiefu and Pratapa, Adithya and Gupta, Rishubh and Mitamura, Teruko},
  booktitle = {Proceedings of the AAAI Conference on Artificial Intelligence},
  year = {2023}
}
"""


@evaluate.utils.file_utils.add_start_docstrings(_DESCRIPTION, _KWARGS_DESCRIPTION)
class EventLinking(evaluate.Metric):
    """Agreement of sets of events with the gold events of mentions."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_KWARGS_DESCRIPTION,
            features=datasets.Features(
                {
                    "predictions": datasets.List(datasets.Value("string")),
                    "references": datasets.List(datasets.Value("string")),
                }
            ),
            license="apache-2.0",
        )

    def add_batch(self, *, predictions: Any = None, references: Any = None) -> None:
        """Add a batch of lists, arrays, tensors, series or columns.

        Raises:
            ValueError: an input is no list, or a value has another type.
        """
        super().add_batch(
            predictions=_listed("predictions", predictions, str, 2),
            references=_listed("references", references, str, 2),
        )

    def _compute(self, predictions: list[list[str]], references: list[list[str]]) -> dict[str, float]:
        return event_linking(predictions, references)


def _listed(name: str, values: Any, kind: type, depth: int = 1) -> Any:
    """Return a list, array, tensor, series or column as a list; raise `ValueError` for another type of value.

    `evaluate` itself would read "1" and True as numbers, and fail on None and on a series with other labels.
    """
    values = next((getattr(values, to)() for to in ("tolist", "to_pylist") if hasattr(values, to)), values)
    if not depth:
        if isinstance(values, bool) or not isinstance(values, kind):
            raise ValueError(f"{name} is {values!r}; accepted: a string")
        return values
    if not isinstance(values, (list, tuple)):
        raise ValueError(f"{name} is {values!r}; accepted: a list")
    return [_listed(f"{name}[{place}]", one, kind, depth - 1) for place, one in enumerate(values)]
