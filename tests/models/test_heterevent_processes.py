"""Two processes with shares of a batch equal one process with all of it."""

from __future__ import annotations

from pathlib import Path

import process_shares
import pytest
import torch
from forked import run_group
from heterevent_inputs import STAGES, make_head, shared_inputs
from safetensors.torch import load_file, save_file

HEAD = "eventformers.models.modeling_heterevent:HeterEventForPreTraining"


@pytest.mark.parametrize("stage", STAGES)
def test_shares_of_a_batch(stage: str, tiny_encoder_without_dropout: Path, tmp_path: Path) -> None:
    """With DDP and FSDP2; negatives of all processes, events and words that several processes have once."""
    heads = [make_head(tiny_encoder_without_dropout, stage=stage, **fields) for fields in STAGES[stage]]
    for number, head in enumerate(heads):
        head.save_pretrained(tmp_path / f"head_{number}")
    inputs, shares = shared_inputs(stage)
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
                tolerance = 1e-5 * max(1.0, gradient.abs().max().item())
                torch.testing.assert_close(
                    found[name], gradient, rtol=1e-3, atol=tolerance, msg=f"{kind}: {name}"
                )
