"""Encoding of mentions in their contexts and of events; the score of a pair is a dot product.

A model of event grounding encodes both with its towers, token budgets and tags. Any other encoder reads the
plain text of a mention with its context, and the title and description of an event; the score is then the
cosine. A cross-encoder reads a mention and an event as one text, and scores them as a pair.
"""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from torch import nn
from transformers import (
    AutoModelForPreTraining,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from eventformers.errors import EventformersError
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.batches import forward_batch
from eventformers.inference.encoding.event_inputs import DistinctRows, TextInputs, TokenRow, tokenise_texts
from eventformers.inference.encoding.vectors import Positions, Vectors, unit_vectors
from eventformers.inference.grounding.knowledge_base import EventTexts
from eventformers.loading.models import faults_told, first_sentence, load_whole, load_with_tokenizer
from eventformers.models.processing_event_grounding import (
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


Mentions = Sequence[MentionText]
Events = EventTexts | Sequence[EventText]
"""The texts of events, by position."""


@dataclass(frozen=True)
class CrossEncoder:
    """A cross-encoder of event grounding with its tokenizer.

    Attributes:
        encoder: the model, whose output has `logits`, with its name and revision.
        tokeniser: makes tokens of mentions and events within the model's budgets.
    """

    encoder: EventEncoder
    tokeniser: GroundingTokeniser | PlainPairTokeniser

    @property
    def learned_by_softmax(self) -> bool:
        """True if its scores are comparable only among the candidates of one mention."""
        return bool(getattr(self.encoder.model.config, "linking_objective", None) == "softmax")

    @property
    def retriever_weight(self) -> float:
        """Weight of the retrieval score that its configuration has."""
        return float(getattr(self.encoder.model.config, "retriever_weight", 0.0))


class PlainPairTokeniser(PlainTokeniser):
    """Tokeniser of mentions and events for the cross-encoder of another library, as two plain texts.

    A pair has the tokens that `tokenizer(mention in its context, "title . description")` gives.

    Args:
        max_length: maximum number of tokens of a pair. A mention with its context has at most half of it.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, max_length: int) -> None:
        super().__init__(tokenizer, max_length // 2, max_length)
        self._single = self._special_tokens("a")
        self._before, self._between, self.after = self._special_tokens("a", "a")
        self.max_length = max_length

    def _special_tokens(self, *texts: str) -> list[TokenRow]:
        """The special tokens before, between and after texts of one token."""
        encoded = self.tokenizer(*texts)
        sides = [-1 if side is None else side for side in encoded.sequence_ids()]
        parts, start = [], 0
        for side in range(len(texts)):
            place = sides.index(side)
            parts.append(encoded["input_ids"][start:place])
            start = len(sides) - sides[::-1].index(side)
        return [*parts, encoded["input_ids"][start:]]

    def events(self, events: Sequence[EventText]) -> TokenisedTexts:
        """Tokenise events; long ones are truncated at the end."""
        rows, cut = super().events(events)
        return TokenisedTexts(rows, {"description": cut["text"]} if cut else {})

    def pair(self, mention: TokenRow, event: TokenRow) -> TokenRow:
        """Join a row of `mentions` and a row of `events`, after the number of tokens before the event."""
        first, last = map(len, self._single)
        before = [*self._before, *mention[first : len(mention) - last], *self._between]
        return [len(before), *before, *event[first : len(event) - last], *self.after]


def load_cross_encoder(
    name_or_path: str | Path,
    *,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
) -> CrossEncoder:
    """Load a cross-encoder: one of event grounding, or one of another library with one label.

    Args:
        name_or_path: folder or Hub id.

    Raises:
        EventformersError: the model does not exist, its folder is incomplete, a weight is missing, or it
            does not score pairs by one number.
        UnknownNameError: an unknown dtype.
    """

    def load_model(source: str, config: PreTrainedConfig) -> PreTrainedModel:
        classifies = any(name.endswith("ForSequenceClassification") for name in config.architectures or ())
        if not scores_pairs(config) and not (classifies and config.num_labels == 1):
            found = f", with {config.num_labels} labels" if classifies else ""
            raise EventformersError(
                f"{name_or_path} is a model of the type {config.model_type}{found}, which does not score "
                "pairs; accepted: a cross-encoder of event grounding, or another with one label, as those of "
                "sentence-transformers"
            )
        return load_whole(AutoModelForSequenceClassification, source)

    loaded = load_with_tokenizer(name_or_path, load_model, device=device, dtype=dtype)
    encoder = EventEncoder(**loaded._asdict())
    if scores_pairs(loaded.model.config):
        return CrossEncoder(encoder, GroundingTokeniser.of(loaded.tokenizer, loaded.model.config))
    if not loaded.tokenizer.is_fast:
        raise EventformersError(
            f"{name_or_path} has a tokenizer without offsets; accepted: a cross-encoder with tokenizer.json"
        )
    return CrossEncoder(encoder, PlainPairTokeniser(loaded.tokenizer, loaded.max_length))


class PairInputs(TextInputs):
    """A converter of pairs of positions to token ids.

    Args:
        tokeniser: makes tokens of mentions and events.

    Attributes:
        cut: positions of truncated mentions and events, by part as in `TokenisedTexts`.
    """

    def __init__(
        self, tokeniser: GroundingTokeniser | PlainPairTokeniser, mentions: Mentions, events: Events
    ) -> None:
        super().__init__(
            tokeniser.tokenizer,
            "subject_predicate_object",
            tokeniser.mention_tokens + tokeniser.event_tokens - 1,
        )
        self._tokeniser, self._mentions, self._events = tokeniser, mentions, events
        self.cut: dict[str, set[int]] = {}

    def token_rows(self, keys: Sequence[Hashable]) -> tuple[list[TokenRow], list[int]]:
        """Return the token ids of pairs; `cut` lists truncated texts, since truncation applies to the
        parts."""
        pairs = np.array(keys, dtype=np.int64).reshape(-1, 2)
        mentions, mention_places = np.unique(pairs[:, 0], return_inverse=True)
        events, event_places = np.unique(pairs[:, 1], return_inverse=True)
        mention_rows = self._noted(
            self._tokeniser.mentions([self._mentions[row] for row in mentions.tolist()]), mentions
        )
        event_rows = self._noted(
            self._tokeniser.events([self._events[row] for row in events.tolist()]), events
        )
        rows = [
            self._tokeniser.pair(mention_rows[mention], event_rows[event])
            for mention, event in zip(mention_places.tolist(), event_places.tolist(), strict=True)
        ]
        return rows, []

    def _noted(self, texts: TokenisedTexts, positions: Positions) -> list[TokenRow]:
        for part, places in texts.cut.items():
            self.cut.setdefault(part, set()).update(positions[places].tolist())
        return texts.rows


class PlainPairInputs(PairInputs):
    """A converter of pairs for `PlainPairTokeniser`, with segments if the model has them."""

    _tokeniser: PlainPairTokeniser

    def token_rows(self, keys: Sequence[Hashable]) -> tuple[list[TokenRow], list[int]]:
        """Return the token ids of pairs, truncated at the end of their events; see `PairInputs`."""
        rows, _ = super().token_rows(keys)
        end = len(self._tokeniser.after)
        room = self._tokeniser.max_length + 1 - end
        for place, (row, (_, event)) in enumerate(zip(rows, cast("Any", keys), strict=True)):
            if len(row) > room + end:
                rows[place] = [*row[:room], *row[len(row) - end :]]
                self.cut.setdefault("description", set()).add(event)
        return rows, []

    def length(self, row: TokenRow) -> int:
        """Number of tokens of a pair."""
        return len(row) - 1

    def tensors(self, rows: Sequence[TokenRow], device: torch.device) -> dict[str, torch.Tensor]:
        """Return `input_ids` and, if needed, `attention_mask` and `token_type_ids`, `(batch, length)`."""
        arguments = super().tensors([row[1:] for row in rows], device)
        if "token_type_ids" in self.tokenizer.model_input_names:
            starts = torch.tensor([row[:1] for row in rows], device=device)
            places = torch.arange(arguments["input_ids"].shape[1], device=device)
            arguments["token_type_ids"] = (places >= starts).long() * arguments.get("attention_mask", 1)
        return arguments


class PairScores:
    """A scorer of pairs of given mentions and events, for `rerank`.

    Args:
        events: the texts of the events, each in the language in which it is a candidate.
    """

    def __init__(
        self,
        cross_encoder: CrossEncoder,
        mentions: Mentions,
        events: Events,
        *,
        batch_size: int | Literal["auto"] = "auto",
        show_progress: bool = False,
    ) -> None:
        self._encoder = cross_encoder.encoder
        is_plain = isinstance(cross_encoder.tokeniser, PlainPairTokeniser)
        inputs_class = PlainPairInputs if is_plain else PairInputs
        self._inputs = inputs_class(cross_encoder.tokeniser, mentions, events)
        self._batch_size: int | Literal["auto"] = batch_size
        self._show_progress = show_progress

    @property
    def cut(self) -> dict[str, int]:
        """Number of truncated mentions and events so far, by part: `mention`, `heading`, `context`, `title`
        or `description`."""
        return {part: len(positions) for part, positions in sorted(self._inputs.cut.items())}

    def __call__(self, mentions: Positions, events: Positions) -> Vectors:
        """Score pairs, each distinct one once.

        Returns:
            Logits, `(pairs,)` float32.

        Raises:
            EventformersError: a mention or an event has no text, the batch size is not a positive integer,
                memory ran out, or a logit is not finite.
        """
        rows = DistinctRows(list(zip(mentions.tolist(), events.tolist(), strict=True)))
        scores = np.empty((rows.number, 1), dtype=np.float32)

        def apply(model: nn.Module, tensors: dict[str, torch.Tensor], positions: Positions) -> tuple[Vectors]:
            logits = cast("Vectors", model(**tensors).logits.float().cpu().numpy())
            rows.scatter(positions, logits, scores)
            return (logits,)

        self._encoder.pass_distinct(
            rows, self._inputs, apply, batch_size=self._batch_size, show_progress=self._show_progress
        )
        rows.copy_known(scores)
        return scores[:, 0]
