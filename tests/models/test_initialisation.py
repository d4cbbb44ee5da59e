"""How layers that no pretrained encoder holds start."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from eventformers.models.modeling_base import start_wide


@pytest.mark.parametrize("width", [4, 400])
def test_starts_by_the_width_of_the_input(width: int) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(width, 300)
    with torch.no_grad():
        layer.weight.fill_(5)
        layer.bias.fill_(5)
        start_wide(layer)
    for value in (layer.weight, layer.bias):
        assert value.abs().max() <= width**-0.5
        # The standard deviation of equal shares up to a bound.
        assert value.std().item() == pytest.approx((3 * width) ** -0.5, rel=0.1)


def test_what_was_loaded_stays() -> None:
    layer = nn.Linear(3, 2)
    layer.weight._is_hf_initialized = True  # type: ignore[attr-defined]
    weight, bias = layer.weight.detach().clone(), layer.bias.detach().clone()
    with torch.no_grad():
        start_wide(layer)
    assert torch.equal(layer.weight, weight)
    assert not torch.equal(layer.bias, bias)
