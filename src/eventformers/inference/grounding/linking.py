"""Which candidates a mention is linked to: those that reach a threshold, or none, which the paper calls NULL.

The threshold is given, learned with the model, chosen on a development split (Ou et al., 2023, section 6.3
and appendix C.2) or assumed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.special import expit

from eventformers.errors import EventformersError
from eventformers.evaluate_metrics.event_linking.event_linking_impl import event_linking
from eventformers.inference.encode import EventEncoder
from eventformers.inference.grounding.pair_scoring import CrossEncoder
from eventformers.inference.grounding.retrieve_rerank import CANDIDATES
from eventformers.inference.search.candidate_index import Candidates

THRESHOLDS = (0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9)
"""Probabilities that the threshold is chosen from (Ou et al., 2023, appendix C.2)."""

ASSUMED = 0.5
"""Probability from which a reranker's candidates are linked, where none is given and none holds."""

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
    """

    threshold: float
    products: dict[float, float]


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
    return ChosenThreshold(best, products)


class LinkThreshold(NamedTuple):
    """What a candidate needs to be linked.

    Attributes:
        value: a probability with a reranker, else a score; None links the first candidate whatever its score.
        source: whether it is `given`, `learned` with the model or `assumed`; `none` where there is none.
        with_reranker: whether the candidates have logits of a reranker.
        note: what the reader must know of it; empty where it was given or learned.
    """

    value: float | None
    source: Literal["given", "learned", "assumed", "none"]
    with_reranker: bool
    note: str = ""

    def link(self, candidates: Candidates, event_ids: Sequence[str]) -> Linked:
        """Link each mention: to all candidates that reach the threshold, or without a reranker, where no
        threshold was given, to the first one if it does."""
        least = -math.inf if self.value is None else self.value
        if self.with_reranker:
            return link(candidates, event_ids, least)
        if self.source != "given":
            return link_first(candidates, event_ids, least)
        numbers = ((candidates.scores >= least) & (candidates.events >= 0)).sum(axis=1)
        return link_best(candidates, event_ids, numbers.tolist())


def find_threshold(
    given: float | None,
    encoder: EventEncoder,
    cross_encoder: CrossEncoder | None,
    retriever_weight: float,
    candidates: int,
) -> LinkThreshold:
    """The threshold that is given, else the one that was learned for the scores that are compared.

    Args:
        given: the threshold of the user.
        encoder: finds the candidates.
        cross_encoder: re-ranks them; None without a re-ranker.
        retriever_weight: weight of the encoder's score beside that of the cross-encoder.
        candidates: candidates of a mention.
    """
    with_reranker = cross_encoder is not None
    if given is not None:
        return LinkThreshold(given, "given", with_reranker)
    scorer = encoder if cross_encoder is None else cross_encoder.encoder
    learned = getattr(scorer.model.config, "null_threshold", None)
    missing = ""
    if learned is None:
        missing = f"{scorer.name} has no learned threshold"
    elif retriever_weight:
        missing = f"the threshold of {scorer.name} is not for its sum with the score of {encoder.name}"
    elif cross_encoder is not None and cross_encoder.learned_by_softmax and candidates != CANDIDATES:
        missing = f"the threshold of {scorer.name} is for shares among {CANDIDATES} candidates"
    if not missing:
        return LinkThreshold(learned, "learned", with_reranker)
    if with_reranker:
        note = f"{missing}: links need a probability of {ASSUMED}; --threshold sets another"
        return LinkThreshold(ASSUMED, "assumed", with_reranker, note)
    note = (
        f"{missing}: the first candidate of each mention is linked, right or wrong, and marked as unchecked; "
        "--threshold SCORE refuses what is below"
    )
    return LinkThreshold(None, "none", with_reranker, note)


def _chosen(candidates: Candidates, event_ids: Sequence[str], linked: np.ndarray) -> Linked:
    return [
        [event_ids[event] for event in events[of_mention].tolist()]
        for events, of_mention in zip(candidates.events, linked, strict=True)
    ]
