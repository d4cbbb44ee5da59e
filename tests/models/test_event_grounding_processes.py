"""Two processes with halves of a batch equal one process with all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import process_shares
import pytest
import torch
from event_grounding_inputs import ROWS, candidate_inputs, event_grounding_inputs
from forked import run_group
from safetensors.torch import load_file, save_file

from eventformers.models.modeling_event_grounding import EventGroundingForPreTraining
from eventformers.models.modeling_event_grounding_cross import EventGroundingForSequenceClassification

CASES = {
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
    "cross-encoder": (
        EventGroundingForSequenceClassification,
        candidate_inputs,
        ({"head_dropout": 0},),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_halves_of_a_batch(case: str, tiny_encoder_without_dropout: Path, tmp_path: Path) -> None:
    """Events that came with mentions of the other process; absent candidates on one process alone."""
    head_class, make_inputs, variants = CASES[case]
    heads: list[Any] = []
    for number, fields in enumerate(variants):
        torch.manual_seed(0)
        head = head_class.from_encoder(str(tiny_encoder_without_dropout), **fields)
        head.save_pretrained(tmp_path / f"head_{number}")
        heads.append(head)
    inputs = make_inputs(100)
    half = ROWS // 2
    for rank in range(2):
        share = {name: value[rank * half : (rank + 1) * half].clone() for name, value in inputs.items()}
        save_file(share, tmp_path / f"share_{rank}.safetensors")
    head_name = f"{head_class.__module__}:{head_class.__name__}"
    process = run_group([process_shares.__file__, str(tmp_path), head_name], cwd=tmp_path)
    assert process.returncode == 0, process.stderr[-4000:]
    for number, head in enumerate(heads):
        loss = head(**inputs).loss
        loss.backward()
        expected = {name: value.grad for name, value in head.named_parameters() if value.grad is not None}
        for kind in ("result", "sharded"):
            found = load_file(tmp_path / f"{kind}_{number}.safetensors")
            torch.testing.assert_close(found.pop("losses"), loss.detach().expand(2), rtol=1e-5, atol=1e-6)
            assert set(found) == set(expected)
            for name, gradient in expected.items():
                torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-5, msg=f"{kind}: {name}")
