"""Retrieval for the training of event grounding: a bi-encoder over all events of a knowledge base."""

from __future__ import annotations

import copy
import hashlib
import logging
from dataclasses import dataclass

import numpy as np
from accelerate import PartialState
from transformers import PreTrainedTokenizerBase

from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.grounding.encoding import encode_events, encode_mentions
from eventformers.inference.search.candidate_index import CandidateIndex, Candidates
from eventformers.models.grounding_tokens import MentionText
from eventformers.models.modeling_base import EventEncoderModel
from eventformers.trainers.codes import PADDING, Codes
from eventformers.trainers.grounding_rows import EventTexts, LinkingPairs

BLOCK_MENTIONS = 65_536
"""Mentions that are encoded and searched for at a time: bounds the memory for their vectors."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class EncoderRetriever:
    """A `Retriever` of `eventformers.trainers.retrieved_candidates`.

    Args:
        encoder: a trained bi-encoder; any other encoder is taken as it is.
    """

    encoder: EventEncoder

    @property
    def name(self) -> str:
        """Folder or Hub id."""
        return self.encoder.name

    @property
    def revision(self) -> str | None:
        """The weights' revision; None where it is not known."""
        return self.encoder.revision

    @property
    def max_length(self) -> int:
        """Most tokens that it reads."""
        return self.encoder.max_length

    def search(self, pairs: LinkingPairs, events: EventTexts, number: int) -> Codes:
        """Find the numbers of the best candidates of each mention, as `search_candidates` does."""
        return search_candidates(self.encoder, pairs, events, number).events


def load_retriever(source: str) -> EncoderRetriever:
    """Load a bi-encoder from a folder or Hub id, on the device of the training run.

    Raises:
        EventformersError: it cannot be loaded.
    """
    return EncoderRetriever(load_encoder(source, device=PartialState().device))


def as_retriever(model: EventEncoderModel, tokenizer: PreTrainedTokenizerBase) -> EncoderRetriever:
    """Copy a bi-encoder as it stands; training it further does not change what the copy retrieves."""
    copied = copy.deepcopy(model).to(PartialState().device).eval()
    digest = hashlib.sha256(copied.config.to_json_string().encode())
    for name, values in sorted(copied.state_dict().items()):
        digest.update(name.encode())
        digest.update(values.float().cpu().numpy().tobytes())
    return EncoderRetriever(
        EventEncoder(copied, tokenizer, name="the model that is trained", revision=digest.hexdigest())
    )


def search_candidates(
    encoder: EventEncoder, pairs: LinkingPairs, events: EventTexts, number: int
) -> Candidates:
    """The best candidates of each mention among all events of its pool, with their scores.

    Args:
        encoder: the bi-encoder.
        pairs: the mentions, and the language in which each has its candidates.
        events: the knowledge base.
        number: candidates of a mention, where its pool has so many.

    Returns:
        Numbers of events, best first; mentions that make no pair have none.
    """
    mentions = np.unique(pairs.mention_of)
    logger.info("retrieving %d candidates for %d mentions", number, len(mentions))
    # Only the pools of languages that mentions have candidates in.
    rows = events.distinct[np.isin(events.language_of[events.distinct], pairs.spoken[mentions])]
    rows = rows[np.argsort(events.language_of[rows], kind="stable")]
    described = [events[row] for row in rows.tolist()]
    index = CandidateIndex(
        [str(number) for number in events.number_of[rows].tolist()],
        encode_events(encoder, described).vectors,
        [str(language) for language in events.language_of[rows].tolist()],
    )
    # The last place is that of no event.
    numbers = np.array([*map(int, index.event_ids), PADDING])
    candidates = np.full((len(pairs.mentions), number), PADDING, dtype=np.int64)
    scores = np.full(candidates.shape, -np.inf, dtype=np.float32)
    for start in range(0, len(mentions), BLOCK_MENTIONS):
        block = mentions[start : start + BLOCK_MENTIONS]
        read = pairs.mentions.select(block)
        texts = [MentionText.from_row(row) for row in read]
        found = index.search(
            encode_mentions(encoder, texts).vectors,
            number,
            languages=[str(language) for language in pairs.spoken[block].tolist()],
        )
        candidates[block], scores[block] = numbers[found.events], found.scores
    return Candidates(candidates, scores)
