"""Candidate events that a bi-encoder retrieves for training mentions, and the linking threshold.

Candidates are retrieved once before training and stored in the cache of `datasets` for resumed runs and for
runs with the same retriever and data.

After training, a threshold is chosen: `ground` links candidates that reach it. All validation mentions have
gold events, so the best threshold for them would reject nothing. Each mention is therefore used twice: as it
is, and with its gold events removed from the candidates, where NULL is correct. Only mentions whose first
candidate is gold are used: no threshold corrects the others, and with them the threshold of a model that is
often wrong would reject nearly everything.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from accelerate import PartialState
from numpy.typing import NDArray
from scipy.special import expit, ndtr
from transformers import PreTrainedTokenizerBase

from eventformers.datasets_scripts.fingerprints import dataset_fingerprint
from eventformers.datasets_scripts.known_pairs import PADDING, Codes
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.encoding.vectors import Positions, Vectors
from eventformers.inference.grounding.encoding import CrossEncoder, GroundingTokeniser, PairScores
from eventformers.inference.grounding.knowledge_base import EventTexts
from eventformers.inference.grounding.retrieve_rerank import CANDIDATES, grounding_model, rerank, retrieve
from eventformers.inference.search.candidate_index import Candidates
from eventformers.models.modeling_base import EventEncoderModel, EventPreTrainedModel
from eventformers.models.processing_event_grounding import MentionText
from eventformers.trainers.cached_arrays import array_digest, cached_arrays, model_digest
from eventformers.trainers.grounding_data import LinkingPairs
from eventformers.trainers.method import Calibration

BLOCK_MENTIONS = 65_536
"""Number of mentions encoded and searched at a time; it bounds the memory for their vectors."""

logger = logging.getLogger(__name__)


def load_retriever(source: str) -> EventEncoder:
    """Load a bi-encoder from a folder or Hub id, on the device of the training run.

    Raises:
        EventformersError: it cannot be loaded.
    """
    return load_encoder(source, device=PartialState().device)


def as_retriever(model: EventEncoderModel, tokenizer: PreTrainedTokenizerBase) -> EventEncoder:
    """Copy a bi-encoder, so that further training does not change the copy."""
    copied = copy.deepcopy(model).to(PartialState().device).eval()
    return EventEncoder(copied, tokenizer, name="the model that is trained", revision=model_digest(copied))


class EventPools:
    """The events of a knowledge base, encoded and divided by language.

    Args:
        languages: codes of the languages whose events are encoded.
    """

    def __init__(self, encoder: EventEncoder, events: EventTexts, languages: Codes) -> None:
        rows = events.distinct[np.isin(events.language_of[events.distinct], languages)]
        rows = rows[np.argsort(events.language_of[rows], kind="stable")]
        self._model = grounding_model(encoder)
        self._index = self._model.index(
            [str(number) for number in events.number_of[rows].tolist()],
            [events[row] for row in rows.tolist()],
            [str(language) for language in events.language_of[rows].tolist()],
        )
        # The last entry stands for no event.
        self._numbers = np.array([*map(int, self._index.event_ids), PADDING])

    def search(self, pairs: LinkingPairs, number: int) -> Candidates:
        """Find the best candidates of each mention among all events of its pool, with their scores.

        Args:
            pairs: the mentions, and the language in which each has its candidates.
            number: number of candidates of a mention, if its pool has as many.

        Returns:
            Numbers of events, best first; mentions without a pair have none.
        """
        mentions = np.unique(pairs.mention_of)
        candidates = np.full((len(pairs.mentions), number), PADDING, dtype=np.int64)
        scores = np.full(candidates.shape, -np.inf, dtype=np.float32)
        for start in range(0, len(mentions), BLOCK_MENTIONS):
            block = mentions[start : start + BLOCK_MENTIONS]
            texts = [MentionText.from_row(row) for row in pairs.mentions.select(block)]
            pools = [*map(str, pairs.spoken[block].tolist())]
            found = retrieve(self._model, self._index, texts, pools, number)
            width = found.events.shape[1]
            candidates[block, :width], scores[block, :width] = self._numbers[found.events], found.scores
        return Candidates(candidates, scores)


def retrieve_candidates(
    retriever: EventEncoder, pairs: LinkingPairs, events: EventTexts, number: int
) -> Codes:
    """Retrieve the best candidates of each mention among the events of its language, or read the cache.

    Args:
        pairs: the mentions, and the language of each mention's candidates.

    Returns:
        Rows of `events`, best first, `(mentions, number)`, padded with -1; all -1 without a pair.
    """
    decides = [
        *(retriever.name if retriever.revision is None else retriever.revision, number, retriever.max_length),
        *(dataset_fingerprint(rows) for rows in (pairs.mentions, events.texts)),
        *(array_digest(codes) for codes in (pairs.spoken, events.distinct)),
        *(array_digest(codes) for codes in (pairs.mention_of, events.language_of)),
    ]

    def retrieved() -> dict[str, Codes]:
        logger.info("retrieving %d candidates for %d mentions", number, len(np.unique(pairs.mention_of)))
        pools = EventPools(retriever, events, pairs.languages())
        return {"candidates": candidate_rows(pools, pairs, events, number)}

    return cached_arrays("candidates", decides, retrieved)["candidates"]


def candidate_rows(pools: EventPools, pairs: LinkingPairs, events: EventTexts, number: int) -> Codes:
    """Retrieve candidates as rows of `events`, best first, `(mentions, number)`, padded with -1."""
    found = pools.search(pairs, number).events
    return events.rows(found, np.broadcast_to(pairs.spoken[:, None], found.shape))


class NullThreshold(NamedTuple):
    """A threshold, and its scores on the mentions it was chosen on.

    Attributes:
        found: number of mentions it was chosen on, those whose first candidate is gold.
        linked: share of them linked to a gold event.
        refused: share of them linked to nothing when their gold events are removed.
    """

    threshold: float
    found: int
    linked: float
    refused: float


def calibrate_bi_encoder(
    held_out: LinkingPairs | None,
    events: EventTexts,
    model: EventPreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
) -> Calibration:
    """Choose the score threshold of a trained bi-encoder, and write it to its configuration.

    Args:
        held_out: pairs of validation mentions; None where there are none.
    """

    def choose(pairs: LinkingPairs) -> NullThreshold | None:
        encoder = EventEncoder(model.base_model, tokenizer, name="the trained model")
        found = EventPools(encoder, events, pairs.languages()).search(pairs, 1 + pairs.num_gold)
        return choose_null_threshold(found, pairs.gold_numbers(), 1)

    return _calibrate(model, held_out, choose)


def calibrate_cross_encoder(
    held_out: LinkingPairs | None,
    events: EventTexts,
    retriever: str,
    model: EventPreTrainedModel,
    tokeniser: GroundingTokeniser,
) -> Calibration:
    """Choose the probability threshold of a trained cross-encoder, and write it to its configuration.

    Args:
        held_out: pairs of validation mentions; None where there are none.
        retriever: folder or Hub id of the bi-encoder that finds the candidates, and whose scores are added.
        tokeniser: makes tokens of mentions and events within the model's budgets.
    """

    def choose(pairs: LinkingPairs) -> NullThreshold | None:
        cross_encoder = CrossEncoder(
            EventEncoder(model, tokeniser.tokenizer, name="the trained model"), tokeniser
        )
        scores = PairScores(cross_encoder, [MentionText.from_row(row) for row in pairs.mentions], events)

        def rescore(found: Candidates) -> Candidates:
            def score(mentions: Positions, numbers: Positions) -> Vectors:
                # The second half repeats the same mentions.
                own = mentions % len(pairs.mentions)
                return scores(own, events.rows(numbers, pairs.spoken[own]))

            return rerank(
                found,
                score,
                softmax=cross_encoder.learned_by_softmax,
                retriever_weight=cross_encoder.retriever_weight,
            )

        pools = EventPools(load_retriever(retriever), events, pairs.languages())
        found = pools.search(pairs, CANDIDATES + pairs.num_gold)
        return choose_null_threshold(found, pairs.gold_numbers(), CANDIDATES, rescore)

    return _calibrate(model, held_out, choose)


def choose_null_threshold(
    found: Candidates,
    gold: Codes,
    number: int,
    rescore: Callable[[Candidates], Candidates] | None = None,
) -> NullThreshold | None:
    """Choose the score that best separates right first candidates from those that are first without them.

    Both groups are smoothed; the score that separates most of the given mentions varies about twice as much
    from sample to sample.

    Args:
        found: numbers of events, best first, with as many more than `number` as a mention has gold events.
        gold: numbers of the gold events of each mention, `(mentions, most)`; -1 fills up.
        number: first candidates that can be linked.
        rescore: replaces the scores by logits, for the candidates of all mentions, then of all mentions
            without their gold events. With it, the threshold is a probability.

    Returns:
        The threshold, between two of these scores; None if no mention has a gold event as its first
        candidate, or all scores are equal.
    """
    is_gold = (found.events[:, :, None] == gold[:, None, :]).any(axis=-1)
    events = np.where(is_gold, PADDING, found.events)
    scores = np.where(is_gold, -np.inf, found.scores).astype(np.float32)
    order = np.argsort(events == PADDING, axis=1, kind="stable")
    without = Candidates(np.take_along_axis(events, order, axis=1), np.take_along_axis(scores, order, axis=1))
    halves = Candidates.joined(
        [
            replace(half, events=half.events[:, :number], scores=half.scores[:, :number])
            for half in (found, without)
        ]
    )
    if rescore is not None:
        halves = rescore(halves)
    first, best = halves.events[:, 0], halves.scores[:, 0].astype(np.float64)
    mentions = len(gold)
    right = np.flatnonzero(((first[:mentions, None] == gold) & (gold != PADDING)).any(axis=1))
    inside, outside = best[right], best[right + mentions]
    threshold = _separating(inside, outside)
    if threshold is None:
        return None
    linked, refused = float(np.mean(inside >= threshold)), float(np.mean(outside < threshold))
    if rescore is not None:
        # Rounding must not make it 0 or 1, which are no thresholds.
        threshold = float(np.clip(expit(threshold), np.finfo(np.float64).tiny, np.nextafter(1, 0)))
    return NullThreshold(threshold, len(right), linked, refused)


def _separating(higher: NDArray[np.float64], lower: NDArray[np.float64]) -> float | None:
    """Return the number that separates two groups best where each is smoothed by a Gaussian kernel.

    The width of the kernel is Scott's (1992), the standard deviation divided by the fifth root of the size.
    """
    finite = np.unique(np.concatenate([higher, lower]))
    finite = finite[np.isfinite(finite)]
    if len(finite) < 2:
        return None
    middles = (finite[:-1] + finite[1:]) / 2
    below = np.zeros_like(middles)
    for sign, group in ((1, lower), (-1, higher)):
        # Minus infinity is below all.
        known = group[np.isfinite(group)]
        if len(known):
            width = max(known.std() * len(known) ** -0.2, np.finfo(np.float64).tiny)
            with np.errstate(over="ignore"):
                below += sign * ndtr((middles[:, None] - known) / width).sum(axis=1) / len(group)
    return float(middles[below.argmax()])


def _calibrate(
    model: EventPreTrainedModel,
    held_out: LinkingPairs | None,
    choose: Callable[[LinkingPairs], NullThreshold | None],
) -> Calibration:
    """Write the threshold to the configuration, unless the recipe sets it, and report it."""

    def told(text: str) -> dict[str, str]:
        return {"Threshold of linking": text}

    if model.config.null_threshold is not None:
        return Calibration({}, told(f"`{model.config.null_threshold:.4g}`, as the recipe has it."))
    chosen = None if held_out is None else choose(held_out)
    if held_out is None or chosen is None:
        reason = (
            "the data have no validation mentions"
            if held_out is None
            else "of no validation mention the first candidate is right, or all have the same score"
        )
        logger.warning("no threshold of linking was chosen: %s", reason)
        return Calibration({}, told(f"None, since {reason}: pass one to `ground` by `--threshold`."))
    model.config.null_threshold = chosen.threshold
    logger.info(
        "links need %.4g or more, chosen on %d validation mentions: %.1f %% stay linked, and %.1f %% are "
        "refused where their events are not in the knowledge base",
        *(chosen.threshold, chosen.found, 100 * chosen.linked, 100 * chosen.refused),
    )
    return Calibration(
        {"null_threshold": chosen.threshold, "null_threshold_mentions": chosen.found},
        told(
            f"`{chosen.threshold:.4g}`, chosen on {chosen.found:,} validation mentions whose first candidate "
            f"is right. {100 * chosen.linked:.1f} % of them stay linked; with their events taken out of the "
            f"knowledge base, {100 * chosen.refused:.1f} % are linked to nothing. Both shares are of the "
            "mentions that it was chosen on."
        ),
    )
