"""Gradients of a batch that is encoded in chunks, on the device, with dropout."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from training_case import MethodTrainingCase, training_case_of

from eventformers.methods import load_method, main_methods
from eventformers.trainers.arguments import EventTrainingArguments
from eventformers.trainers.base import EventTrainer
from eventformers.trainers.gradient_cache import backward_in_chunks

pytestmark = pytest.mark.cuda

CASES: dict[str, type[MethodTrainingCase]] = {
    name: training_case_of(name)
    for name, method in main_methods().items()
    if hasattr(method.head_class, "encode_views") and method.recipes.startswith("eventformers.")
}
SEED = 1
# Both ways multiply the same matrices, but add gradients of chunks up in another order.
RELATIVE, ABSOLUTE = 1e-3, 1e-5

every_chunked_method = pytest.mark.parametrize("method", CASES)


def head_on(device: str, method: str, encoder: Path) -> Any:
    torch.manual_seed(0)
    fields = CASES[method].head_fields
    return load_method(method).head_class.from_encoder(str(encoder), **fields).to(device).train()


def gradients(head: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.grad.clone() for name, value in head.named_parameters() if value.grad is not None}


def in_one_graph(head: Any, inputs: Mapping[str, torch.Tensor], size: int) -> torch.Tensor:
    """The loss of a batch whose chunks are encoded one after the other, so that they draw as in chunks."""
    of_views, of_losses = (
        {name: value for name, value in inputs.items() if name in inspect.signature(function).parameters}
        for function in (head.encode_views, head.losses_from_views)
    )
    parts = [
        head.encode_views(**{name: value[start : start + size] for name, value in of_views.items()})
        for start in range(0, len(inputs["input_ids"]), size)
    ]
    views = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    return head.losses_from_views(views, **of_losses).loss


@every_chunked_method
@pytest.mark.parametrize("size", [1, 2, 100])
def test_gradients_equal_those_of_one_batch(method: str, size: int, device: str, tiny_encoder: Path) -> None:
    """Each chunk is encoded twice and must draw the same dropout both times."""
    one, chunked = (head_on(device, method, tiny_encoder) for _ in range(2))
    inputs = {name: value.to(device) for name, value in CASES[method]().head_inputs(one).items()}
    torch.manual_seed(SEED)
    loss = one(**inputs).loss if size == 100 else in_one_graph(one, inputs, size)
    loss.backward()
    torch.manual_seed(SEED)
    output = backward_in_chunks(chunked, inputs, size, backward=lambda loss: loss.backward())
    torch.testing.assert_close(output.loss, loss.detach(), rtol=RELATIVE, atol=ABSOLUTE)
    expected, found = gradients(one), gradients(chunked)
    assert set(found) == set(expected)
    assert any(value.abs().max() > 100 * ABSOLUTE for value in expected.values())
    for name, value in found.items():
        torch.testing.assert_close(value, expected[name], rtol=RELATIVE, atol=ABSOLUTE, msg=name)


@every_chunked_method
def test_random_state_goes_on_as_after_one_encoding(method: str, device: str, tiny_encoder: Path) -> None:
    """The second encoding leaves no trace, so that later draws do not repeat earlier ones."""
    head = head_on(device, method, tiny_encoder)
    inputs = {name: value.to(device) for name, value in CASES[method]().head_inputs(head).items()}
    torch.manual_seed(SEED)
    with torch.no_grad():
        in_one_graph(head, inputs, 2)
    expected = torch.rand(4, device=device)
    torch.manual_seed(SEED)
    backward_in_chunks(head, inputs, 2, backward=lambda loss: loss.backward())
    assert torch.equal(torch.rand(4, device=device), expected)


@every_chunked_method
def test_gradients_under_a_scaler(method: str, device: str, tiny_encoder: Path, tmp_path: Path) -> None:
    """Training in float16 scales the loss of a batch in chunks as that of a whole one."""
    found = []
    for scale in (None, 1024.0):
        head = head_on(device, method, tiny_encoder)
        trainer = EventTrainer(
            model=head,
            args=EventTrainingArguments(
                output_dir=str(tmp_path),
                gradient_cache_chunk_size=2,
                use_cpu=device == "cpu",
                report_to="none",
            ),
        )
        trainer.current_gradient_accumulation_steps = 1
        if scale is not None:
            trainer.accelerator.scaler = torch.amp.GradScaler(device, init_scale=scale)
        torch.manual_seed(SEED)
        trainer.training_step(head, CASES[method]().head_inputs(head))
        found.append({name: value / (scale or 1) for name, value in gradients(head).items()})
    for name, value in found[0].items():
        torch.testing.assert_close(found[1][name], value, rtol=RELATIVE, atol=ABSOLUTE, msg=name)
