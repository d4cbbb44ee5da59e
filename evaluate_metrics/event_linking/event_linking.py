"""The metric `event_linking` for `evaluate.load`."""

from __future__ import annotations

from collections.abc import Sequence

import datasets
import numpy as np

from eventformers.evaluate_metrics.inputs import CheckedMetric

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


def event_linking(
    predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Compute the agreement of the sets of events that mentions are linked to with their gold sets.

    Ou et al. (2023), equations 6 to 10; `_KWARGS_DESCRIPTION` has inputs, scores and errors. `macro_f1` is
    the harmonic mean of the two macro scores, not the mean of each mention's F1.
    """
    if len(predictions) == 0 or len(predictions) != len(references):
        raise ValueError(
            f"predictions has {len(predictions)} mentions and references {len(references)}; accepted: one "
            "set of each per mention, and at least one"
        )
    equal = 0
    counts = np.empty((3, len(predictions)))
    for mention, (predicted, expected) in enumerate(zip(predictions, references, strict=True)):
        linked = _ids("predictions", mention, predicted)
        gold = _ids("references", mention, expected)
        if not gold:
            raise ValueError(
                f"the references of mention {mention} are empty; accepted: at least one gold event"
            )
        equal += linked == gold
        counts[:, mention] = len(linked & gold), max(1, len(linked)), len(gold)
    right, given, wanted = counts
    scores = {"strict_accuracy": equal / len(predictions)}
    scores |= _scores("macro", float(np.mean(right / given)), float(np.mean(right / wanted)))
    scores |= _scores("micro", float(right.sum() / given.sum()), float(right.sum() / wanted.sum()))
    return {name: 100.0 * score for name, score in scores.items()}


def _scores(name: str, precision: float, recall: float) -> dict[str, float]:
    """Precision, recall and their harmonic mean, which is 0 if both are 0."""
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return {f"{name}_precision": precision, f"{name}_recall": recall, f"{name}_f1": f1}


def _ids(name: str, mention: int, ids: Sequence[str]) -> set[str]:
    if isinstance(ids, str):
        raise ValueError(f"{name} of mention {mention} is the string {ids!r}; accepted: a list of ids")
    for event in ids:
        if not isinstance(event, str) or not event:
            raise ValueError(f"{name} of mention {mention} has {event!r}; accepted: ids, which are strings")
    return set(ids)


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
