"""Packed layers compute what plain ones compute, and a copy for inference leaves the model alone."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from eventformers.inference.encoding import batches
from eventformers.inference.encoding.batches import PackedLinear, can_pack, for_inference

needs_packing = pytest.mark.skipif(not can_pack(), reason="this processor or build does not pack weights")


@needs_packing
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 24), (7, 24), (3, 5, 24)])
def test_packed_layer_equals_plain_layer(bias: bool, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(24, 10, bias=bias)
    rows = torch.randn(shape)
    with torch.inference_mode():
        torch.testing.assert_close(PackedLinear(linear)(rows), linear(rows), atol=1e-6, rtol=1e-5)


@needs_packing
def test_copy_shares_parameters_and_leaves_the_model_alone() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 4)).train()
    duplicate = for_inference(model, pack=True)
    assert [type(module) for module in duplicate] == [PackedLinear, nn.Dropout, PackedLinear]  # type: ignore[attr-defined]
    assert [type(module) for module in model] == [nn.Linear, nn.Dropout, nn.Linear]
    assert model.training
    assert not duplicate.training
    shared = {parameter.data_ptr() for parameter in model.parameters()}
    assert {parameter.data_ptr() for parameter in duplicate.parameters()} == shared


def test_a_model_in_evaluation_mode_is_copied_only_to_be_packed() -> None:
    model = nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.9)).eval()
    assert for_inference(model, pack=False) is model
    model[1].train()
    duplicate = for_inference(model, pack=False)
    assert not any(module.training for module in duplicate.modules())
    assert model[1].training


def test_layers_with_hooks_or_other_types_stay_plain() -> None:
    class OwnLinear(nn.Linear):
        """A subclass may compute something else."""

    model = nn.Sequential(OwnLinear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4).bfloat16())
    model[1].register_forward_hook(lambda module, inputs, output: output + 1)
    duplicate = for_inference(model, pack=True)
    assert not any(isinstance(module, PackedLinear) for module in duplicate.modules())


def test_without_the_operators_nothing_is_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(linear: nn.Linear) -> nn.Linear:
        raise AttributeError("no such operator")

    can_pack.cache_clear()
    monkeypatch.setattr(batches, "PackedLinear", absent)
    try:
        assert not can_pack()
        assert type(for_inference(nn.Sequential(nn.Linear(2, 2)), pack=True)[0]) is nn.Linear  # type: ignore[index]
    finally:
        can_pack.cache_clear()
