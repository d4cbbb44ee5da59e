"""Choice of the linking threshold of a trained bi-encoder or cross-encoder.

`ground` links candidates that reach the threshold. All validation mentions have gold events, so the best
threshold for them would reject nothing. Each mention is therefore used twice: as it is, and with its gold
events removed from the candidates, where NULL is correct. Only mentions whose first candidate is gold are
used: no threshold corrects the others, and with them the threshold of a model that is often wrong would
reject nearly everything.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr
from transformers import PreTrainedTokenizerBase

from eventformers.datasets_scripts.known_pairs import PADDING, Codes
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.vectors import Positions, Vectors
from eventformers.inference.grounding.encoding import GroundingTokeniser
from eventformers.inference.grounding.pair_scoring import CrossEncoder, PairScores
from eventformers.inference.grounding.retrieve_rerank import CANDIDATES, rerank
from eventformers.inference.search.candidate_index import Candidates
from eventformers.models.grounding_tokens import MentionText
from eventformers.models.modeling_base import EventPreTrainedModel
from eventformers.trainers.grounding_data import ValidationMentions
from eventformers.trainers.method import Calibration
from eventformers.trainers.retrieved_candidates import EventPools, load_retriever

logger = logging.getLogger(__name__)


class NullThreshold(NamedTuple):
    """A threshold, and its scores on the mentions it was chosen on.

    Attributes:
        threshold: the threshold.
        found: number of mentions it was chosen on, those whose first candidate is gold.
        linked: share of them linked to a gold event.
        refused: share of them linked to nothing when their gold events are removed.
    """

    threshold: float
    found: int
    linked: float
    refused: float


def calibrate_bi_encoder(
    held_out: ValidationMentions | None, model: EventPreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> Calibration:
    """Choose the score threshold of a trained bi-encoder, and write it to its configuration.

    Args:
        held_out: validation mentions; None where there are none.
        model: the trained head.
        tokenizer: its tokenizer.
    """

    def choose(held_out: ValidationMentions) -> NullThreshold | None:
        encoder = EventEncoder(model.base_model, tokenizer, name="the trained model")
        pairs, events = held_out
        found = EventPools(encoder, events, pairs.languages()).search(pairs, 1 + pairs.num_gold)
        return choose_null_threshold(found, pairs.gold_numbers(), 1)

    return _calibrate(model, held_out, choose)


def calibrate_cross_encoder(
    held_out: ValidationMentions | None,
    retriever: str,
    model: EventPreTrainedModel,
    tokeniser: GroundingTokeniser,
) -> Calibration:
    """Choose the probability threshold of a trained cross-encoder, and write it to its configuration.

    Args:
        held_out: validation mentions; None where there are none.
        retriever: folder or Hub id of the bi-encoder that finds the candidates, and whose scores are added.
        model: the trained head.
        tokeniser: makes tokens of mentions and events within the model's budgets.
    """

    def choose(held_out: ValidationMentions) -> NullThreshold | None:
        pairs, events = held_out
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
    halves = Candidates.joined([_first(found, number), _first(_without(found, gold), number)])
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
    shares = [_share_below(middles, group) for group in (lower, higher)]
    return float(middles[(shares[0] - shares[1]).argmax()])


def _share_below(numbers: NDArray[np.float64], group: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share of a smoothed group below each number, without minus infinity, which is below all."""
    known = group[np.isfinite(group)]
    if not len(known):
        return np.zeros_like(numbers)
    width = max(known.std() * len(known) ** -0.2, np.finfo(np.float64).tiny)
    with np.errstate(over="ignore"):
        return ndtr((numbers[:, None] - known) / width).sum(axis=1) / len(group)


def _calibrate(
    model: EventPreTrainedModel,
    held_out: ValidationMentions | None,
    choose: Callable[[ValidationMentions], NullThreshold | None],
) -> Calibration:
    """Write the threshold to the configuration, unless the recipe sets it, and report it."""
    if model.config.null_threshold is not None:
        return Calibration({}, _section(f"`{model.config.null_threshold:.4g}`, as the recipe has it."))
    chosen = None if held_out is None else choose(held_out)
    if held_out is None or chosen is None:
        reason = (
            "the data have no validation mentions"
            if held_out is None
            else "of no validation mention the first candidate is right, or all have the same score"
        )
        logger.warning("no threshold of linking was chosen: %s", reason)
        return Calibration({}, _section(f"None, since {reason}: pass one to `ground` by `--threshold`."))
    model.config.null_threshold = chosen.threshold
    logger.info(
        "links need %.4g or more, chosen on %d validation mentions: %.1f %% stay linked, and %.1f %% are "
        "refused where their events are not in the knowledge base",
        *(chosen.threshold, chosen.found, 100 * chosen.linked, 100 * chosen.refused),
    )
    return Calibration(
        {"null_threshold": chosen.threshold, "null_threshold_mentions": chosen.found},
        _section(
            f"`{chosen.threshold:.4g}`, chosen on {chosen.found:,} validation mentions whose first candidate "
            f"is right. {100 * chosen.linked:.1f} % of them stay linked; with their events taken out of the "
            f"knowledge base, {100 * chosen.refused:.1f} % are linked to nothing. Both shares are of the "
            "mentions that it was chosen on."
        ),
    )


def _section(text: str) -> dict[str, str]:
    return {"Threshold of linking": text}


def _first(found: Candidates, number: int) -> Candidates:
    return replace(found, events=found.events[:, :number], scores=found.scores[:, :number])


def _without(found: Candidates, gold: Codes) -> Candidates:
    """Return the candidates that are not gold, in order."""
    is_gold = (found.events[:, :, None] == gold[:, None, :]).any(axis=-1)
    events = np.where(is_gold, PADDING, found.events)
    scores = np.where(is_gold, -np.inf, found.scores).astype(np.float32)
    order = np.argsort(events == PADDING, axis=1, kind="stable")
    return Candidates(np.take_along_axis(events, order, axis=1), np.take_along_axis(scores, order, axis=1))
