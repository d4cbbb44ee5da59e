"""The metric `hierarchy_recall` for `evaluate.load`."""

from __future__ import annotations

from collections.abc import Sequence

import datasets
import numpy as np

from eventformers.evaluate_metrics.inputs import CheckedMetric

_DESCRIPTION = """
Hierarchy recall measures how often all gold events of a mention, from its atomic event to the root of the
hierarchy, are among its first retrieved candidates. It also returns the share of gold events that are, and
how often the atomic event is.
"""

_KWARGS_DESCRIPTION = """
Args:
    predictions (list of list of str): per mention, the ids of its candidates, best first.
    references (list of list of str): per mention, the ids of its gold events, the atomic event first.

Returns:
    recall_at_min (float): percentage of mentions whose n gold events are the first n candidates, in any
        order, 0 to 100, higher is better.
    recall_at_K (float): percentage of mentions whose gold events are all among the first K candidates, for K
        in 4, 8 and 16.
    fraction_at_K (float): share of a mention's gold events among the first K candidates, mean over mentions.
    atomic_at_K (float): percentage of mentions whose atomic event is among the first K candidates.

Raises:
    ValueError: no mentions, lists of unequal length, a mention without a gold event, or an id that is
        repeated in a list or not a string.

Examples:
    >>> metric = evaluate.load("hierarchy_recall")
    >>> predictions = [["landing", "war", "campaign"], ["battle", "siege", "war"]]
    >>> references = [["landing", "campaign", "war"], ["siege"]]
    >>> scores = metric.compute(predictions=predictions, references=references)
    >>> scores["recall_at_min"], scores["recall_at_4"], scores["atomic_at_4"]
    (50.0, 100.0, 100.0)
"""

_CITATION = """
@inproceedings{ou2023hierarchical,
  title = {Hierarchical Event Grounding},
  author = {Ou, Jiefu and Pratapa, Adithya and Gupta, Rishubh and Mitamura, Teruko},
  booktitle = {Proceedings of the AAAI Conference on Artificial Intelligence},
  year = {2023}
}
"""

RECALL_AT = (4, 8, 16)
"""The depths K of the scores."""


def hierarchy_recall(
    predictions: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Compute the recall of the gold events of mentions among their first candidates (Ou et al., 2023,
    section 6.1); `_KWARGS_DESCRIPTION` has inputs, scores and errors."""
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


class HierarchyRecall(CheckedMetric):
    """Recall of the gold events of mentions among their first candidates."""

    DESCRIPTION, INPUTS_DESCRIPTION, CITATION = _DESCRIPTION, _KWARGS_DESCRIPTION, _CITATION
    scores = staticmethod(hierarchy_recall)
    FEATURES = datasets.Features(
        {
            "predictions": datasets.List(datasets.Value("string")),
            "references": datasets.List(datasets.Value("string")),
        }
    )
