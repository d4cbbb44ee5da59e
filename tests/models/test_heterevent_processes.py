"""Two processes with shares of a batch equal one process with all of it."""

from __future__ import annotations

from pathlib import Path

import process_shares
import pytest
import torch
from forked import run_group
from heterevent_inputs import EVENT_NAMES, EVENTS, heterevent_inputs, make_head
from safetensors.torch import load_file, save_file

HEAD = "eventformers.models.modeling_heterevent:HeterEventForPreTraining"
STAGES = {
    "sequence": ({"composition_anchor": "rest"}, {"event_skip": True}),
    "graph": ({"event_skip": True, "gate_bias": -1.0, "edge_type_bias": True}, {"share_layers": True}),
    "supervised": ({"predict_from": "mean"}, {"predict_from": "neighbours"}),
}
"""Fields of the heads of each stage."""
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


@pytest.mark.parametrize("stage", STAGES)
def test_shares_of_a_batch(stage: str, tiny_encoder_without_dropout: Path, tmp_path: Path) -> None:
    """With DDP and FSDP2; negatives of all processes, events and words that several processes have once."""
    heads = [make_head(tiny_encoder_without_dropout, stage=stage, **fields) for fields in STAGES[stage]]
    for number, head in enumerate(heads):
        head.save_pretrained(tmp_path / f"head_{number}")
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
    for rank, share in enumerate(shares):
        contiguous = {name: value.contiguous() for name, value in share.items()}
        save_file(contiguous, tmp_path / f"share_{rank}.safetensors")
    process = run_group([process_shares.__file__, str(tmp_path), HEAD], cwd=tmp_path)
    assert process.returncode == 0, process.stderr[-4000:]

    for number, head in enumerate(heads):
        loss = head(**inputs).loss
        loss.backward()
        expected = {name: value.grad for name, value in head.named_parameters() if value.grad is not None}
        for kind in ("result", "sharded"):
            found = load_file(tmp_path / f"{kind}_{number}.safetensors")
            losses = found.pop("losses")
            if stage != "supervised":
                # Chains are compared only with their own corruptions, so each process has its own loss.
                losses = losses.mean().expand(2)
            torch.testing.assert_close(losses, loss.detach().expand(2), rtol=1e-5, atol=1e-6)
            assert set(found) == set(expected)
            for name, gradient in expected.items():
                torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-5, msg=f"{kind}: {name}")
