"""Candidate events that a trained bi-encoder retrieves for training mentions.

They are retrieved once before training and stored in the cache of `datasets` for resumed runs and for runs
with the same retriever and data. Trainers do not import `eventformers.inference`: `train` passes in its
encoders and its index, so a model trains on the same kind of candidates that it scores later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from transformers import PreTrainedTokenizerBase

from eventformers.datasets_scripts.fingerprints import dataset_fingerprint
from eventformers.models.modeling_event_grounding import EventGroundingForPreTraining, EventGroundingModel
from eventformers.models.modeling_event_grounding_cross import EventGroundingForSequenceClassification
from eventformers.trainers.cached_arrays import array_digest, cached_arrays
from eventformers.trainers.codes import Codes
from eventformers.trainers.grounding_data import ValidationMentions
from eventformers.trainers.grounding_rows import EventTexts, LinkingPairs
from eventformers.trainers.grounding_tokenising import GroundingTokeniser
from eventformers.trainers.method import Calibration

_NAME = "candidates"

logger = logging.getLogger(__name__)


SearchEvents: TypeAlias = Callable[[LinkingPairs, int], Codes]
"""Finds the numbers of a number of candidates of each mention, best first, padded with -1."""


class Retriever(Protocol):
    """A bi-encoder that finds candidate events.

    Attributes:
        name: folder or Hub id.
        revision: the weights' revision; None if unknown.
        max_length: maximum number of tokens of a text.
    """

    @property
    def name(self) -> str: ...

    @property
    def revision(self) -> str | None: ...

    @property
    def max_length(self) -> int: ...

    def index(self, events: EventTexts, languages: Codes) -> SearchEvents:
        """Encode the events of some languages, and return the search among them."""
        ...


@dataclass(frozen=True)
class GroundingTools:
    """Functions of `eventformers.inference` for the training of event grounding.

    Args:
        load_retriever: loads a bi-encoder from a folder or Hub id.
        as_retriever: copies the bi-encoder in training, so that further training does not change the copy.
        calibrate_bi_encoder: chooses the threshold of a trained bi-encoder on validation mentions.
        calibrate_cross_encoder: chooses the threshold of a trained cross-encoder on validation mentions,
            whose candidates a bi-encoder finds, named by folder or Hub id.
    """

    load_retriever: Callable[[str], Retriever]
    as_retriever: Callable[[EventGroundingModel, PreTrainedTokenizerBase], Retriever]
    calibrate_bi_encoder: Callable[
        [ValidationMentions | None, EventGroundingForPreTraining, PreTrainedTokenizerBase], Calibration
    ]
    calibrate_cross_encoder: Callable[
        [ValidationMentions | None, str, EventGroundingForSequenceClassification, GroundingTokeniser],
        Calibration,
    ]


def retrieve_candidates(retriever: Retriever, pairs: LinkingPairs, events: EventTexts, number: int) -> Codes:
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


def _retrieve(retriever: Retriever, pairs: LinkingPairs, events: EventTexts, number: int) -> Codes:
    logger.info("retrieving %d candidates for %d mentions", number, len(np.unique(pairs.mention_of)))
    search = retriever.index(events, pairs.languages())
    return candidate_rows(search, pairs, events, number)


def candidate_rows(search: SearchEvents, pairs: LinkingPairs, events: EventTexts, number: int) -> Codes:
    """Retrieve candidates as rows of `events`, best first, `(mentions, number)`, padded with -1."""
    found = search(pairs, number)
    return events.rows(found, np.broadcast_to(pairs.spoken[:, None], found.shape))
