"""Heads and losses on a GPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from case_files import TESTS, load_test_file
from loss_case import LossCase
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


CASES: dict[str, LossCase] = {
    f"{path.stem}-{name}": case
    for path in sorted((TESTS / "models").glob("test_losses*.py"))
    for name, case in getattr(load_test_file(path), "CASES", {}).items()
}
# Both precisions get the same rounded inputs, and half precision is computed in float32: the value has the
# error of float32, which sums of a few dozen terms at temperatures of 0.3 raise from 1e-7 to 1e-6. A gradient
# is rounded to the precision of its input, which in bfloat16 is 2^-9, once for each use of the input.
TOLERANCES = {torch.float32: (1e-5, 1e-5), torch.bfloat16: (1e-5, 1e-2)}
"""Of value and gradient, relative to the largest entry."""


def evaluated(case: LossCase, tensors: Mapping[str, torch.Tensor], device: str) -> dict[str, torch.Tensor]:
    """Value and gradients of a loss on a device."""
    leaves = {name: value.to(device).requires_grad_() for name, value in tensors.items()}
    settings: dict[str, Any] = {
        name: value.to(device) if isinstance(value, torch.Tensor) else value
        for name, value in case.settings.items()
    }
    value = dataclasses.replace(case, settings=settings)(**leaves)
    if value.requires_grad:
        value.sum().backward()
    gradients = {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}
    return {"value": value.detach(), **gradients}


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_value_and_gradient(name: str, dtype: torch.dtype, device: str) -> None:
    case = CASES[name]
    rounded = {key: value.detach().to(dtype) for key, value in case.tensors.items()}
    expected = evaluated(case, {key: value.double() for key, value in rounded.items()}, "cpu")
    found = evaluated(case, rounded, device)
    assert set(found) == set(expected)
    for key, value in found.items():
        assert torch.isfinite(value).all(), key
        assert value.device.type == device, key
        tolerance = TOLERANCES[dtype][key != "value"]
        error = (value.cpu().double() - expected[key]).abs().max()
        assert error <= tolerance * max(1.0, float(expected[key].abs().max())), key
