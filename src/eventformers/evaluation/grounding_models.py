"""The models of evaluations on event grounding: the vectors of mentions and events, each encoded once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import cast

import numpy as np

from eventformers.evaluation.induction_models import MentionMemory
from eventformers.evaluation.tasks.base import Task
from eventformers.evaluation.tasks.grounding_protocols import (
    DEVELOPMENT_SPLIT,
    GroundingData,
    GroundingModel,
    GroundingSettings,
)
from eventformers.evaluation.tasks.protocols import Embed, JsonValue, Row
from eventformers.inference.encode import EventEncoder, Vectors
from eventformers.inference.encoding.latest_answer import digest_of
from eventformers.inference.encoding.unit_vectors import unit_vectors
from eventformers.inference.grounding.encoding import (
    BatchSize,
    EncodedTexts,
    encode_events,
    encode_mentions,
    event_text,
    grounds_events,
    mention_text,
    score_calibration,
)
from eventformers.inference.grounding.linking import softmax_logits
from eventformers.inference.grounding.pair_scoring import CrossEncoder, PairScores, load_cross_encoder
from eventformers.inference.search.candidate_index import CandidateIndex
from eventformers.models.grounding_tokens import EventText, MentionText


def grounding_model(
    encoder: EventEncoder,
    memory: MentionMemory,
    batch_size: BatchSize,
    cross_encoder: CrossEncoder | None = None,
) -> GroundingModel:
    """What a protocol of event grounding asks of an encoder; sets its `truncated` to the texts that were cut.

    Args:
        encoder: the model.
        memory: keeps the vectors of mentions and events.
        batch_size: as for `encode_mentions`.
        cross_encoder: scores candidates anew; None takes the scores that they were found by.
    """
    cut: Counter[str] = Counter()
    pairs: list[PairScores] = []
    truncated = 0

    def vectors(side: str, texts: Sequence[tuple[str, ...]], encode: Callable[[], EncodedTexts]) -> Vectors:
        nonlocal truncated
        encoded = memory.recall(encoder, (side, batch_size, digest_of(texts)), encode)
        cut.update({f"{side}_{part}": number for part, number in encoded.cut.items()})
        truncated += encoder.truncated
        encoder.truncated = truncated
        return encoded.vectors

    def read(mentions: Sequence[MentionText]) -> Vectors:
        return vectors(
            "mention", mentions, partial(encode_mentions, encoder, mentions, batch_size=batch_size)
        )

    def index(
        events: Sequence[EventText], ids: Sequence[str], languages: Sequence[str] | None
    ) -> CandidateIndex:
        encode = partial(encode_events, encoder, events, batch_size=batch_size)
        return CandidateIndex(ids, vectors("event", events, encode), languages)

    def score_pairs(mentions: Sequence[MentionText], events: Sequence[EventText]) -> PairScores:
        pairs.append(PairScores(cast(CrossEncoder, cross_encoder), mentions, events, batch_size=batch_size))
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
        index,
        read,
        score_pairs=None if cross_encoder is None else score_pairs,
        logits=logits if grounds_events(encoder) else None,
        pairs_by_softmax=cross_encoder is not None and cross_encoder.learned_by_softmax,
        cut=all_cut,
    )


def embedded_grounding_model(embed: Embed) -> GroundingModel:
    """What a protocol of event grounding asks, by any function from texts to vectors.

    Args:
        embed: texts to vectors; it is given mentions with their contexts, and titles with descriptions.
    """

    def vectors(texts: list[str]) -> Vectors:
        return unit_vectors(embed(texts), texts).astype(np.float32)

    return GroundingModel(
        index=lambda events, ids, languages: CandidateIndex(
            ids, vectors([event_text(event) for event in events]), languages
        ),
        read=lambda mentions: vectors([mention_text(mention) for mention in mentions]),
    )


def grounding_data(
    mentions: Iterable[Row],
    companions: Mapping[str, Iterable[Row]],
    other_splits: Mapping[str, Iterable[Row]],
    split: str,
) -> GroundingData:
    """The rows that a protocol of event grounding reads.

    Args:
        mentions: those of the scored split.
        companions: the rows of the companion configs by name.
        other_splits: the mentions of the other splits by name.
        split: the scored split.
    """
    return GroundingData(
        mentions=mentions,
        events=companions.get("events", ()),
        hierarchy=companions.get("hierarchy", ()),
        development=other_splits.get(DEVELOPMENT_SPLIT),
        split=split,
    )


def task_cross_encoder(task: Task, device: str | None, dtype: str | None) -> CrossEncoder | None:
    """The cross-encoder that a task scores candidates with; None where it names none.

    Args:
        task: the task.
        device: as for `load_cross_encoder`.
        dtype: as for `load_cross_encoder`.

    Raises:
        EventformersError: it cannot be loaded, or is no cross-encoder.
    """
    settings = task.grounding_settings
    if settings is None or settings.reranker is None:
        return None
    return load_cross_encoder(settings.reranker, device=device, dtype=dtype)


def cross_encoder_name(cross_encoder: CrossEncoder) -> str:
    """What results call a way of linking by a cross-encoder, whose name alone does not tell its weights."""
    encoder = cross_encoder.encoder
    return f"reranker-{encoder.name}-{(encoder.revision or 'unknown')[:8]}"


def grounding_record(settings: GroundingSettings, cross_encoder: CrossEncoder | None) -> dict[str, JsonValue]:
    """How mentions were linked, for the settings of a result, which must not tell of places on a disk."""
    encoder = None if cross_encoder is None else cross_encoder.encoder
    told: JsonValue = None if encoder is None else {"model": encoder.name, "revision": encoder.revision}
    used = replace(settings, reranker=None, retriever_weight=settings.retriever_weight if told else 0.0)
    return {**asdict(used), "reranker": told}
