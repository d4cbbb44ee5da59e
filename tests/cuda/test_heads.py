"""Forward and backward of every head on the device against double precision on the processor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from method_case import case_of
from transformers import PreTrainedModel

from eventformers.methods import built_in_methods

pytestmark = pytest.mark.cuda


def variants_with_every_term(method: str) -> list[str]:
    """`everything`, and others with the loss terms of stages that it leaves out."""
    chosen: list[str] = []
    covered: set[str] = set()
    for name, variant in sorted(case_of(method).variants.items(), key=lambda item: item[0] != "everything"):
        if not covered.issuperset(variant.terms):
            chosen.append(name)
            covered.update(variant.terms)
    return chosen


VARIANTS = [
    (method.name, variant)
    for method in built_in_methods()
    for variant in variants_with_every_term(method.name)
]
# An encoder of two layers and a loss are some dozen sums, of a relative error near 1e-7 each. On a processor
# losses are 5e-7 off and gradients 1.3e-6, relative to the largest one; other kernels add up in other orders.
LOSS_TOLERANCE, GRADIENT_TOLERANCE = 1e-5, 2e-5
# Autocast rounds the inputs of every product to 2^-9, and temperatures of 0.1 multiply that. On a processor
# losses are 0.006 off, and the cosine of the gradients is 0.997.
AUTOCAST_LOSS_TOLERANCE, AUTOCAST_COSINE = 0.02, 0.99

all_variants = pytest.mark.parametrize(("method", "variant"), VARIANTS, ids=map("-".join, VARIANTS))


def head_of(method: str, variant: str, encoder: Path) -> PreTrainedModel:
    """The head of a variant without dropout, of the same weights each time."""
    torch.manual_seed(0)
    case = case_of(method)
    return case.head_class.from_encoder(str(encoder), **case.variants[variant].fields)


def outcome(
    head: PreTrainedModel,
    inputs: Mapping[str, torch.Tensor],
    device: str,
    dtype: torch.dtype,
    *,
    autocast: bool = False,
) -> dict[str, torch.Tensor]:
    """The loss terms and the gradient of each parameter, in double precision on the processor."""
    placed = {
        name: value.to(device, dtype if value.is_floating_point() else value.dtype)
        for name, value in inputs.items()
    }
    head = head.to(device=device, dtype=dtype).eval()
    with torch.autocast(device, dtype=torch.bfloat16, enabled=autocast):
        output = head(**placed)
    output.loss.backward()
    found = {name: value.detach() for name, value in output.items() if name.endswith("loss")}
    for name, parameter in head.named_parameters():
        if parameter.grad is not None:
            found[f"gradient of {name}"] = parameter.grad
    assert {value.device.type for value in found.values()} == {device}
    return {name: value.double().cpu() for name, value in found.items()}


@all_variants
def test_float32(method: str, variant: str, device: str, tiny_encoder_without_dropout: Path) -> None:
    head, exact = (head_of(method, variant, tiny_encoder_without_dropout) for _ in range(2))
    inputs = case_of(method)().head_inputs(head)
    expected = outcome(exact, inputs, "cpu", torch.float64)
    found = outcome(head, inputs, device, torch.float32)
    assert set(found) == set(expected)
    largest = max(float(value.abs().max()) for name, value in expected.items() if "gradient" in name)
    for name, value in found.items():
        if "gradient" in name:
            error = (value - expected[name]).abs().max()
            assert error <= GRADIENT_TOLERANCE * largest, f"{name}: {error}"
        else:
            torch.testing.assert_close(
                value, expected[name], rtol=LOSS_TOLERANCE, atol=LOSS_TOLERANCE, msg=name
            )


@all_variants
def test_autocast(method: str, variant: str, device: str, tiny_encoder_without_dropout: Path) -> None:
    head, exact = (head_of(method, variant, tiny_encoder_without_dropout) for _ in range(2))
    inputs = case_of(method)().head_inputs(head)
    expected = outcome(exact, inputs, "cpu", torch.float64)
    found = outcome(head, inputs, device, torch.float32, autocast=True)
    assert set(found) == set(expected)
    assert all(torch.isfinite(value).all() for value in found.values())
    for name, value in found.items():
        if "gradient" not in name:
            torch.testing.assert_close(
                value, expected[name], rtol=AUTOCAST_LOSS_TOLERANCE, atol=AUTOCAST_LOSS_TOLERANCE, msg=name
            )
    whole = [
        torch.cat([value.flatten() for name, value in part.items() if "gradient" in name])
        for part in (found, {name: expected[name] for name in found})
    ]
    assert torch.cosine_similarity(*whole, dim=0) > AUTOCAST_COSINE
