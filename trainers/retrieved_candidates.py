"""The candidate events that a trained bi-encoder retrieves for the mentions that a model trains on.

They are retrieved once, before the training, and kept in the cache of `datasets`: a resumed run, and a run
with the same retriever on the same data, read them from there. This module and `null_threshold` use the
encoders and the index of `eventformers.inference`, so that a model trains on what it will be given.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
from pathlib import Path

import datasets
import numpy as np
from accelerate import PartialState
from safetensors.numpy import load_file, save_file
from transformers import PreTrainedTokenizerBase

from eventformers.datasets_scripts.fingerprints import dataset_fingerprint
from eventformers.errors import EventformersError
from eventformers.files import replaced_file
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.grounding.encoding import encode_events, encode_mentions
from eventformers.inference.search.candidate_index import CandidateIndex, Candidates
from eventformers.models.grounding_tokens import MentionText
from eventformers.models.modeling_event_grounding import EventGroundingModel
from eventformers.trainers.codes import PADDING, Codes
from eventformers.trainers.grounding_rows import EventTexts, LinkingPairs

BLOCK_MENTIONS = 65_536
"""Mentions that are encoded and searched for at a time: bounds the memory for their vectors."""

_NAME = "candidates"

logger = logging.getLogger(__name__)


def retrieve_candidates(
    retriever: str | EventEncoder | None, pairs: LinkingPairs, events: EventTexts, number: int
) -> Codes:
    """The best candidates of each mention among all events of its pool, retrieved once and then kept.

    Args:
        retriever: folder or Hub id of a trained bi-encoder, or one that is loaded; any other encoder is taken
            as it is.
        pairs: the mentions, and the language in which each has its candidates.
        events: the knowledge base.
        number: candidates of a mention, where its pool has so many.

    Returns:
        Rows of `events`, best first, `(mentions, number)`; -1 behind the last one, and for mentions that make
        no pair.

    Raises:
        EventformersError: no retriever is named, it cannot be loaded, or memory ran out.
    """
    if not retriever:
        raise EventformersError(
            "setting retriever: found none; accepted: the folder or Hub id of a trained bi-encoder, as "
            "`eventformers train event_grounding` writes it"
        )
    encoder = retriever if isinstance(retriever, EventEncoder) else load_encoder(retriever)
    path = _cache_file(encoder, pairs, events, number)
    # The others wait, and read what the first one wrote.
    with PartialState().main_process_first():
        if not path.is_file():
            _write(path, _retrieve(encoder, pairs, events, number))
    return load_file(path)[_NAME]


def as_retriever(model: EventGroundingModel, tokenizer: PreTrainedTokenizerBase) -> EventEncoder:
    """A bi-encoder as it stands, ready to retrieve; training it further does not change what is given."""
    copied = copy.deepcopy(model).to(PartialState().device).eval()
    digest = hashlib.sha256(copied.config.to_json_string().encode())
    for name, values in sorted(copied.state_dict().items()):
        digest.update(name.encode())
        digest.update(values.float().cpu().numpy().tobytes())
    return EventEncoder(copied, tokenizer, name="the model that is trained", revision=digest.hexdigest())


def _cache_file(encoder: EventEncoder, pairs: LinkingPairs, events: EventTexts, number: int) -> Path:
    decides = [
        *(encoder.name if encoder.revision is None else encoder.revision, number, encoder.max_length),
        *(dataset_fingerprint(rows) for rows in (pairs.mentions, events.texts)),
        *(hashlib.sha256(codes.tobytes()).hexdigest() for codes in (pairs.spoken, events.distinct)),
        *(hashlib.sha256(codes.tobytes()).hexdigest() for codes in (pairs.mention_of, events.language_of)),
    ]
    digest = hashlib.sha256(json.dumps(decides).encode()).hexdigest()
    root = Path(datasets.config.HF_DATASETS_CACHE).expanduser() / "eventformers"
    return root / "candidates" / f"{digest}.safetensors"


def search_candidates(
    encoder: EventEncoder, pairs: LinkingPairs, events: EventTexts, number: int
) -> Candidates:
    """The best candidates of each mention among all events of its pool, with their scores.

    Args:
        encoder: as for `retrieve_candidates`, loaded.
        pairs: as for `retrieve_candidates`.
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


def _retrieve(encoder: EventEncoder, pairs: LinkingPairs, events: EventTexts, number: int) -> Codes:
    found = search_candidates(encoder, pairs, events, number).events
    return events.rows(found, np.broadcast_to(pairs.spoken[:, None], found.shape))


def _write(path: Path, candidates: Codes) -> None:
    with replaced_file(path) as temporary:
        save_file({_NAME: candidates}, temporary)
