"""The candidate events that a trained bi-encoder retrieves for the mentions that a model trains on.

They are retrieved once, before the training, and kept in the cache of `datasets`: a resumed run, and a run
with the same retriever on the same data, read them from there. Trainers do not import
`eventformers.inference`: `train` hands in its encoders and its index, so that a model trains on candidates of
the kind that it later scores.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import datasets
import numpy as np
from accelerate import PartialState
from safetensors.numpy import load_file, save_file
from transformers import PreTrainedTokenizerBase

from eventformers.datasets_scripts.fingerprints import dataset_fingerprint
from eventformers.files import replaced_file
from eventformers.models.modeling_event_grounding import EventGroundingForPreTraining, EventGroundingModel
from eventformers.models.modeling_event_grounding_cross import EventGroundingForSequenceClassification
from eventformers.trainers.codes import Codes
from eventformers.trainers.grounding_data import ValidationMentions
from eventformers.trainers.grounding_rows import EventTexts, LinkingPairs
from eventformers.trainers.grounding_tokenising import GroundingTokeniser
from eventformers.trainers.method import Calibration

_NAME = "candidates"


class Retriever(Protocol):
    """A bi-encoder that finds candidate events.

    Attributes:
        name: folder or Hub id.
        revision: the weights' revision; None where it is not known.
        max_length: most tokens that it reads.
    """

    @property
    def name(self) -> str: ...

    @property
    def revision(self) -> str | None: ...

    @property
    def max_length(self) -> int: ...

    def search(self, pairs: LinkingPairs, events: EventTexts, number: int) -> Codes:
        """Find the numbers of the best candidates of each mention, best first; -1 fills up."""
        ...


@dataclass(frozen=True)
class GroundingTools:
    """Functions of `eventformers.inference` that training of event grounding calls.

    Args:
        load_retriever: loads a bi-encoder from a folder or Hub id.
        as_retriever: copies the bi-encoder that is trained, so that further training does not change it.
        calibrate_bi_encoder: chooses the threshold of a trained bi-encoder on validation mentions.
        calibrate_cross_encoder: chooses that of a trained cross-encoder; a bi-encoder, named by folder or Hub
            id, finds its candidates.
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
    """The best candidates of each mention among all events of its pool, retrieved once and then kept.

    Args:
        retriever: the bi-encoder.
        pairs: the mentions, and the language in which each has its candidates.
        events: the knowledge base.
        number: candidates of a mention, where its pool has so many.

    Returns:
        Rows of `events`, best first, `(mentions, number)`; -1 behind the last one, and for mentions that make
        no pair.
    """
    path = _cache_file(retriever, pairs, events, number)
    # The others wait, and read what the first one wrote.
    with PartialState().main_process_first():
        if not path.is_file():
            _write(path, _retrieve(retriever, pairs, events, number))
    return load_file(path)[_NAME]


def _cache_file(retriever: Retriever, pairs: LinkingPairs, events: EventTexts, number: int) -> Path:
    decides = [
        *(retriever.name if retriever.revision is None else retriever.revision, number, retriever.max_length),
        *(dataset_fingerprint(rows) for rows in (pairs.mentions, events.texts)),
        *(hashlib.sha256(codes.tobytes()).hexdigest() for codes in (pairs.spoken, events.distinct)),
        *(hashlib.sha256(codes.tobytes()).hexdigest() for codes in (pairs.mention_of, events.language_of)),
    ]
    digest = hashlib.sha256(json.dumps(decides).encode()).hexdigest()
    root = Path(datasets.config.HF_DATASETS_CACHE).expanduser() / "eventformers"
    return root / "candidates" / f"{digest}.safetensors"


def _retrieve(retriever: Retriever, pairs: LinkingPairs, events: EventTexts, number: int) -> Codes:
    found = retriever.search(pairs, events, number)
    return events.rows(found, np.broadcast_to(pairs.spoken[:, None], found.shape))


def _write(path: Path, candidates: Codes) -> None:
    with replaced_file(path) as temporary:
        save_file({_NAME: candidates}, temporary)
