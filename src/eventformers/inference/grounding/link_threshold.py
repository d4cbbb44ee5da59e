"""What a candidate needs to be linked when a text is grounded: given, learned with the model, or assumed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from eventformers.inference.encode import EventEncoder
from eventformers.inference.grounding.linking import CANDIDATES, Linked, link, link_best, link_first
from eventformers.inference.grounding.pair_scoring import CrossEncoder
from eventformers.inference.search.candidate_index import Candidates

ASSUMED = 0.5
"""Probability from which a reranker's candidates are linked, where none is given and none holds."""


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
