"""Encoding of mentions in their contexts and of events; the score of a pair is a dot product.

A model of event grounding encodes both with its towers, token budgets and tags. Any other encoder reads the
plain text of a mention with its context, and the title and description of an event; the score is then the
cosine.
"""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from torch import nn
from transformers import AutoModelForPreTraining, PreTrainedConfig, PreTrainedTokenizerBase

from eventformers.errors import EventformersError
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.batches import forward_batch
from eventformers.inference.encoding.event_inputs import DistinctRows, TextInputs, TokenRow, tokenise_texts
from eventformers.inference.encoding.vectors import Positions, Vectors, unit_vectors
from eventformers.loading.models import faults_told, first_sentence, load_whole
from eventformers.models.grounding_tokens import (
    EventText,
    GroundingTokens,
    MentionText,
    TokenisedTexts,
    share_context,
)
from eventformers.models.text_prompts import tokenise_after

BatchSize: TypeAlias = int | Literal["auto"]
Side = Literal["mention", "event"]
_PROMPT_NAMES: dict[Side, str] = {"mention": "query", "event": "document"}
_Tokenise: TypeAlias = Callable[[Sequence[Any]], TokenisedTexts]


class GroundingTokeniser(GroundingTokens):
    """Tokeniser of mentions and events that raises `EventformersError`."""

    error_class = EventformersError


class PlainTokeniser:
    """Tokeniser of mentions and events as plain texts, for an encoder that does not ground events.

    Args:
        mention_tokens: maximum number of tokens of a mention with its context and its prompt.
        event_tokens: maximum number of tokens of an event with its prompt.
        prompts: text before each mention and before each event.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        mention_tokens: int,
        event_tokens: int,
        prompts: tuple[str, str] = ("", ""),
    ) -> None:
        self.tokenizer, self.mention_tokens, self.event_tokens = tokenizer, mention_tokens, event_tokens
        self._prompts = prompts

    def events(self, events: Sequence[EventText]) -> TokenisedTexts:
        """Tokenise events, truncated at the end."""
        texts = _plain_texts("event", events)
        for position, text in enumerate(texts):
            if not text.strip():
                raise EventformersError(
                    f"event {position}: found neither title nor description; accepted: at least one word of "
                    "either"
                )
        encoded, cut = tokenise_texts(self.tokenizer, texts, self.event_tokens, self._prompts[1])
        return TokenisedTexts(encoded["input_ids"], {"text": cut} if cut else {})

    def mentions(self, mentions: Sequence[MentionText]) -> TokenisedTexts:
        """Tokenise mentions with their contexts; long ones keep the tokens around the mention."""
        for position, mention in enumerate(mentions):
            if not mention.mention.strip():
                raise EventformersError(
                    f"mention {position}: found no text between its contexts; accepted: a mention of at "
                    "least one word"
                )
        encoded = tokenise_after(
            self._prompts[0],
            self.tokenizer,
            _plain_texts("mention", mentions),
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
        )
        rows: list[TokenRow] = []
        cut: dict[str, list[int]] = defaultdict(list)
        columns = (encoded[name] for name in ("input_ids", "offset_mapping", "special_tokens_mask"))
        for position, (mention, ids, offsets, special) in enumerate(zip(mentions, *columns, strict=True)):
            if len(ids) <= self.mention_tokens:
                rows.append(ids)
                continue
            start = len(mention.context_left)
            end = start + len(mention.mention)
            # The tokens of the prompt have empty offsets at 0, and are kept as special tokens are.
            own = [
                token for token, is_special in enumerate(special) if not is_special and any(offsets[token])
            ]
            inside = [token for token in own if offsets[token][0] < end and offsets[token][1] > start]
            # If the tokenizer drops all characters of a mention, its position is the end of the left context.
            first = (
                inside[0] if inside else next((token for token in own if offsets[token][0] >= end), own[-1])
            )
            behind = inside[-1] + 1 if inside else first
            room = self.mention_tokens - (len(ids) - len(own)) - (behind - first)
            if room < 0:
                cut["mention"].append(position)
                behind, room = behind + room, 0
            left, right = share_context(first - own[0], own[-1] + 1 - behind, room)
            cut["context"].append(position)
            rows.append([*ids[: own[0]], *ids[first - left : behind + right], *ids[own[-1] + 1 :]])
        return TokenisedTexts(rows, dict(cut))


class EncodedTexts(NamedTuple):
    """The vectors of mentions or of events.

    Attributes:
        vectors: `(texts, d)`.
        cut: number of truncated texts by part: `mention`, `heading`, `context`, `title` or `description`, or
            `text` if the model reads the text as a whole.
    """

    vectors: Vectors
    cut: dict[str, int]


def encode_texts(
    encoder: EventEncoder,
    side: Side,
    texts: Sequence[MentionText] | Sequence[EventText],
    *,
    batch_size: BatchSize = "auto",
    show_progress: bool = False,
) -> EncodedTexts:
    """Encode mentions in their contexts, or events, each distinct one once; sets the encoder's `truncated`.

    A plain encoder reads the context and the mention, but not the document's title and date; of an event it
    reads `title . description`. Contexts that are too long are truncated as for a model of event grounding.

    Args:
        encoder: a model of event grounding, or any plain encoder.

    Returns:
        The vectors in the order of the texts; those of a plain encoder have length 1. A mention that is too
        long is truncated at its end and counted in a warning.

    Raises:
        EventformersError: the model is a cross-encoder, a mention has no text, an event has neither title nor
            description, a vector is zero, or memory ran out.
    """
    if scores_pairs(encoder.model.config):
        raise EventformersError(
            f"{encoder.name} is a cross-encoder, which scores pairs and returns no vectors; accepted: a "
            "bi-encoder of event grounding or a plain encoder as the model, and this one as the reranker"
        )
    grounds = grounds_events(encoder)
    if not grounds and (encoder.reads_chains or not encoder.tokenizer.is_fast):
        # Models that read roles and slow tokenizers do not know the mention's position and may truncate it
        # away.
        plain = _plain_texts(side, texts)
        vectors = encoder.encode(
            plain,
            prompt_name=_PROMPT_NAMES[side],
            batch_size=batch_size,
            show_progress=show_progress,
        )
        cut = {"text": encoder.truncated} if encoder.truncated else {}
        return EncodedTexts(unit_vectors(vectors, plain).astype(np.float32), cut)
    limit, tokenise = _reading(encoder, side, grounds)
    # The warning names the limit that truncates.
    limited = replace(encoder, max_length=limit)
    inputs = SideInputs(encoder.tokenizer, limit, tokenise)
    rows = DistinctRows(texts)
    vectors = np.empty((rows.number, encoder.dimension), dtype=np.float32)
    chosen: dict[str, Any] = {"side": side} if grounds else {}

    def apply(model: nn.Module, tensors: dict[str, torch.Tensor], positions: Positions) -> tuple[Vectors]:
        encoded = forward_batch(model, {**tensors, **chosen})
        rows.scatter(positions, encoded, vectors)
        return (encoded,)

    limited.pass_distinct(rows, inputs, apply, batch_size=batch_size, show_progress=show_progress)
    rows.copy_known(vectors)
    encoder.truncated = limited.truncated
    counts = Counter(cast("Sequence[Hashable]", texts))
    cut = {part: sum(counts[text] for text in lost) for part, lost in sorted(inputs.cut.items())}
    if cut.get("mention"):
        warnings.warn(
            f"{cut['mention']:,} of {len(texts):,} mentions are themselves longer than the limit of {limit} "
            "tokens and are truncated at their end",
            stacklevel=2,
        )
    if not grounds:
        vectors = unit_vectors(vectors, _plain_texts(side, texts)).astype(np.float32)
    return EncodedTexts(vectors, cut)


def grounds_events(encoder: EventEncoder) -> bool:
    """Return True if the encoder has towers for mentions and events."""
    return hasattr(encoder.model, "tower")


def scores_pairs(config: PreTrainedConfig) -> bool:
    """Return True for the configuration of a cross-encoder, which reads a mention and an event together."""
    return "AutoModelForSequenceClassification" in getattr(config, "full_auto_map", {})


def score_calibration(encoder: EventEncoder) -> tuple[float, float]:
    """Return the scale and the bias that turn the dot product of a mention and an event into a logit.

    If they were learned, they are weights of the training head, read from the model's folder or repository.

    Raises:
        EventformersError: they were learned, but the training head cannot be read.
    """
    config = encoder.model.config
    if not config.learnable_score_scale and config.score_bias is None:
        return float(config.score_scale), 0.0
    try:
        with faults_told(config.name_or_path):
            head = load_whole(AutoModelForPreTraining, config.name_or_path)
    except EventformersError as error:
        raise EventformersError(
            f"{encoder.name}: cannot read the learned scale and bias of scores: {first_sentence(error)}; "
            "accepted: a model with its training head, or reranker=FOLDER"
        ) from error
    calibration = cast(Any, head.score_calibration)()
    scale, bias = (torch.as_tensor(calibration[name]).item() for name in ("scale", "bias"))
    return float(scale), float(bias)


def mention_text(mention: MentionText) -> str:
    """Return a mention as plain text."""
    return f"{mention.context_left}{mention.mention}{mention.context_right}"


def event_text(event: EventText) -> str:
    """Return an event as plain text."""
    return " . ".join(filter(None, event))


class SideInputs(TextInputs):
    """A converter of mentions or events to token ids.

    Attributes:
        cut: the truncated texts, by part.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, max_length: int, tokenise: _Tokenise) -> None:
        super().__init__(tokenizer, "subject_predicate_object", max_length)
        self._tokenise = tokenise
        self.cut: defaultdict[str, set[Hashable]] = defaultdict(set)

    def token_rows(self, keys: Sequence[Hashable]) -> tuple[list[TokenRow], list[int]]:
        """Return the token ids of mentions or events, and the positions of truncated ones."""
        texts = self._tokenise(keys)
        for part, positions in texts.cut.items():
            self.cut[part].update(keys[position] for position in positions)
        return texts.rows, sorted(set().union(*texts.cut.values()))


def _reading(encoder: EventEncoder, side: Side, grounds: bool) -> tuple[int, _Tokenise]:
    """Return the maximum number of tokens in a text, and the tokenising function."""
    limit = encoder.max_length
    tokeniser: GroundingTokeniser | PlainTokeniser
    if grounds:
        tokeniser = GroundingTokeniser.of(encoder.tokenizer, encoder.model.config, limit)
    else:
        prompts = encoder.prompt("query"), encoder.prompt("document")
        tokeniser = PlainTokeniser(encoder.tokenizer, limit, limit, prompts)
    if side == "mention":
        return tokeniser.mention_tokens, tokeniser.mentions
    return tokeniser.event_tokens, tokeniser.events


def _plain_texts(side: Side, texts: Sequence[Any]) -> list[str]:
    return [mention_text(text) if side == "mention" else event_text(text) for text in texts]
