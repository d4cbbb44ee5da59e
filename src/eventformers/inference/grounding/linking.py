"""From the vectors of mentions and events to linked events: candidates, re-ranking, threshold, NULL.

Retrieve and re-rank (Ou et al., 2023, sections 5.1 and 6.3): the candidate index gives each mention its first
candidates, a scorer such as the cross-encoder re-ranks these, and the mention is linked to those whose
probability reaches a threshold. A mention without such a candidate is linked to nothing, which the paper
calls NULL. Scores are logits, and a probability is their logistic function; of a model that learned by a
softmax they are those of each candidate against the others of its mention.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import expit, log_softmax

from eventformers.errors import EventformersError, shown
from eventformers.evaluate_metrics.event_linking.event_linking_impl import event_linking
from eventformers.inference.encode import Positions, Vectors
from eventformers.inference.search.candidate_index import Candidates

PairScorer: TypeAlias = Callable[[Positions, Positions], Vectors]
"""Positions of mentions and their candidate events, (pairs,) each, to scores, (pairs,), higher is better."""

THRESHOLDS = (0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9)
"""Probabilities that the threshold is chosen from (Ou et al., 2023, appendix C.2)."""

CANDIDATES = 8
"""First candidates of a mention that are re-ranked (Ou et al., 2023, section 6.1)."""

PAIRS_AT_ONCE = 16_384
"""Pairs that a scorer is given at a time."""

Linked: TypeAlias = list[list[str]]
"""The ids of the events that each mention is linked to, best first; empty for NULL."""

Linking: TypeAlias = Callable[[Candidates, Sequence[str], float], Linked]
"""Candidates, the ids of the index's events and a threshold, to what is linked."""

NULL = "\0NULL"
"""What stands for NULL among the gold events of a mention; no event has an id with this character."""


class ChosenThreshold(NamedTuple):
    """A threshold, and what it was chosen by.

    Attributes:
        threshold: the one with the highest product; of equal ones the one with the highest F1 scores, and of
            these the highest.
        products: strict accuracy times macro F1 times micro F1 of each threshold, each as a share, in [0, 1].
        scores: the scores of `event_linking` at the threshold, in percent.
    """

    threshold: float
    products: dict[float, float]
    scores: dict[str, float]


def softmax_logits(scores: Vectors) -> Vectors:
    """Scores that were learned by a softmax as logits, whose logistic function is the softmax.

    Args:
        scores: of the candidates of mentions, `(mentions, candidates)`; minus infinity where there is none.

    Returns:
        Of the same shape; minus infinity where there is no candidate.
    """
    there = np.isfinite(scores)
    known = np.where(there, scores.astype(np.float64), -np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        logarithms = log_softmax(known, axis=1)
        # The largest number below 1 where a candidate has no rival left.
        shares = np.minimum(np.exp(logarithms), np.nextafter(1, 0))
        logits = logarithms - np.log1p(-shares)
    return np.where(there, logits, -np.inf).astype(np.float32)


def rerank(
    candidates: Candidates,
    score: PairScorer,
    *,
    softmax: bool = False,
    retriever_weight: float = 0.0,
    pairs_at_once: int = PAIRS_AT_ONCE,
) -> Candidates:
    """Order candidates by other scores; of equal scores the one that stood first stays first.

    Args:
        candidates: what was retrieved.
        score: scores pairs of a mention and one of its candidates.
        softmax: whether the scorer learned by a softmax over the candidates of a mention.
        retriever_weight: weight of the score by which a candidate was found in its new score, a sum; 0 leaves
            it out, as the paper does.
        pairs_at_once: pairs that the scorer is given at a time.

    Raises:
        EventformersError: the scorer gives not one number for each pair.
    """
    mentions, places = np.nonzero(candidates.events >= 0)
    events = candidates.events[mentions, places]
    scores = np.full(candidates.events.shape, -np.inf, dtype=np.float32)
    for start in range(0, len(mentions), pairs_at_once):
        pairs = slice(start, start + pairs_at_once)
        given = np.asarray(score(mentions[pairs], events[pairs]))
        if given.shape != events[pairs].shape or np.isnan(given).any():
            raise EventformersError(
                f"the scorer gave an array of shape {given.shape} with {int(np.isnan(given).sum())} NaN for "
                f"{len(events[pairs]):,} pairs; accepted: one number for each"
            )
        found = candidates.scores[mentions[pairs], places[pairs]]
        scores[mentions[pairs], places[pairs]] = given + retriever_weight * found
    # Places without a candidate stay last: they stood last, and no score is lower than theirs.
    order = np.argsort(-scores, axis=1, kind="stable")
    ranked = np.take_along_axis(scores, order, axis=1)
    return replace(
        candidates,
        events=np.take_along_axis(candidates.events, order, axis=1),
        scores=softmax_logits(ranked) if softmax else ranked,
    )


def check_retriever_weight(weight: float, *, with_reranker: bool = True) -> None:
    """Refuse a weight of `rerank` that is not accepted.

    Args:
        weight: weight of the score by which a candidate was found.
        with_reranker: whether there is another score beside it.

    Raises:
        EventformersError: it is no number from 0, or it would change nothing.
    """
    is_number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
    if not is_number or not math.isfinite(weight) or weight < 0:
        raise EventformersError(f"retriever_weight: found {shown(weight)}; accepted: a number from 0")
    if weight and not with_reranker:
        raise EventformersError(
            f"retriever_weight: found {weight} without a reranker; accepted: 0, or a reranker as well"
        )


def link(candidates: Candidates, event_ids: Sequence[str], threshold: float) -> Linked:
    """The candidates of each mention whose probability is at least a threshold.

    Args:
        candidates: with logits as scores.
        event_ids: the index's.
        threshold: a probability.

    Raises:
        EventformersError: the threshold is outside (0, 1).
    """
    if not 0 < threshold < 1:
        raise EventformersError(f"the threshold is {threshold}; accepted: a probability between 0 and 1")
    linked = (expit(candidates.scores.astype(np.float64)) >= threshold) & (candidates.events >= 0)
    return _chosen(candidates, event_ids, linked)


def link_first(candidates: Candidates, event_ids: Sequence[str], threshold: float) -> Linked:
    """The first candidate of each mention, where its score is at least a threshold.

    Args:
        candidates: best first.
        event_ids: the index's.
        threshold: a score.
    """
    is_first = np.arange(candidates.events.shape[1]) == 0
    reaches = (candidates.scores >= threshold) & (candidates.events >= 0)
    return _chosen(candidates, event_ids, is_first & reaches)


def link_best(candidates: Candidates, event_ids: Sequence[str], numbers: Sequence[int]) -> Linked:
    """The best candidates of each mention, as many as are asked for.

    With as many as a mention has gold events, strict accuracy is the paper's strict accuracy (top min).

    Args:
        candidates: best first.
        event_ids: the index's.
        numbers: how many for each mention.

    Raises:
        EventformersError: not one number for each mention.
    """
    if len(numbers) != len(candidates.events):
        raise EventformersError(
            f"{len(numbers):,} numbers for {len(candidates.events):,} mentions; accepted: one each"
        )
    places = np.arange(candidates.events.shape[1])
    linked = (places < np.asarray(numbers)[:, None]) & (candidates.events >= 0)
    return _chosen(candidates, event_ids, linked)


def choose_threshold(
    candidates: Candidates,
    event_ids: Sequence[str],
    gold: Sequence[Sequence[str]],
    thresholds: Sequence[float] = THRESHOLDS,
    linking: Linking = link,
) -> ChosenThreshold:
    """The threshold with the highest strict accuracy × macro F1 × micro F1 (Ou et al., 2023, appendix C.2).

    Args:
        candidates: those of the mentions of a development split, with scores as `linking` compares them.
        event_ids: the index's.
        gold: the ids of the gold events of each mention; `NULL` alone for one without any.
        thresholds: those to choose from.
        linking: links the candidates by a threshold; `link` compares probabilities.

    Raises:
        EventformersError: there is none to choose from, one is outside (0, 1), or the mentions have no gold
            events.
    """
    if not thresholds:
        raise EventformersError("no threshold to choose from; accepted: at least one")
    scores = {}
    for threshold in thresholds:
        linked = [of_one or [NULL] for of_one in linking(candidates, event_ids, threshold)]
        try:
            scores[threshold] = event_linking(linked, gold)
        except ValueError as error:
            raise EventformersError(f"event_linking: {error}") from error
    f1 = {
        threshold: of_one["macro_f1"] / 100 * of_one["micro_f1"] / 100 for threshold, of_one in scores.items()
    }
    products = {threshold: scores[threshold]["strict_accuracy"] / 100 * f1[threshold] for threshold in f1}
    best = max(products, key=lambda threshold: (products[threshold], f1[threshold], threshold))
    return ChosenThreshold(best, products, scores[best])


def parts_by_language(
    inputs: Mapping[str, Sequence[Sequence[str]]], languages: Sequence[str]
) -> dict[str, dict[str, list[Sequence[str]]]]:
    """A metric's inputs for the mentions of each language, in the order of the languages.

    Args:
        inputs: the metric's inputs, a list with an entry for each mention.
        languages: the language of each mention.

    Raises:
        EventformersError: not one language for each mention.
    """
    for name, values in inputs.items():
        if len(values) != len(languages):
            raise EventformersError(
                f"{len(languages):,} languages for {len(values):,} {name}; accepted: one for each mention"
            )
    return {
        language: {
            name: [value for value, own in zip(values, languages, strict=True) if own == language]
            for name, values in inputs.items()
        }
        for language in sorted(set(languages))
    }


def _chosen(candidates: Candidates, event_ids: Sequence[str], linked: np.ndarray) -> Linked:
    return [
        [event_ids[event] for event in events[of_mention].tolist()]
        for events, of_mention in zip(candidates.events, linked, strict=True)
    ]
