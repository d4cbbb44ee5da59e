"""The arithmetic of the metric `hierarchy_recall`, with only numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RECALL_AT = (4, 8, 16)
"""The depths K of the scores."""


def hierarchy_recall(
    predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Compute the recall of the gold events of mentions among their first candidates (Ou et al., 2023,
    section 6.1); `hierarchy_recall.py` describes inputs, scores and errors."""
    if len(predictions) == 0 or len(predictions) != len(references):
        raise ValueError(
            f"predictions has {len(predictions)} mentions and references {len(references)}; accepted: one "
            "list of each per mention, and at least one"
        )
    found_at_min = np.empty(len(predictions), dtype=bool)
    fractions = np.empty((len(predictions), len(RECALL_AT)))
    atomic = np.empty((len(predictions), len(RECALL_AT)), dtype=bool)
    for mention, (candidates, gold) in enumerate(zip(predictions, references, strict=True)):
        _check_ids("predictions", mention, candidates)
        _check_ids("references", mention, gold)
        if not len(gold):
            raise ValueError(
                f"the references of mention {mention} are empty; accepted: at least one gold event"
            )
        place = {event: rank for rank, event in enumerate(candidates)}
        ranks = np.array([place.get(event, np.inf) for event in gold])
        found_at_min[mention] = (ranks < len(gold)).all()
        fractions[mention] = [np.mean(ranks < depth) for depth in RECALL_AT]
        atomic[mention] = [ranks[0] < depth for depth in RECALL_AT]
    scores = {"recall_at_min": 100.0 * float(np.mean(found_at_min))}
    for name, shares in (("recall", fractions == 1), ("fraction", fractions), ("atomic", atomic)):
        for column, depth in enumerate(RECALL_AT):
            scores[f"{name}_at_{depth}"] = 100.0 * float(np.mean(shares[:, column]))
    return scores


def _check_ids(name: str, mention: int, ids: Sequence[str]) -> None:
    if isinstance(ids, str):
        raise ValueError(f"{name} of mention {mention} is the string {ids!r}; accepted: a list of ids")
    seen: set[str] = set()
    for event in ids:
        if not isinstance(event, str) or not event:
            raise ValueError(f"{name} of mention {mention} has {event!r}; accepted: ids, which are strings")
        if event in seen:
            raise ValueError(f"{name} of mention {mention} has {event!r} twice; accepted: each id once")
        seen.add(event)
