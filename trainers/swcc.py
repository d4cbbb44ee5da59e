"""Training of SWCC: from co-occurring events to the views of its head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from eventformers.datasets_scripts.cooccurrence import normalise_frequencies
from eventformers.datasets_scripts.events import event_text


@dataclass
class SwccCollator:
    """Turns rows of co-occurring events into the views of `SwccForPreTraining`.

    What is drawn for a row depends on the seed, the epoch and the row alone, so that a resumed run and a run
    on another number of processes draw the same.

    Args:
        tokenizer: the encoder's tokenizer.
        event_order: order of the roles in an event's text.
        frequency_normalization: how frequencies become weights (`SwccConfig`).
        frequency_minimum: smallest pair frequency of the data.
        frequency_maximum: largest pair frequency of the data.
        seed: seed of every draw.
        max_seq_length: tokens of an event beyond this are cut, and counted in `truncated`.
        mask_tokens: also give the view with one masked token.
        epoch: the epoch that runs.
        truncated: number of texts cut so far.
    """

    tokenizer: PreTrainedTokenizerBase
    event_order: str
    frequency_normalization: str
    frequency_minimum: int
    frequency_maximum: int
    seed: int
    max_seq_length: int = 32
    mask_tokens: bool = True
    epoch: int = 0
    truncated: int = field(default=0, init=False)

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Collate rows with the columns `row`, `event`, `co_events`, `frequencies`."""
        generators = [np.random.default_rng((self.seed, self.epoch, row["row"])) for row in rows]
        drawn = [
            int(generator.integers(len(row["co_events"])))
            for generator, row in zip(generators, rows, strict=True)
        ]
        anchors = self.encode([row["event"] for row in rows])
        co_events = self.encode([row["co_events"][index] for index, row in zip(drawn, rows, strict=True)])
        frequencies = np.array([row["frequencies"][index] for index, row in zip(drawn, rows, strict=True)])
        weights = normalise_frequencies(
            frequencies, self.frequency_minimum, self.frequency_maximum, self.frequency_normalization
        )
        batch = {
            "input_ids": anchors["input_ids"],
            "attention_mask": anchors["attention_mask"],
            "co_event_input_ids": co_events["input_ids"],
            "co_event_attention_mask": co_events["attention_mask"],
            "co_event_weight": torch.as_tensor(weights, dtype=torch.float32),
        }
        if self.mask_tokens:
            batch.update(self._mask(anchors, generators))
        return batch

    def encode(self, events: Sequence[Mapping[str, str]]) -> dict[str, torch.Tensor]:
        """Tokenise events to tensors of equal width; what is cut is counted."""
        texts = [event_text(event, self.event_order) for event in events]
        encoded = self.tokenizer(
            texts,
            padding=True,
            truncation=True,
            max_length=self.max_seq_length,
            return_special_tokens_mask=True,
            return_tensors="pt",
        )
        self.truncated += sum(bool(encoding.overflowing) for encoding in encoded.encodings or ())
        return encoded

    def _mask(
        self, anchors: Mapping[str, torch.Tensor], generators: Sequence[np.random.Generator]
    ) -> dict[str, torch.Tensor]:
        """Mask one token of each event, drawn uniformly from those that are not special (section 3.3)."""
        maskable = (anchors["special_tokens_mask"] == 0) & (anchors["attention_mask"] == 1)
        positions = torch.tensor(
            [
                int(generator.choice(np.flatnonzero(row)))
                for generator, row in zip(generators, maskable.numpy(), strict=True)
            ]
        )
        everywhere = torch.arange(len(positions))
        masked = anchors["input_ids"].clone()
        labels = masked[everywhere, positions]
        masked[everywhere, positions] = self.tokenizer.mask_token_id
        return {"masked_input_ids": masked, "masked_positions": positions, "masked_labels": labels}
