"""Encoding of event mentions, by the whole sentence or by the tokens of the trigger; clustering in rounds.

In rounds, tokens are weighted by how strongly they depend on the clusters found before, beyond the paper. A
model trained on other texts does not know which words express the types of these ones. The first clusters
tell: a word that occurs in few of them is likely to.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import nn
from transformers import PreTrainedTokenizerBase

from eventformers.errors import EventformersError, UnknownNameError, shown
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.event_inputs import DistinctRows, TextInputs, TokenRow, tokenise_texts
from eventformers.inference.encoding.vectors import Positions, Vectors
from eventformers.inference.induction.mention_distances import Labels, MentionVectors
from eventformers.inference.induction.type_naming import keyness
from eventformers.methods import what_is_read
from eventformers.models.modeling_base import EventEncoderModel
from eventformers.models.pooling import mean_pool
from eventformers.models.processing_event_type_induction import (
    NO_TRIGGER,
    Mention,
    check_trigger_markers,
    mark_trigger,
    trigger_span,
)

TriggerInput = Literal["none", "marked", "span", "marked_span", "found"]
WITHOUT_TRIGGERS: tuple[TriggerInput, ...] = ("none", "found")
"""Trigger inputs that read only the sentence."""

PLAIN_TRIGGER_INPUTS: tuple[TriggerInput, ...] = ("none", "span")
"""Trigger inputs of a plain encoder; a model of event type induction has its own."""

_PARTS = ("embeddings", "query", "key")
_FOUND = "found_place"


class MentionInputs(TextInputs):
    """A converter of sentences with triggers to token ids; a key is a tuple of mentions of one sentence.

    A row is its number of tokens, their ids, and the first token and the one after the last of each trigger.
    This class gives the model a mask for one trigger a sentence.

    Args:
        tokenizer: the model's tokenizer; it must be fast, to provide token offsets.
        marks_trigger: enclose every trigger in marker tokens.
        token_factors: a factor of the weight of each token id, `(vocabulary,)`; None for equal ones.

    Attributes:
        without_tokens: number of distinct mentions so far whose trigger was truncated away.
    """

    pads = False

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int,
        *,
        marks_trigger: bool = False,
        prompt: str = "",
        token_factors: Vectors | None = None,
    ) -> None:
        super().__init__(tokenizer, "subject_predicate_object", max_length, prompt)
        if not tokenizer.is_fast:
            raise EventformersError(
                f"{type(tokenizer).__name__} provides no token offsets; accepted: a fast tokenizer, or "
                "trigger_input none"
            )
        if marks_trigger:
            try:
                check_trigger_markers(tokenizer)
            except ValueError as error:
                raise EventformersError(str(error)) from error
        self.marks_trigger = marks_trigger
        self.token_factors = None if token_factors is None else torch.from_numpy(token_factors)
        self.without_tokens = 0

    def key(self, item: object, position: int) -> tuple[Mention, ...]:
        """Return the key of a text without a trigger; see `TextInputs`."""
        return (Mention(self.text(item, position)),)

    def token_rows(self, keys: Sequence[Hashable]) -> tuple[list[TokenRow], list[int]]:
        """Return the rows of some sentences, and the positions of truncated ones."""
        sentences = cast("list[tuple[Mention, ...]]", list(keys))
        if self.marks_trigger:
            sentences = [tuple(map(mark_trigger, mentions)) for mentions in sentences]
        texts = [mentions[0].text for mentions in sentences]
        encoded, cut = tokenise_texts(
            self.tokenizer, texts, self.max_length, self.prompt, return_offsets_mapping=True
        )
        rows = []
        for mentions, ids, offsets in zip(
            sentences, encoded["input_ids"], encoded["offset_mapping"], strict=True
        ):
            spans = [trigger_span(mention, offsets) for mention in mentions]
            self.without_tokens += sum(
                mention.has_trigger and first == behind
                for mention, (first, behind) in zip(mentions, spans, strict=True)
            )
            rows.append([len(ids), *ids, *(place for span in spans for place in span)])
        return rows, cut

    def length(self, row: TokenRow) -> int:
        """Number of tokens of a row."""
        return row[0]

    def tensors(self, rows: Sequence[TokenRow], device: torch.device) -> dict[str, torch.Tensor]:
        """Return `input_ids`, `trigger_mask` and, if given, `token_factors`, each `(batch, length)`."""
        input_ids, triggers = torch.tensor([row[1:] for row in rows], device=device).split([rows[0][0], 2], 1)
        places = torch.arange(input_ids.shape[1], device=device)
        tensors = {
            "input_ids": input_ids,
            "trigger_mask": (places >= triggers[:, :1]) & (places < triggers[:, 1:]),
        }
        if self.token_factors is not None:
            tensors["token_factors"] = self.token_factors.to(device)[input_ids]
        return tensors


class SentenceInputs(MentionInputs):
    """A converter of sentences with several triggers each, whose places it gives to the model."""

    def tensors(self, rows: Sequence[TokenRow], device: torch.device) -> dict[str, torch.Tensor]:
        """Return `input_ids`, `(batch, length)`, and `triggers`, `(mentions, 3)`: row, first token, token
        after the last."""
        behind = 1 + rows[0][0]
        triggers = [
            (number, row[place], row[place + 1])
            for number, row in enumerate(rows)
            for place in range(behind, len(row), 2)
        ]
        return {
            "input_ids": torch.tensor([row[1:behind] for row in rows], device=device),
            "triggers": torch.tensor(triggers, device=device),
        }


def encode_mentions(
    encoder: EventEncoder,
    mentions: Sequence[Mapping[str, Any]],
    *,
    trigger_input: TriggerInput | None = None,
    token_factors: Vectors | None = None,
    batch_size: int | Literal["auto"] = "auto",
    show_progress: bool = False,
) -> MentionVectors:
    """Encode event mentions, each distinct pair of sentence and trigger once.

    A plain encoder with `span` reads each distinct sentence once, with all of its triggers.

    Args:
        encoder: a model of event type induction, or any plain encoder.
        mentions: rows of `EventTypes`, config `mentions`, with `text`, `trigger_start` and `trigger_end`.
        trigger_input: input of a plain encoder: `none` encodes the sentence; `span` averages the vectors of
            the trigger's tokens in the sentence, or encodes the sentence if a mention has no trigger. A model
            that finds triggers also accepts `span`. None uses the model's own, `none` for a plain encoder.
        token_factors: output of `token_factors`, `(vocabulary,)`, for a model with `found_exponent`; None for
            equal ones.

    Returns:
        The vectors in the order of the mentions, with the triggers if the model finds them. A plain encoder
        has no queries and keys.

    Raises:
        UnknownNameError: an unknown `trigger_input`.
        EventformersError: a sentence contains no word, the model does not support this trigger input, or
            memory ran out.
    """
    induces = what_is_read(encoder.model.config.model_type) == "mentions"
    chosen = _trigger_input(encoder, trigger_input, induces)
    if chosen == "none" and not induces:
        texts = [str(mention["text"]) for mention in mentions]
        return MentionVectors(encoder.encode(texts, batch_size=batch_size, show_progress=show_progress))
    inputs: MentionInputs
    if chosen == "span" and not induces:
        inputs = SentenceInputs(encoder.tokenizer, encoder.max_length, prompt=encoder.prompt())
        vectors = _encode_sentences(encoder, mentions, inputs, batch_size, show_progress)
    else:
        inputs = MentionInputs(
            encoder.tokenizer,
            encoder.max_length,
            marks_trigger=chosen in ("marked", "marked_span"),
            prompt=encoder.prompt(),
            token_factors=token_factors,
        )
        vectors = _encode(encoder, mentions, inputs, chosen, batch_size, show_progress)
    if chosen not in WITHOUT_TRIGGERS:
        if without := sum(not has_trigger(mention) for mention in mentions):
            warnings.warn(
                f"{without:,} of {len(mentions):,} mentions have no trigger; their whole sentences are "
                "encoded",
                stacklevel=2,
            )
        if inputs.without_tokens:
            warnings.warn(
                f"{inputs.without_tokens:,} triggers are beyond the first {inputs.max_length} tokens; their "
                "sentences are encoded instead",
                stacklevel=2,
            )
    return vectors


def encode_labels(
    encoder: EventEncoder,
    labels: Sequence[str],
    *,
    batch_size: int | Literal["auto"] = "auto",
    show_progress: bool = False,
) -> Vectors:
    """Encode names of types or definitions of frames over all their tokens, without a trigger, `(labels,
    d)`."""
    if getattr(encoder.model.config, "trigger_input", None) != "found":
        return encoder.encode(list(labels), batch_size=batch_size, show_progress=show_progress)
    inputs = MentionInputs(encoder.tokenizer, encoder.max_length, prompt=encoder.prompt())
    mentions = [{"text": label, "trigger_start": NO_TRIGGER, "trigger_end": NO_TRIGGER} for label in labels]
    return _encode(encoder, mentions, inputs, "span", batch_size, show_progress).embeddings


def _encode(
    encoder: EventEncoder,
    mentions: Sequence[Mapping[str, Any]],
    inputs: MentionInputs,
    chosen: TriggerInput,
    batch_size: int | Literal["auto"],
    show_progress: bool,
) -> MentionVectors:
    """Encode mentions with a model of event type induction, each distinct one once."""
    reads_trigger = chosen not in WITHOUT_TRIGGERS
    keys = [_key(mention, place, inputs, reads_trigger) for place, mention in enumerate(mentions)]
    rows = DistinctRows([(key,) for key in keys])
    vectors = {part: np.empty((len(keys), encoder.dimension), dtype=np.float32) for part in _PARTS}
    if chosen == "found":
        vectors[_FOUND] = np.empty((len(keys), 1), dtype=np.float32)

    def apply(model: nn.Module, tensors: dict[str, torch.Tensor], positions: Positions) -> list[Vectors]:
        if chosen == "found":
            del tensors["trigger_mask"]
        output = model(**tensors)
        parts = [output[part] for part in _PARTS]
        found = output.found_triggers
        if found is not None:
            parts.append(torch.where(found.any(dim=1), found.int().argmax(dim=1), -1).unsqueeze(1))
        computed = [part.float().cpu().numpy() for part in parts]
        for part, encoded in zip(vectors.values(), computed, strict=True):
            rows.scatter(positions, encoded, part)
        return computed

    encoder.pass_distinct(rows, inputs, apply, batch_size=batch_size, show_progress=show_progress)
    for part in vectors.values():
        rows.copy_known(part)
    places = vectors.pop(_FOUND, None)
    triggers = None
    if places is not None:
        triggers = _words_at(inputs, [key.text for key in keys], places[:, 0].astype(np.int64))
    return MentionVectors(**vectors, triggers=triggers)


def _encode_sentences(
    encoder: EventEncoder,
    mentions: Sequence[Mapping[str, Any]],
    inputs: SentenceInputs,
    batch_size: int | Literal["auto"],
    show_progress: bool,
) -> MentionVectors:
    """Encode mentions with a plain encoder by the tokens of their triggers, each distinct sentence once."""
    keys = [_key(mention, place, inputs, True) for place, mention in enumerate(mentions)]
    of_sentence: dict[str, list[Mention]] = {}
    for mention in dict.fromkeys(keys):
        of_sentence.setdefault(mention.text, []).append(mention)
    sentences = [tuple(of_one) for of_one in of_sentence.values()]
    row_of = {mention: row for row, mention in enumerate(chain.from_iterable(sentences))}
    starts = np.cumsum([0, *map(len, sentences)])
    distinct = DistinctRows(sentences)
    vectors = np.empty((len(row_of), encoder.dimension), dtype=np.float32)

    def apply(model: nn.Module, tensors: dict[str, torch.Tensor], positions: Positions) -> tuple[Vectors]:
        # The mean vector of each trigger's tokens, for any pooling of the model, `(mentions, d)`; that of the
        # sentence for a mention without one.
        output = model(input_ids=tensors["input_ids"])
        row, first, behind = tensors["triggers"].T
        places = first[:, None] + torch.arange(max(1, int((behind - first).max())), device=first.device)
        inside = places < behind[:, None]
        tokens = output.last_hidden_state[row[:, None], places.clamp(max=tensors["input_ids"].shape[1] - 1)]
        pooled = mean_pool(tokens, inside)
        if model.projection is not None:
            pooled = cast(nn.Module, model.projection)(pooled)
        pooled = cast(EventEncoderModel, model).truncate(pooled)
        encoded = (
            torch.where(inside.any(dim=1, keepdim=True), pooled, output.embeddings[row]).float().cpu().numpy()
        )
        vectors[np.concatenate([np.arange(starts[one], starts[one + 1]) for one in positions])] = encoded
        return (encoded,)

    encoder.pass_distinct(distinct, inputs, apply, batch_size=batch_size, show_progress=show_progress)
    for position, first in distinct.known:
        vectors[starts[position] : starts[position + 1]] = vectors[starts[first] : starts[first + 1]]
    return MentionVectors(vectors[[row_of[key] for key in keys]])


def _words_at(inputs: MentionInputs, texts: Sequence[str], places: Labels) -> Labels:
    """Return start and end of the word at a token of each text; see `MentionVectors.triggers`."""
    known = dict(zip(texts, places.tolist(), strict=True))
    encoded, _ = tokenise_texts(inputs.tokenizer, list(known), inputs.max_length, inputs.prompt)
    spans = {}
    for row, (text, place) in enumerate(known.items()):
        start, end = NO_TRIGGER, NO_TRIGGER
        if place >= 0:
            word = encoded.word_to_chars(row, encoded.token_to_word(row, place))
            start, end = (max(0, offset - len(inputs.prompt)) for offset in word)
            # Some tokenizers include the space before a word in its offsets.
            start += len(text[start:end]) - len(text[start:end].lstrip())
        spans[text] = (start, end)
    return np.array([spans[text] for text in texts], dtype=np.int64).reshape(-1, 2)


def has_trigger(mention: Mapping[str, Any]) -> bool:
    """Return True if a row has the offsets of its trigger."""
    return _located(mention, "").has_trigger


def _located(mention: Mapping[str, Any], text: str) -> Mention:
    return Mention(text, int(mention["trigger_start"]), int(mention["trigger_end"]))


def _trigger_input(encoder: EventEncoder, asked: TriggerInput | None, induces: bool) -> TriggerInput:
    """Return the trigger input for a model, or raise an error if the model does not support the asked one."""
    if induces:
        own = cast("TriggerInput", encoder.model.config.trigger_input)
        if own == "found" and asked == "span":
            return asked
        if asked not in (None, own):
            raise EventformersError(
                f"trigger_input is {shown(asked)} with {encoder.name}, which was trained with {shown(own)}; "
                "use that value, or leave trigger_input out"
            )
        return own
    chosen = asked or "none"
    if chosen not in PLAIN_TRIGGER_INPUTS:
        raise UnknownNameError("trigger_input of a plain encoder", chosen, PLAIN_TRIGGER_INPUTS)
    if chosen == "span" and not hasattr(encoder.model, "pool"):
        raise EventformersError(
            f"trigger_input is 'span' with {encoder.name}, a {encoder.model.config.model_type} model, which "
            "has its own pooling; accepted: 'none'"
        )
    return chosen


def _key(mention: Mapping[str, Any], place: int, inputs: MentionInputs, reads_trigger: bool) -> Mention:
    text = inputs.text(mention["text"], place)
    if not reads_trigger or not has_trigger(mention):
        return Mention(text)
    return _located(mention, text)


SMALLEST_FACTOR = 0.2
"""Factor of a token that depends on no cluster, as a share of the mean dependence over all occurrences."""


def cluster_dependence(occurrences: csr_array, labels: Labels) -> NDArray[np.float64]:
    """Compute how strongly the occurrence of each token depends on the cluster of a text: the sum of the
    token's `keyness` in the clusters in which it is more frequent, 0 or more, `(tokens,)`.

    Args:
        occurrences: 1 for a token that a text contains, `(n, tokens)`.
        labels: the cluster of each text, from 0, `(n,)`.
    """
    sizes = np.bincount(labels)
    members = csr_array((np.ones(len(labels)), labels, np.arange(len(labels) + 1)), (len(labels), len(sizes)))
    inside = csr_array(members.T @ occurrences)
    everywhere = occurrences.sum(axis=0)
    dependence = np.zeros(occurrences.shape[1])
    # One cluster at a time: the table of many clusters and tokens would be large.
    for cluster, size in enumerate(sizes):
        found = keyness(inside[[cluster]].toarray()[0], size, everywhere, np.array(len(labels)))
        dependence += np.maximum(0.0, found)
    return dependence


def token_factors(
    encoder: EventEncoder,
    trigger_input: TriggerInput | None,
    mentions: Sequence[Mapping[str, Any]],
    clusters: Labels | None,
) -> Vectors | None:
    """Compute the factor of each token id from the clusters of mentions: its `cluster_dependence` plus the
    smallest factor.

    Args:
        mentions: rows with `text`.
        clusters: the cluster of each mention, from 0, `(n,)`; None if there are none yet.

    Returns:
        `(vocabulary,)`, positive; None without clusters, or if the model does not average tokens by the
        probability of an event.
    """
    if clusters is None or not averages_found(encoder, trigger_input):
        return None
    texts = [str(mention["text"]) for mention in mentions]
    encoded, _ = tokenise_texts(encoder.tokenizer, texts, encoder.max_length, encoder.prompt())
    ids = [np.unique(row) for row in encoded["input_ids"]]
    known, columns = np.unique(np.concatenate(ids), return_inverse=True)
    starts = np.cumsum([0, *map(len, ids)])
    occurrences = csr_array((np.ones(len(columns)), columns, starts), (len(texts), len(known)))
    dependence = cluster_dependence(occurrences, clusters)
    smallest = SMALLEST_FACTOR * dependence[columns].mean() or 1.0
    factors = np.full(len(encoder.tokenizer), smallest, dtype=np.float32)
    factors[known] += dependence
    return factors


def weighting_rounds_of(
    encoders: Sequence[EventEncoder], readings: Sequence[TriggerInput | None], asked: int | None
) -> int:
    """Return the number of rounds for models and how each reads triggers: `asked`, or else the highest of the
    models' own.

    Raises:
        EventformersError: rounds are asked for, and no model averages tokens by their weights.
    """
    able = [
        encoder.model.config
        for encoder, reading in zip(encoders, readings, strict=True)
        if averages_found(encoder, reading)
    ]
    if asked and not able:
        raise EventformersError(
            f"weighting_rounds is {asked} with {encoders[0].name}, which does not average tokens by the "
            "probability of an event; accepted: 0, or a model of event type induction with found_exponent"
        )
    own = max((config.weighting_rounds for config in able), default=0)
    return own if asked is None else asked


def averages_found(encoder: EventEncoder, trigger_input: TriggerInput | None) -> bool:
    """Whether a model averages tokens, each weighted by the probability of an event."""
    has_weights = getattr(encoder.model.config, "found_exponent", None) is not None
    return has_weights and trigger_input in (None, "found")
