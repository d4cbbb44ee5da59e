"""Linking of mentions to the candidates that reach a threshold, or to none, which the paper calls NULL.

The threshold is given, learned with the model, chosen on a development split (Ou et al., 2023, section 6.3
and appendix C.2) or assumed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.special import expit

from eventformers.evaluate_metrics.event_linking.event_linking_impl import event_linking
from eventformers.inference.encode import EventEncoder
from eventformers.inference.grounding.encoding import CrossEncoder
from eventformers.inference.grounding.retrieve_rerank import CANDIDATES, Ranked
from eventformers.inference.search.candidate_index import CandidateIndex, Candidates

THRESHOLDS = (0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9)
"""Candidate thresholds, as probabilities (Ou et al., 2023, appendix C.2)."""

ASSUMED = 0.5
"""Threshold for the probabilities of a reranker if none is given or applicable."""

NEAR_QUANTILE = 0.25
"""Quantile of the scores of events with their nearest other event that a link without a learned threshold
must reach: 0.67 on Wikipedia's current events. Of 2,088 mentions whose event is among 9,499 there,
all-MiniLM-L6-v2 ranks the event first for 22 %; a score of 0.65 links 30 %, of which 38 % are right, and one
of 0.70 links 16 %, of which 43 % are right."""

_SAMPLED_EVENTS = 4_096

Linked: TypeAlias = list[list[str]]
"""Ids of the linked events of each mention, best first; empty for NULL."""


class ChosenThreshold(NamedTuple):
    """A chosen threshold and the scores of all thresholds.

    Attributes:
        threshold: the one with the highest product; ties go by the highest F1 scores, then by the highest
            threshold.
        products: strict accuracy times macro F1 times micro F1 of each threshold, each as a share, in [0, 1].
    """

    threshold: float
    products: dict[float, float]


def link(candidates: Candidates, event_ids: Sequence[str], threshold: float) -> Linked:
    """Link each mention to the candidates whose probability reaches a threshold.

    Args:
        candidates: with logits as scores.
        threshold: a probability.
    """
    linked = (expit(candidates.scores.astype(np.float64)) >= threshold) & (candidates.events >= 0)
    return _chosen(candidates, event_ids, linked)


def link_best(candidates: Candidates, event_ids: Sequence[str], numbers: Sequence[int]) -> Linked:
    """Link each mention to a given number of its best candidates.

    If the number is that of its gold events, strict accuracy is the paper's strict accuracy (top min).

    Args:
        candidates: best first.
    """
    places = np.arange(candidates.events.shape[1])
    linked = (places < np.asarray(numbers)[:, None]) & (candidates.events >= 0)
    return _chosen(candidates, event_ids, linked)


def choose_threshold(
    candidates: Candidates, event_ids: Sequence[str], gold: Sequence[Sequence[str]]
) -> ChosenThreshold:
    """Choose the one of `THRESHOLDS` with the highest strict accuracy × macro F1 × micro F1 (Ou et al., 2023,
    appendix C.2).

    Args:
        candidates: those of the mentions of a development split, with logits as scores.
        gold: the ids of the gold events of each mention, at least one.
    """
    scores = {
        threshold: event_linking(link(candidates, event_ids, threshold), gold) for threshold in THRESHOLDS
    }
    f1 = {
        threshold: of_one["macro_f1"] / 100 * of_one["micro_f1"] / 100 for threshold, of_one in scores.items()
    }
    products = {threshold: scores[threshold]["strict_accuracy"] / 100 * f1[threshold] for threshold in f1}
    best = max(products, key=lambda threshold: (products[threshold], f1[threshold], threshold))
    return ChosenThreshold(best, products)


class LinkThreshold(NamedTuple):
    """The threshold for links, and its source.

    Attributes:
        value: a probability with a reranker, otherwise a score; None links the first candidate whatever its
            score.
        source: `given`, `learned` with the model or `assumed`; `none` without a threshold.
        with_reranker: True if the candidates have logits of a reranker.
        note: a remark for the reader; empty if it was given or learned.
        floor: score of the index that a link also needs, with a reranker whose probabilities are shares: one
            of a mention's candidates has a large share even where none fits.
    """

    value: float | None
    source: Literal["given", "learned", "assumed", "none"]
    with_reranker: bool
    note: str = ""
    floor: float | None = None

    def link(self, found: Ranked, event_ids: Sequence[str]) -> Linked:
        """Link each mention to all candidates that reach the threshold. Without a reranker and a given
        threshold, only the first candidate can be linked."""
        least, candidates = -math.inf if self.value is None else self.value, found.ranked
        if self.with_reranker:
            if self.floor is not None:
                near = np.where(found.found.scores >= self.floor, found.found.events, -1)
                is_near = (candidates.events[:, :, None] == near[:, None, :]).any(axis=-1)
                candidates = replace(candidates, scores=np.where(is_near, candidates.scores, -np.inf))
            return link(candidates, event_ids, least)
        numbers = ((candidates.scores >= least) & (candidates.events >= 0)).sum(axis=1)
        if self.source != "given":
            numbers = numbers.clip(max=1)
        return link_best(candidates, event_ids, numbers.tolist())


def find_threshold(
    given: float | None,
    encoder: EventEncoder,
    cross_encoder: CrossEncoder | None,
    retriever_weight: float,
    candidates: int,
    index: CandidateIndex,
) -> LinkThreshold:
    """Return the given threshold, otherwise the one learned for the compared scores.

    Without either and without a reranker, it is `usual_score`: different events score below it with each
    other, so a lower score only shows a related topic.

    Args:
        cross_encoder: reranks them; None without a reranker.
        retriever_weight: weight of the encoder's score, added to that of the cross-encoder.

    Returns:
        The threshold. A reranker that learned by a softmax has a floor as well, the threshold of the encoder
        alone, unless the user gives a threshold.
    """
    with_reranker = cross_encoder is not None
    if given is not None:
        return LinkThreshold(given, "given", with_reranker)
    by_shares = cross_encoder is not None and cross_encoder.learned_by_softmax
    floor = find_threshold(None, encoder, None, 0.0, candidates, index).value if by_shares else None
    scorer = encoder if cross_encoder is None else cross_encoder.encoder
    learned = getattr(scorer.model.config, "null_threshold", None)
    missing = ""
    if learned is None:
        missing = f"{scorer.name} has no learned threshold"
    elif cross_encoder is not None and retriever_weight != cross_encoder.retriever_weight:
        missing = (
            f"the threshold of {scorer.name} is for a retriever_weight of {cross_encoder.retriever_weight:g}"
        )
    elif by_shares and candidates != CANDIDATES:
        missing = f"the threshold of {scorer.name} is for shares among {CANDIDATES} candidates"
    if not missing:
        return LinkThreshold(learned, "learned", with_reranker, floor=floor)
    if with_reranker:
        also = "" if floor is None else f" and a score of {floor:.2f} by {encoder.name}"
        note = f"{missing}: links need a probability of {ASSUMED}{also}; --threshold sets another"
        return LinkThreshold(ASSUMED, "assumed", with_reranker, note, floor)
    score = usual_score(index)
    if score is None:
        note = (
            f"{missing}: the first candidate of each mention is linked, right or wrong, and marked as "
            "unchecked; --threshold SCORE refuses what is below"
        )
        return LinkThreshold(None, "none", with_reranker, note)
    note = (
        f"{missing}: a link needs a score of {score:.2f}, which {1 - NEAR_QUANTILE:.0%} of the events reach "
        "with another event"
    )
    return LinkThreshold(score, "assumed", with_reranker, note)


def usual_score(index: CandidateIndex) -> float | None:
    """Return the `NEAR_QUANTILE` of the scores of events with their nearest other event, of a sample of each
    pool; None if no pool has two events."""
    scores = index.nearest_others(_SAMPLED_EVENTS)
    return float(np.quantile(scores, NEAR_QUANTILE)) if len(scores) else None


def _chosen(candidates: Candidates, event_ids: Sequence[str], linked: np.ndarray) -> Linked:
    return [
        [event_ids[event] for event in events[of_mention].tolist()]
        for events, of_mention in zip(candidates.events, linked, strict=True)
    ]
