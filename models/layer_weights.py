"""Weights of layers that a model reads instead of calling the layers."""

import torch
from torch import nn


def weight_of(layer: nn.Module, device: torch.device) -> torch.Tensor:
    """The matrix by which a linear layer without bias multiplies its input, `(out, in)`.

    A library that adapts, quantises or offloads a layer wraps it, and its `weight` is then only a part of
    what it computes. The image of the identity matrix is all of it.

    Args:
        layer: a linear layer, or what a library put around it.
        device: the device of its inputs; that of an offloaded weight is `meta`.
    """
    if type(layer) is nn.Linear and "forward" not in vars(layer):
        return layer.weight
    with torch.autocast(device.type, enabled=False):
        identity = torch.eye(layer.in_features, dtype=dtype_of(layer), device=device)
        return layer(identity).transpose(0, 1)


def dtype_of(layer: nn.Module) -> torch.dtype:
    """The dtype of the inputs of a linear layer: that of its weight, or float32 if it is quantised."""
    weight = layer.weight
    is_plain = isinstance(weight, torch.Tensor) and weight.is_floating_point()
    return weight.dtype if is_plain else torch.float32


class OpenGRU(nn.GRU):
    """A GRU that gives its weights when it is called without an input, so that offloaded ones are loaded."""

    def forward(self, input=None, hx=None):
        """As in the base class; without an input, the weights by name."""
        return dict(self.named_parameters()) if input is None else super().forward(input, hx)
