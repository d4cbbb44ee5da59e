"""Scores of pairs of mention and candidate event from a cross-encoder, which reads both as one text."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import nn
from transformers import (
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from eventformers.errors import EventformersError
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.event_inputs import DistinctRows, TextInputs, TokenRow
from eventformers.inference.encoding.vectors import Positions, Vectors
from eventformers.inference.grounding.encoding import GroundingTokeniser, PlainTokeniser, scores_pairs
from eventformers.inference.grounding.knowledge_base import EventTexts
from eventformers.loading.models import load_whole, load_with_tokenizer
from eventformers.models.grounding_tokens import EventText, MentionText, TokenisedTexts

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
