"""The metric `event_linking` for `evaluate.load`."""

from __future__ import annotations

import datasets
import evaluate

from eventformers.evaluate_metrics.inputs import CheckedMetric

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
class EventLinking(CheckedMetric):
    """Agreement of sets of events with the gold events of mentions."""

    DESCRIPTION, INPUTS_DESCRIPTION, CITATION = _DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION
    scores = staticmethod(event_linking)
    FEATURES = datasets.Features(
        {
            "predictions": datasets.List(datasets.Value("string")),
            "references": datasets.List(datasets.Value("string")),
        }
    )
