"""Inputs of HeterEvent's heads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from method_case import random_texts

from eventformers.models.modeling_heterevent import HeterEventForPreTraining

EVENTS, LENGTH, CHAINS, WIDTH = 14, 9, 4, 5
CORRUPTED, SEGMENTS, VIEWS, CHOICES = 3, 2, 3, 4
CHAIN_LENGTHS = (5, 3, 4, 2)
SMALL: dict[str, Any] = {"event_dim": 6, "chain_dim": 10, "num_graph_layers": 2, "composition_rank": 3}
EVENT_NAMES = ("input_ids", "attention_mask", "role_masks", "word_index")


def random_chains(*shape: int, lengths: torch.Tensor, seed: int) -> torch.Tensor:
    """Chains of distinct events, `(*shape, WIDTH)`, of lengths that go over `shape`; -1 fills up."""
    generator = torch.Generator().manual_seed(seed)
    chains = torch.rand(*shape, EVENTS, generator=generator).argsort(dim=-1)[..., :WIDTH]
    return chains.masked_fill(torch.arange(WIDTH) >= lengths.unsqueeze(-1), -1)


def event_inputs(vocabulary: int) -> dict[str, torch.Tensor]:
    """Distinct events with roles and words: some lack a role, one has no word, words stand in several."""
    input_ids, attention_mask = random_texts(EVENTS, LENGTH, vocabulary, seed=20)
    generator = torch.Generator().manual_seed(21)
    content = (torch.arange(LENGTH) > 0) & (
        torch.arange(LENGTH) < attention_mask.sum(dim=1, keepdim=True) - 1
    )
    # Subject, predicate, object, or none.
    role = torch.randint(4, (EVENTS, LENGTH), generator=generator)
    role_masks = (role.unsqueeze(1) == torch.arange(3).unsqueeze(-1)) & content.unsqueeze(1)
    word_index = torch.randint(-1, 12, (EVENTS, LENGTH), generator=generator).masked_fill(~content, -1)
    role_masks[1], word_index[1] = False, -1
    return {
        "input_ids": input_ids,
        "attention_mask": attention_mask,
        "role_masks": role_masks,
        "word_index": word_index,
    }


def heterevent_inputs(vocabulary: int) -> dict[str, torch.Tensor]:
    """Inputs for every stage; chains have different lengths, and some corruptions are not there."""
    lengths = torch.tensor(CHAIN_LENGTHS)
    chains = random_chains(CHAINS, lengths=lengths, seed=22)
    shorter = (lengths - 1).unsqueeze(1).expand(-1, SEGMENTS)
    order = random_chains(CHAINS, CORRUPTED, lengths=lengths.unsqueeze(1), seed=23)
    segments = random_chains(CHAINS, SEGMENTS, lengths=shorter, seed=24)
    order[3, 1:], segments[3] = -1, -1
    corrupted_segments = random_chains(CHAINS, SEGMENTS, CORRUPTED, lengths=shorter.unsqueeze(-1), seed=25)
    corrupted_segments[3], corrupted_segments[2, 1, 0] = -1, -1
    generator = torch.Generator().manual_seed(26)
    outside = [
        next(event for event in torch.randperm(EVENTS, generator=generator).tolist() if event not in chain)
        for chain in chains.tolist()
    ]
    keys = torch.randperm(1000, generator=generator)
    return {
        **event_inputs(vocabulary),
        "chains": chains,
        "order_corrupted": order,
        "replacement_corrupted": random_chains(CHAINS, CORRUPTED, lengths=lengths.unsqueeze(1), seed=27),
        "segments": segments,
        "corrupted_segments": corrupted_segments,
        "view_seeds": torch.randint(2**62, (CHAINS, VIEWS), generator=generator),
        "target_events": torch.tensor(outside),
        # At the front, within, and at the end.
        "target_position": torch.tensor([0, 1, 4, 2]),
        "event_keys": keys[:EVENTS],
        "word_keys": keys[-12:],
    }


def make_head(encoder: Path, **fields: Any) -> HeterEventForPreTraining:
    """A small head without dropout, of weights far from their start."""
    torch.manual_seed(0)
    head = HeterEventForPreTraining.from_encoder(str(encoder), **{**SMALL, "event_dropout": 0.0, **fields})
    # Otherwise every term would be near what equal similarities give.
    with torch.no_grad():
        for name, parameter in head.named_parameters():
            if ".encoder." not in name:
                parameter.mul_(1.5)
    return head


STAGES = {
    "sequence": ({"composition_anchor": "rest"}, {"event_skip": True}),
    "graph": ({"event_skip": True, "gate_bias": -1.0, "edge_type_bias": True}, {"value_projection": True}),
    "supervised": ({"predict_from": "mean"}, {"predict_from": "neighbours"}),
}
"""Fields of the heads of each stage, for two heads."""
OF_EVENTS = {
    "sequence": ("chains", "order_corrupted", "replacement_corrupted", "segments", "corrupted_segments"),
    "graph": ("chains",),
    "supervised": ("chains", "target_events"),
}
"""Inputs of each stage that are rows of events, for each chain."""
OF_CHAINS = {"sequence": (), "graph": ("view_seeds",), "supervised": ("target_position",)}
"""Its other inputs for each chain."""


def _share(
    inputs: dict[str, torch.Tensor], stage: str, chains: list[int], others: list[int]
) -> dict[str, torch.Tensor]:
    """Some chains with their events, and other events, all with numbers of their own."""
    rows = {name: inputs[name][chains] for name in OF_EVENTS[stage]}
    used = {event for value in rows.values() for event in value.flatten().tolist()}
    events = sorted((used | set(others)) - {-1}, reverse=True)
    place = torch.full((EVENTS + 1,), -1)
    place[events] = torch.arange(len(events))
    numbers = torch.randperm(len(inputs["word_keys"]), generator=torch.Generator().manual_seed(len(events)))
    words = inputs["word_index"][events]
    word_keys = torch.empty_like(inputs["word_keys"])
    word_keys[numbers] = inputs["word_keys"]
    return {
        **{name: inputs[name][events] for name in EVENT_NAMES},
        "word_index": torch.where(words >= 0, numbers[words], words),
        # -1 looks at the last place, which stays -1.
        **{name: place[value] for name, value in rows.items()},
        **{name: inputs[name][chains] for name in OF_CHAINS[stage]},
        "event_keys": inputs["event_keys"][events],
        "word_keys": word_keys,
    }


def shared_inputs(stage: str) -> tuple[dict[str, torch.Tensor], list[dict[str, torch.Tensor]]]:
    """Inputs of a stage, and the shares of two processes, which have some events and words in common."""
    inputs = heterevent_inputs(100)
    # A word has the same tokens wherever it stands.
    words = inputs["word_index"]
    inputs["input_ids"] = torch.where(words >= 0, words + 20, inputs["input_ids"])
    shares = [
        _share(inputs, stage, [0, 1], [0, 1, 2]),
        _share(inputs, stage, [2, 3], list(range(2, EVENTS))),
    ]
    sizes = [len(share["input_ids"]) for share in shares]
    # In the sequence stage, the corruptions of two chains have all events.
    assert stage == "sequence" or sizes[0] != sizes[1]
    assert sum(sizes) > EVENTS
    keys = torch.cat([share["event_keys"] for share in shares])
    assert set(keys.tolist()) == set(inputs["event_keys"].tolist())
    return inputs, shares
