"""Retrieval and reranking of candidates of mentions (Ou et al., 2023, sections 5.1 and 6.3).

An index returns the first candidates of each mention; a scorer of pairs, such as the cross-encoder, may
rerank them. Scores after reranking are logits; their logistic function is a probability. Logits of a model
trained with a softmax compare each candidate with the others of its mention.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import log_softmax

from eventformers.errors import EventformersError, shown
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.vectors import Positions, Vectors
from eventformers.inference.grounding.encoding import (
    BatchSize,
    CrossEncoder,
    EncodedTexts,
    Events,
    Mentions,
    PairScores,
    Side,
    encode_texts,
    grounds_events,
    score_calibration,
)
from eventformers.inference.search.candidate_index import CandidateIndex, Candidates, PooledIndex, SearchKind
from eventformers.models.processing_event_grounding import EventText, MentionText

PairScorer: TypeAlias = Callable[[Positions, Positions], Vectors]
"""A function from positions of mentions and of events, (pairs,) each, to scores, (pairs,); higher is
better."""

Recall: TypeAlias = Callable[[Side, Sequence[tuple[str, ...]], Callable[[], EncodedTexts]], EncodedTexts]
"""A function from the side, the texts and their encoding function to vectors."""

CANDIDATES = 8
"""Number of first candidates of a mention to rerank (Ou et al., 2023, section 6.1)."""


@dataclass(frozen=True)
class GroundingModel:
    """A retriever of candidates, optionally with a reranker.

    Attributes:
        read_mentions: converts mentions to queries of the index.
        read_events: converts events to entries of the index.
        make_index: creates an index from the ids of events, the result of `read_events`, and their languages
            (None for one pool).
        score_pairs: creates a scorer of pairs from mentions and texts of events; None keeps the order of the
            index.
        pairs_by_softmax: True if the scorer was trained with a softmax over the candidates of a mention.
        logits: converts scores of the index to logits; None if no conversion was learned.
        cut: returns the number of truncated texts so far, by side (`mention`, `event` or `pair`) and part.
    """

    read_mentions: Callable[[Sequence[MentionText]], Any]
    read_events: Callable[[Sequence[EventText]], Any]
    make_index: Callable[[Sequence[str], Any, Sequence[str] | None], PooledIndex] = CandidateIndex
    score_pairs: Callable[[Mentions, Events], PairScorer] | None = None
    pairs_by_softmax: bool = False
    logits: Callable[[Vectors], Vectors] | None = None
    cut: Callable[[], Mapping[str, int]] = dict

    def index(
        self, event_ids: Sequence[str], events: Sequence[EventText], languages: Sequence[str] | None
    ) -> PooledIndex:
        """Create an index of events, in one pool if `languages` is None."""
        return self.make_index(event_ids, self.read_events(events), languages)


class Ranked(NamedTuple):
    """Candidates of mentions.

    Attributes:
        found: in the order of the index, with its scores.
        ranked: in the order of the scorer of pairs, with logits; `found` without a scorer.
    """

    found: Candidates
    ranked: Candidates

    @classmethod
    def joined(cls, parts: Sequence[Ranked]) -> Ranked:
        """Join the candidates of successive mentions."""
        found = Candidates.joined([part.found for part in parts])
        if all(part.found is part.ranked for part in parts):
            return cls(found, found)
        return cls(found, Candidates.joined([part.ranked for part in parts]))


def grounding_model(
    encoder: EventEncoder,
    cross_encoder: CrossEncoder | None = None,
    *,
    batch_size: BatchSize = "auto",
    search: SearchKind = "auto",
    show_progress: bool = False,
    event_progress: bool | None = None,
    recall: Recall = lambda side, texts, encode: encode(),
) -> GroundingModel:
    """Retrieve by an encoder and rerank by a cross-encoder.

    Args:
        cross_encoder: reranks them; None keeps the scores of the encoder.
        event_progress: draw one for events; None follows `show_progress`.
        recall: returns known vectors of texts, or encodes them.
    """
    cut: Counter[str] = Counter()
    pairs: list[PairScores] = []

    def read(side: Side, shows: bool, texts: Sequence[Any]) -> Vectors:
        encode = partial(encode_texts, encoder, side, texts, batch_size=batch_size, show_progress=shows)
        encoded = recall(side, texts, encode)
        cut.update({f"{side}_{part}": number for part, number in encoded.cut.items()})
        return encoded.vectors

    def score_pairs(cross_encoder: CrossEncoder, mentions: Mentions, events: Events) -> PairScores:
        pairs.append(
            PairScores(cross_encoder, mentions, events, batch_size=batch_size, show_progress=show_progress)
        )
        return pairs[-1]

    def logits(scores: Vectors) -> Vectors:
        scale, bias = score_calibration(encoder)
        calibrated = (scores * scale + bias).astype(np.float32)
        by_softmax = encoder.model.config.linking_objective == "softmax"
        return softmax_logits(calibrated) if by_softmax else calibrated

    def all_cut() -> Counter[str]:
        of_pairs = (Counter({f"pair_{part}": number for part, number in one.cut.items()}) for one in pairs)
        return sum(of_pairs, cut)

    return GroundingModel(
        partial(read, "mention", show_progress),
        partial(read, "event", show_progress if event_progress is None else event_progress),
        partial(CandidateIndex, kind=search),
        score_pairs=None if cross_encoder is None else partial(score_pairs, cross_encoder),
        pairs_by_softmax=cross_encoder is not None and cross_encoder.learned_by_softmax,
        logits=logits if grounds_events(encoder) else None,
        cut=all_cut,
    )


def retrieve(
    model: GroundingModel,
    index: PooledIndex,
    mentions: Sequence[MentionText],
    languages: Sequence[str],
    number: int,
) -> Candidates:
    """Find the first candidates of mentions.

    Args:
        languages: the language of each; not used if the index has one pool.
        number: number of candidates of a mention, if its pool has as many.
    """
    # Limited to the number of events, as memory is allocated for the requested number.
    number = min(number, len(index.event_ids))
    return index.search(model.read_mentions(mentions), number, languages=languages)


def retrieve_and_rerank(
    model: GroundingModel,
    index: PooledIndex,
    mentions: Sequence[MentionText],
    languages: Sequence[str],
    number: int,
    *,
    events: Events,
    rows: Callable[[Positions, Positions], Positions],
    retriever_weight: float = 0.0,
    pairs_at_once: int | None = None,
) -> Ranked:
    """Find the first candidates of mentions, and rerank them if the model can.

    The other arguments are those of `retrieve` and `rerank`.

    Args:
        model: reads the mentions and scores pairs.
        rows: maps positions of mentions and of their candidates in the index, `(pairs,)` each, to positions
            in `events`.
    """
    found = retrieve(model, index, mentions, languages, number)
    if model.score_pairs is None:
        return Ranked(found, found)
    score_rows = model.score_pairs(mentions, events)

    def score(of_mentions: Positions, of_candidates: Positions) -> Vectors:
        return score_rows(of_mentions, rows(of_mentions, of_candidates))

    ranked = rerank(
        found,
        score,
        softmax=model.pairs_by_softmax,
        retriever_weight=retriever_weight,
        pairs_at_once=pairs_at_once,
    )
    return Ranked(found, ranked)


def rerank(
    candidates: Candidates,
    score: PairScorer,
    *,
    softmax: bool = False,
    retriever_weight: float = 0.0,
    pairs_at_once: int | None = None,
) -> Candidates:
    """Order candidates by other scores; equal scores keep their order.

    Args:
        score: scores pairs of a mention and one of its candidates.
        softmax: True if the scorer was trained with a softmax over the candidates of a mention.
        retriever_weight: weight of the retrieval score, added to the new score; 0 in the paper.
        pairs_at_once: number of pairs in a call of the scorer; None scores all in one call.
    """
    mentions, places = np.nonzero(candidates.events >= 0)
    events = candidates.events[mentions, places]
    scores = np.full(candidates.events.shape, -np.inf, dtype=np.float32)
    block = pairs_at_once or max(1, len(mentions))
    for start in range(0, len(mentions), block):
        pairs = slice(start, start + block)
        found = candidates.scores[mentions[pairs], places[pairs]]
        given = score(mentions[pairs], events[pairs])
        scores[mentions[pairs], places[pairs]] = given + retriever_weight * found
    # Empty entries stay last: they were last, and no score is lower than theirs.
    order = np.argsort(-scores, axis=1, kind="stable")
    ranked = np.take_along_axis(scores, order, axis=1)
    return replace(
        candidates,
        events=np.take_along_axis(candidates.events, order, axis=1),
        scores=softmax_logits(ranked) if softmax else ranked,
    )


def softmax_logits(scores: Vectors) -> Vectors:
    """Convert scores trained with a softmax to logits whose logistic function is the softmax.

    Args:
        scores: of the candidates of mentions, `(mentions, candidates)`; minus infinity where there is none.

    Returns:
        Of the same shape; minus infinity where there is no candidate.
    """
    there = np.isfinite(scores)
    known = np.where(there, scores.astype(np.float64), -np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        logarithms = log_softmax(known, axis=1)
        # A candidate without a rival gets the largest number below 1.
        shares = np.minimum(np.exp(logarithms), np.nextafter(1, 0))
        logits = logarithms - np.log1p(-shares)
    return np.where(there, logits, -np.inf).astype(np.float32)


def check_retriever_weight(weight: float, *, with_reranker: bool = True) -> None:
    """Raise an error for a weight that `rerank` does not accept.

    Args:
        with_reranker: True if there is another score to add it to.
    """
    is_number = isinstance(weight, (int, float)) and not isinstance(weight, bool)
    if not is_number or not math.isfinite(weight) or weight < 0:
        raise EventformersError(f"retriever_weight: found {shown(weight)}; accepted: a number from 0")
    if weight and not with_reranker:
        raise EventformersError(
            f"retriever_weight: found {weight} without a reranker; accepted: 0, or a reranker as well"
        )
