"""Every loss on the device against double precision on the processor."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from case_files import TESTS, load_test_file
from loss_case import LossCase

pytestmark = pytest.mark.cuda

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
