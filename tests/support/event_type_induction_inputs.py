"""Inputs of the head of event type induction."""

from __future__ import annotations

import torch
from method_case import random_texts

TYPES = (0, 1, -1, 0, -1, 1)
ROWS = len(TYPES)


def event_type_induction_inputs(vocabulary: int, hidden_size: int) -> dict[str, torch.Tensor]:
    """Inputs for every view, each with a length of its own; the third mention has no trigger."""
    input_ids, attention_mask = random_texts(ROWS, 8, vocabulary, seed=10)
    augmented_ids, augmented_mask = random_texts(ROWS, 11, vocabulary, seed=11)
    trigger_mask = torch.zeros_like(attention_mask, dtype=torch.bool)
    trigger_mask[:, 1:3] = attention_mask[:, 1:3].bool()
    trigger_mask[2] = False
    augmented_trigger_mask = torch.zeros_like(augmented_mask, dtype=torch.bool)
    augmented_trigger_mask[:, 1] = True
    generator = torch.Generator().manual_seed(12)
    types = torch.tensor(TYPES)
    # The types of the mentions, where each has a sentence of its own; the third mentions two.
    sentence_types = torch.nn.functional.one_hot(torch.where(types < 0, 2, types), 3).bool()
    sentence_types[2, 0] = True
    example_ids, example_mask = random_texts(ROWS, 7, vocabulary, seed=13)
    definition_ids, definition_mask = random_texts(ROWS, 12, vocabulary, seed=14)
    names, frames = torch.randn(2, 2, hidden_size, generator=generator)
    return {
        "input_ids": input_ids,
        "attention_mask": attention_mask,
        "trigger_mask": trigger_mask,
        "augmented_input_ids": augmented_ids,
        "augmented_attention_mask": augmented_mask,
        "augmented_trigger_mask": augmented_trigger_mask,
        "type_ids": types,
        "type_name_vectors": names[types.clamp(min=0)],
        "frame_vectors": frames[types.clamp(min=0)],
        "sentence_types": sentence_types,
        "example_input_ids": example_ids,
        "example_attention_mask": example_mask,
        "definition_input_ids": definition_ids,
        "definition_attention_mask": definition_mask,
        "frame_ids": torch.tensor([4, 2, 4, 0, 1, 2]),
    }
