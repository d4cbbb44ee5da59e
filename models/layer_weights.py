"""The matrices of linear layers that a model reads instead of calling the layers."""

import torch
from torch import nn


def weight_of(layer: nn.Module) -> torch.Tensor:
    """The matrix by which a linear layer without bias multiplies its input, `(out, in)`.

    A library that adapts, quantises or offloads a layer wraps it, and its `weight` is then only a part of
    what it computes. The image of the identity matrix is all of it.

    Args:
        layer: a linear layer, or what a library put around it.
    """
    weight = layer.weight
    if type(layer) is nn.Linear and "forward" not in vars(layer):
        return weight
    with torch.autocast(weight.device.type, enabled=False):
        identity = torch.eye(layer.in_features, dtype=weight.dtype, device=weight.device)
        return layer(identity).transpose(0, 1)
