"""The models of evaluations on event grounding: the vectors of mentions and events, each encoded once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import numpy as np

from eventformers.grounding_protocols import GroundingModel
from eventformers.induction_models import MentionMemory
from eventformers.inference.candidate_index import CandidateIndex
from eventformers.inference.encode import EventEncoder, Vectors
from eventformers.inference.grounding_encoding import (
    EncodedTexts,
    encode_events,
    encode_mentions,
    event_text,
    grounds_events,
    mention_text,
)
from eventformers.inference.latest_answer import digest_of
from eventformers.inference.unit_vectors import unit_vectors
from eventformers.protocols import Embed
from eventformers.trainers.grounding_tokenising import EventText, MentionText


def grounding_model(
    encoder: EventEncoder, memory: MentionMemory, batch_size: int | Literal["auto"]
) -> GroundingModel:
    """What a protocol of event grounding asks of an encoder; sets its `truncated` to the texts that were cut.

    Args:
        encoder: the model.
        memory: keeps the vectors of mentions and events.
        batch_size: as for `encode_mentions`.
    """
    cut: Counter[str] = Counter()
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

    return GroundingModel(index, read, gives_logits=grounds_events(encoder), cut=cut)


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
