"""A step of training by the engine of DeepSpeed, which Accelerate does not start on CPUs."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from forked import run_group
from safetensors.torch import load_file, save_file
from training_case import training_case_of

from eventformers.methods import load_method

WORKER = Path(__file__).parents[1] / "support" / "zero2_process.py"
LEARNING_RATE = 0.1


@pytest.mark.timeout(300)
@pytest.mark.skipif(find_spec("deepspeed") is None, reason="DeepSpeed is not installed")
@pytest.mark.parametrize("method", ["swcc", "mico"])
def test_zero2_on_two_processes_equals_ddp_and_one_process(
    method: str, tiny_encoder_without_dropout: Path, tmp_path: Path
) -> None:
    """Loss and weights after a step of plain gradient descent: the gradient is averaged, not added up."""
    case = training_case_of(method)
    head = load_method(method).head_class.from_encoder(str(tiny_encoder_without_dropout), **case.head_fields)
    start = {name: value.detach().clone() for name, value in head.named_parameters()}
    head.save_pretrained(tmp_path / "head")
    inputs = case().head_inputs(head)
    save_file({name: value.contiguous() for name, value in inputs.items()}, tmp_path / "inputs.safetensors")
    (tmp_path / "request.json").write_text(json.dumps({"method": method}), encoding="utf-8")
    loss = head(**inputs).loss
    loss.backward()
    torch.optim.SGD(head.parameters(), lr=LEARNING_RATE).step()
    process = run_group([str(WORKER), str(tmp_path)], cwd=tmp_path)
    assert process.returncode == 0, process.stderr[-4000:]
    for engine in ("ddp", "zero2"):
        found = load_file(tmp_path / f"{engine}.safetensors")
        torch.testing.assert_close(found.pop("loss"), loss.detach(), rtol=1e-5, atol=1e-6)
        for name, value in head.named_parameters():
            step, wanted = found[name] - start[name], value.detach() - start[name]
            torch.testing.assert_close(step, wanted, rtol=1e-3, atol=1e-6, msg=f"{engine}: {name}")
