"""The arithmetic of the metric `event_linking`, with only numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def event_linking(
    predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Compute the agreement of the sets of events that mentions are linked to with their gold sets.

    Ou et al. (2023), equations 6 to 10; `event_linking.py` describes inputs, scores and errors. `macro_f1` is
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
