"""Inputs of MICO's head."""

from __future__ import annotations

import torch
from method_case import random_texts

ROWS, ALTERNATIVES, DISTINCT = 6, 3, 10
ABSENT = 1000
"""Above the ids of all alternatives: fills up the known ones."""


def mico_inputs(vocabulary: int, dimension: int = 32) -> dict[str, torch.Tensor]:
    """Inputs for every view, each with a length of its own; some alternatives stand in several rows."""
    input_ids, attention_mask = random_texts(ROWS, 8, vocabulary, seed=10)
    texts, masks = random_texts(DISTINCT, 11, vocabulary, seed=11)
    outside_ids, outside_mask = random_texts(ROWS, 9, vocabulary, seed=14)
    generator = torch.Generator().manual_seed(13)
    ids = torch.randint(DISTINCT, (ROWS, ALTERNATIVES), generator=generator)
    # As wide as the longest row, which nothing fills up.
    known = torch.full((ROWS, ALTERNATIVES + 1), ABSENT)
    for row, own in enumerate(ids):
        # Beside its own, each row knows an alternative of the next row.
        found = torch.cat([own, ids[(row + 1) % ROWS, :1]]).unique()
        known[row, : len(found)] = found
    return {
        "input_ids": input_ids,
        "attention_mask": attention_mask,
        "alternative_input_ids": texts[ids],
        "alternative_attention_mask": masks[ids],
        "alternative_ids": ids,
        "known_alternative_ids": known,
        "positive_index": torch.tensor([0, 1, 2, 2, 1, 0]),
        "distillation_input_ids": outside_ids,
        "distillation_attention_mask": outside_mask,
        "distillation_vectors": torch.randn(ROWS, dimension, generator=generator),
        "distillation_mask": torch.tensor([True, False, True, True, False, True]),
        "log_frequency": torch.linspace(0.0, 3.0, ROWS * ALTERNATIVES).view(ROWS, ALTERNATIVES),
    }
