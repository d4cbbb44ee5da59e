"""Inputs of the heads of event grounding."""

from __future__ import annotations

import torch
from method_case import random_texts

ROWS, EVENTS, PAIRS = 6, 2, 2
EVENT_IDS = [[3, 8], [4, 1], [3, 5], [9, 2], [1, 4], [2, 3]]
"""The events that each mention comes with: its own, and a hard negative that is gold for others."""
GOLD_EVENT_IDS = [[3, 1, -1], [4, 1, 0], [3, 1, -1], [9, -1, -1], [1, -1, -1], [2, 9, 0]]
PARENT_IDS = [[1, 0], [1, 9], [0, 0], [9, 1], [0, 9], [1, 0]]
KNOWN_PARENT_IDS = [
    [[1, -1], [0, -1]],
    [[1, 9], [9, 1]],
    [[0, -1], [0, -1]],
    [[9, -1], [1, -1]],
    [[0, 1], [9, -1]],
    [[1, -1], [0, -1]],
]


def _several(number: int, length: int, vocabulary: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    ids, mask = random_texts(ROWS * number, length, vocabulary, seed=seed)
    return ids.unflatten(0, (ROWS, number)), mask.unflatten(0, (ROWS, number))


def event_grounding_inputs(vocabulary: int) -> dict[str, torch.Tensor]:
    """Inputs of every stage, each kind of text with a length of its own."""
    inputs = dict(
        zip(("input_ids", "attention_mask"), random_texts(ROWS, 9, vocabulary, seed=20), strict=True)
    )
    for number, (name, count) in enumerate((("event", EVENTS), ("parent", PAIRS), ("child", PAIRS))):
        ids, mask = _several(count, 6 + number, vocabulary, seed=21 + number)
        inputs |= {f"{name}_input_ids": ids, f"{name}_attention_mask": mask}
    return inputs | {
        "event_ids": torch.tensor(EVENT_IDS),
        "gold_event_ids": torch.tensor(GOLD_EVENT_IDS),
        "parent_ids": torch.tensor(PARENT_IDS),
        "known_parent_ids": torch.tensor(KNOWN_PARENT_IDS),
    }


def candidate_inputs(vocabulary: int) -> dict[str, torch.Tensor]:
    """Pairs for the cross-encoder: three candidates of each mention, of which two mentions have one less."""
    ids, mask = _several(3, 12, vocabulary, seed=30)
    mask[1, 2] = 0
    mask[4, 1] = 0
    labels = torch.tensor([[1, 0, 1], [0, 1, 0], [1, 0, 0], [0, 0, 0], [0, 0, 1], [1, 1, 0]])
    return {"input_ids": ids.masked_fill(mask == 0, 0), "attention_mask": mask, "labels": labels}
