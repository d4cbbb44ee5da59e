"""Two processes with shares of a batch equal one process with all of it, by DDP and by FSDP2."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import process_shares
import pytest
import torch
from event_grounding_inputs import ROWS, candidate_inputs, event_grounding_inputs
from forked import run_group
from heterevent_inputs import STAGES, make_head, shared_inputs
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from eventformers.models.modeling_event_grounding import EventGroundingForPreTraining
from eventformers.models.modeling_event_grounding_cross import EventGroundingForSequenceClassification

Inputs = dict[str, torch.Tensor]

GROUNDING: dict[str, tuple[Any, Any, tuple[dict[str, Any], ...]]] = {
    # Events that came with mentions of the other process.
    "bi-encoder": (
        EventGroundingForPreTraining,
        event_grounding_inputs,
        (
            {"stage": "joint", "score_scale": 0.1, "score_bias": -1.0},
            {"stage": "hierarchy"},
            {"stage": "linking", "share_towers": True, "score_scale": 0.1},
            # An event that both processes have counts once.
            {"stage": "linking", "linking_objective": "softmax", "normalise": True, "score_scale": 3.0},
        ),
    ),
    # Absent candidates on one process alone.
    "cross-encoder": (EventGroundingForSequenceClassification, candidate_inputs, ({"head_dropout": 0},)),
}


@dataclass
class Batch:
    """A batch, its shares, and the heads that train on it; `folder` holds what the processes wrote."""

    heads: list[PreTrainedModel]
    inputs: Inputs
    shares: list[Inputs]
    folder: Path


@pytest.fixture(scope="module")
def batches(tiny_encoder_without_dropout: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Batch]:
    """All batches, after one group of processes has trained on the shares of each."""
    folder, encoder = tmp_path_factory.mktemp("shares"), tiny_encoder_without_dropout
    made = {}
    # Of HeterEvent: negatives of all processes; events and words that several processes have once.
    for stage in STAGES:
        heads = [make_head(encoder, stage=stage, **fields) for fields in STAGES[stage]]
        made[stage] = Batch(heads, *shared_inputs(stage), folder / stage)
    for name, (head_class, make_inputs, variants) in GROUNDING.items():
        heads, inputs, half = [], make_inputs(100), ROWS // 2
        for fields in variants:
            torch.manual_seed(0)
            heads.append(head_class.from_encoder(str(encoder), **fields))
        shares = [{key: value[:half] for key, value in inputs.items()}]
        shares += [{key: value[half:] for key, value in inputs.items()}]
        made[name] = Batch(heads, inputs, shares, folder / name)
    for batch in made.values():
        for number, head in enumerate(batch.heads):
            head.save_pretrained(batch.folder / f"head_{number}")
        for rank, share in enumerate(batch.shares):
            share = {name: value.clone().contiguous() for name, value in share.items()}
            save_file(share, batch.folder / f"share_{rank}.safetensors")
    process = run_group([process_shares.__file__, str(folder)], cwd=folder)
    assert process.returncode == 0, process.stderr[-4000:]
    return made


@pytest.mark.parametrize("name", [*STAGES, *GROUNDING])
def test_shares_of_a_batch(name: str, batches: dict[str, Batch]) -> None:
    batch = batches[name]
    for number, head in enumerate(batch.heads):
        loss = head(**batch.inputs).loss
        loss.backward()
        expected = {key: value.grad for key, value in head.named_parameters() if value.grad is not None}
        for kind in ("result", "sharded"):
            found = load_file(batch.folder / f"{kind}_{number}.safetensors")
            losses = found.pop("losses")
            if name in STAGES and name != "supervised":
                # Chains are compared only with their own corruptions, so each process has its own loss.
                losses = losses.mean().expand(2)
            torch.testing.assert_close(losses, loss.detach().expand(2), rtol=1e-5, atol=1e-6)
            assert set(found) == set(expected)
            for key, gradient in expected.items():
                scale = max(1.0, gradient.abs().max().item()) if name in STAGES else 1.0
                torch.testing.assert_close(
                    found[key], gradient, rtol=1e-3, atol=1e-5 * scale, msg=f"{kind}: {key}"
                )
