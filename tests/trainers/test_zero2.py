"""A step of training by the engine of DeepSpeed, which Accelerate does not start on CPUs."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from event_grounding_inputs import candidate_inputs
from forked import run_group
from heterevent_inputs import STAGES, make_head, shared_inputs
from safetensors.torch import load_file, save_file
from training_case import training_case_of

from eventformers.methods import load_method
from eventformers.models.modeling_event_grounding_cross import EventGroundingForSequenceClassification

WORKER = Path(__file__).parents[1] / "support" / "zero2_process.py"
LEARNING_RATE = 0.1
BY_ROW = ("swcc", "mico", "event_type_induction", "event_grounding", "event_grounding_cross")

Inputs = dict[str, torch.Tensor]


def _case(name: str, encoder: Path) -> tuple[Any, Inputs, list[Inputs]]:
    """A head, its inputs and the shares of two processes."""
    if name in STAGES:
        head = make_head(encoder, stage=name, **STAGES[name][0])
        return head, *shared_inputs(name)
    if name == "event_grounding_cross":
        head = EventGroundingForSequenceClassification.from_encoder(str(encoder), head_dropout=0)
        inputs = candidate_inputs(100)
    else:
        case = training_case_of(name)
        head = load_method(name).head_class.from_encoder(str(encoder), **case.head_fields)
        inputs = case().head_inputs(head)
    half = len(inputs["input_ids"]) // 2
    return head, inputs, [{key: value[part] for key, value in inputs.items()} for part in _halves(half)]


def _halves(half: int) -> tuple[slice, slice]:
    return slice(half), slice(half, 2 * half)


@pytest.mark.timeout(300)
@pytest.mark.skipif(find_spec("deepspeed") is None, reason="DeepSpeed is not installed")
@pytest.mark.parametrize("name", [*BY_ROW, *STAGES])
def test_zero2_on_two_processes_equals_ddp_and_one_process(
    name: str, tiny_encoder_without_dropout: Path, tmp_path: Path
) -> None:
    """Loss and weights after a step of plain gradient descent: the gradient is averaged, not added up."""
    head, inputs, shares = _case(name, tiny_encoder_without_dropout)
    start = {key: value.detach().clone() for key, value in head.named_parameters()}
    head.save_pretrained(tmp_path / "head")
    for rank, share in enumerate(shares):
        contiguous = {key: value.contiguous() for key, value in share.items()}
        save_file(contiguous, tmp_path / f"share_{rank}.safetensors")
    loss = head(**inputs).loss
    loss.backward()
    torch.optim.SGD(head.parameters(), lr=LEARNING_RATE).step()
    head_class = f"{type(head).__module__}:{type(head).__name__}"
    process = run_group([str(WORKER), str(tmp_path), head_class], cwd=tmp_path)
    assert process.returncode == 0, process.stderr[-4000:]
    for engine in ("ddp", "zero2"):
        found = load_file(tmp_path / f"{engine}.safetensors")
        torch.testing.assert_close(found.pop("loss"), loss.detach(), rtol=1e-5, atol=1e-6)
        for key, value in head.named_parameters():
            step, wanted = found[key] - start[key], value.detach() - start[key]
            torch.testing.assert_close(step, wanted, rtol=1e-3, atol=1e-6, msg=f"{engine}: {key}")
