"""Scores of pairs of mention and candidate event from a cross-encoder, which reads both as one text."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, cast

import numpy as np
import torch
from torch import nn
from transformers import AutoModelForSequenceClassification, PreTrainedConfig, PreTrainedModel

from eventformers.errors import EventformersError
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.arrays import Positions, Vectors
from eventformers.inference.encoding.distinct_rows import DistinctRows
from eventformers.inference.encoding.event_inputs import TextInputs, TokenRow
from eventformers.inference.grounding.encoding import scores_pairs
from eventformers.loading.models import load_whole, load_with_tokenizer
from eventformers.models.grounding_tokens import EventText, MentionText, TokenisedTexts
from eventformers.trainers.grounding_tokenising import GroundingTokeniser


class Mentions(Protocol):
    """A sequence of mentions."""

    def __getitem__(self, position: int, /) -> MentionText: ...


class Events(Protocol):
    """A sequence of event texts, such as `EventTexts` of a knowledge base."""

    def __getitem__(self, position: int, /) -> EventText: ...


@dataclass(frozen=True)
class CrossEncoder:
    """A cross-encoder of event grounding with its tokenizer.

    Attributes:
        encoder: the model, whose output has `logits`, with its name and revision.
        tokeniser: makes tokens of mentions and events within the model's budgets.
    """

    encoder: EventEncoder
    tokeniser: GroundingTokeniser

    @property
    def learned_by_softmax(self) -> bool:
        """True if its scores are comparable only among the candidates of one mention."""
        return bool(self.encoder.model.config.linking_objective == "softmax")

    @property
    def retriever_weight(self) -> float:
        """Weight of the retrieval score that its configuration has."""
        return float(self.encoder.model.config.retriever_weight)


def load_cross_encoder(
    name_or_path: str | Path,
    *,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
) -> CrossEncoder:
    """Load a cross-encoder of event grounding.

    Args:
        name_or_path: folder or Hub id.
        device: a torch device; None uses an accelerator if there is one.
        dtype: `float32`, `bfloat16` or `float16`; None uses that of the saved weights.

    Raises:
        EventformersError: the model does not exist, its folder is incomplete, a weight is missing, or it is
            not a cross-encoder of event grounding.
        UnknownNameError: an unknown dtype.
    """

    def load_model(source: str, config: PreTrainedConfig) -> PreTrainedModel:
        if not scores_pairs(config):
            raise EventformersError(
                f"{name_or_path} is a model of the type {config.model_type}, which does not score pairs; "
                "accepted: a cross-encoder of event grounding"
            )
        return load_whole(AutoModelForSequenceClassification, source)

    loaded = load_with_tokenizer(name_or_path, load_model, device=device, dtype=dtype)
    tokeniser = GroundingTokeniser.of(loaded.tokenizer, loaded.model.config)
    return CrossEncoder(EventEncoder(**loaded._asdict()), tokeniser)


class PairInputs(TextInputs):
    """A converter of pairs of positions to token ids.

    Args:
        tokeniser: makes tokens of mentions and events.
        mentions: the mentions.
        events: the events.

    Attributes:
        cut: positions of truncated mentions and events, by part as in `TokenisedTexts`.
    """

    def __init__(self, tokeniser: GroundingTokeniser, mentions: Mentions, events: Events) -> None:
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


class PairScores:
    """A scorer of pairs of given mentions and events, for `rerank`.

    Args:
        cross_encoder: the model.
        mentions: the mentions.
        events: the texts of the events, each in the language in which it is a candidate.
        batch_size: maximum number of pairs in a batch; `auto` fills batches by their number of tokens.
        show_progress: draw a progress bar on standard error with each call.
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
        self._inputs = PairInputs(cross_encoder.tokeniser, mentions, events)
        self._batch_size: int | Literal["auto"] = batch_size
        self._show_progress = show_progress

    @property
    def cut(self) -> dict[str, int]:
        """Number of truncated mentions and events so far, by part: `mention`, `heading`, `context`, `title`
        or `description`."""
        return {part: len(positions) for part, positions in sorted(self._inputs.cut.items())}

    def __call__(self, mentions: Positions, events: Positions) -> Vectors:
        """Score pairs, each distinct one once.

        Args:
            mentions: positions of mentions, `(pairs,)`.
            events: positions of texts of events, `(pairs,)`.

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
