"""Candidate events that a trained bi-encoder retrieves for training mentions.

They are retrieved once before training and stored in the cache of `datasets` for resumed runs and for runs
with the same retriever and data.
"""

from __future__ import annotations

import copy
import logging

import numpy as np
from accelerate import PartialState
from transformers import PreTrainedTokenizerBase

from eventformers.datasets_scripts.fingerprints import dataset_fingerprint
from eventformers.datasets_scripts.known_pairs import PADDING, Codes
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.grounding.knowledge_base import EventTexts
from eventformers.inference.grounding.retrieve_rerank import grounding_model, retrieve
from eventformers.inference.search.candidate_index import Candidates
from eventformers.models.grounding_tokens import MentionText
from eventformers.models.modeling_base import EventEncoderModel
from eventformers.trainers.cached_arrays import array_digest, cached_arrays, model_digest
from eventformers.trainers.grounding_rows import LinkingPairs

BLOCK_MENTIONS = 65_536
"""Number of mentions encoded and searched at a time; it bounds the memory for their vectors."""

_NAME = "candidates"

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
        encoder: the bi-encoder.
        events: the knowledge base.
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
        retriever: the bi-encoder.
        pairs: the mentions, and the language of each mention's candidates.
        events: the knowledge base.
        number: maximum number of candidates of a mention.

    Returns:
        Rows of `events`, best first, `(mentions, number)`, padded with -1; all -1 without a pair.
    """
    decides = [
        *(retriever.name if retriever.revision is None else retriever.revision, number, retriever.max_length),
        *(dataset_fingerprint(rows) for rows in (pairs.mentions, events.texts)),
        *(array_digest(codes) for codes in (pairs.spoken, events.distinct)),
        *(array_digest(codes) for codes in (pairs.mention_of, events.language_of)),
    ]
    found = cached_arrays("candidates", decides, lambda: {_NAME: _retrieve(retriever, pairs, events, number)})
    return found[_NAME]


def _retrieve(retriever: EventEncoder, pairs: LinkingPairs, events: EventTexts, number: int) -> Codes:
    logger.info("retrieving %d candidates for %d mentions", number, len(np.unique(pairs.mention_of)))
    return candidate_rows(EventPools(retriever, events, pairs.languages()), pairs, events, number)


def candidate_rows(pools: EventPools, pairs: LinkingPairs, events: EventTexts, number: int) -> Codes:
    """Retrieve candidates as rows of `events`, best first, `(mentions, number)`, padded with -1."""
    found = pools.search(pairs, number).events
    return events.rows(found, np.broadcast_to(pairs.spoken[:, None], found.shape))
