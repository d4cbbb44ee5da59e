"""Tokenisation of mentions and events for event grounding."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.utils.rnn import pad_sequence

from eventformers.errors import EventformersError
from eventformers.models.grounding_tokens import GroundingTokens, TokenRow


class GroundingTokeniser(GroundingTokens):
    """Tokeniser of mentions and events that raises `EventformersError` and pads to tensors."""

    error_class = EventformersError

    def pad(self, rows: Sequence[TokenRow]) -> dict[str, torch.Tensor]:
        """Pad rows to tensors.

        Args:
            rows: token ids of each text; an empty row is a missing candidate.

        Returns:
            `input_ids` and `attention_mask`, each `(rows, length)`.
        """
        tokens = [torch.tensor(row, dtype=torch.long) for row in rows]
        padding = self.tokenizer.pad_token_id or 0
        return {
            "input_ids": pad_sequence(tokens, batch_first=True, padding_value=padding),
            "attention_mask": pad_sequence([torch.ones_like(row) for row in tokens], batch_first=True),
        }
