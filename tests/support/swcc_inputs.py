"""Inputs of SWCC's head."""

from __future__ import annotations

import torch
from method_case import random_texts

ROWS, NEGATIVES = 6, 3


def swcc_inputs(vocabulary: int, size: int = 32) -> dict[str, torch.Tensor]:
    """Inputs for every view, each with a length of its own, and vectors of `size` numbers."""
    input_ids, attention_mask = random_texts(ROWS, 8, vocabulary, seed=10)
    co_event_ids, co_event_mask = random_texts(ROWS, 11, vocabulary, seed=11)
    negative_ids, negative_mask = random_texts(ROWS * NEGATIVES, 7, vocabulary, seed=12)
    paraphrase_ids, paraphrase_mask = random_texts(ROWS, 9, vocabulary, seed=13)
    positions = torch.ones(ROWS, dtype=torch.long)
    masked_ids = input_ids.clone()
    labels = masked_ids[torch.arange(ROWS), positions]
    masked_ids[torch.arange(ROWS), positions] = 4
    return {
        "input_ids": input_ids,
        "attention_mask": attention_mask,
        "co_event_input_ids": co_event_ids,
        "co_event_attention_mask": co_event_mask,
        "co_event_weight": torch.linspace(0.1, 1.0, ROWS),
        "masked_input_ids": masked_ids,
        "masked_positions": positions,
        "masked_token_ids": labels,
        "paraphrase_input_ids": paraphrase_ids,
        "paraphrase_attention_mask": paraphrase_mask,
        "negative_input_ids": negative_ids.unflatten(0, (ROWS, NEGATIVES)),
        "negative_attention_mask": negative_mask.unflatten(0, (ROWS, NEGATIVES)),
        "sentence_vectors": torch.linspace(-1, 1, ROWS * size).sin().view(ROWS, size),
    }
