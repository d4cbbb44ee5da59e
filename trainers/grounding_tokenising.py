"""Mentions and events to tensors, as the towers of event grounding read them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.utils.rnn import pad_sequence

from eventformers.errors import EventformersError
from eventformers.models.grounding_tokens import GroundingTokens, TokenRow


class GroundingTokeniser(GroundingTokens):
    """The tokens of mentions and events, whose errors a user can mend, and their tensors."""

    error_class = EventformersError

    def pad(self, rows: Sequence[TokenRow]) -> dict[str, torch.Tensor]:
        """Fill up rows to tensors.

        Args:
            rows: token ids of each text; a row without any is a candidate that is none.

        Returns:
            `input_ids` and `attention_mask`, each `(rows, length)`.
        """
        tokens = [torch.tensor(row, dtype=torch.long) for row in rows]
        padding = self.tokenizer.pad_token_id or 0
        return {
            "input_ids": pad_sequence(tokens, batch_first=True, padding_value=padding),
            "attention_mask": pad_sequence([torch.ones_like(row) for row in tokens], batch_first=True),
        }
