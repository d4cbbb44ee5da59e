"""Linear layers with weights in the layout of oneDNN's kernels, for faster products on a CPU.

On x86, PyTorch computes float32 matrix products with MKL, whose kernels for AMD processors use half of the
vector width. oneDNN compiles kernels for the actual processor; packing converts the weights to their layout
once instead of with every product. In processor time, all-MiniLM-L6-v2 encodes distinct events 1.12 to 1.86
times as fast, depending on the processor; see docs/notes/performance.md.
"""

from __future__ import annotations

import copy
import functools
import platform

import torch
from torch import nn


class PackedLinear(nn.Linear):
    """A linear layer for inference that shares another layer's parameters and adds a packed copy.

    Args:
        linear: the layer; later changes of its weight have no effect.
    """

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear.in_features, linear.out_features, bias=linear.bias is not None, device="meta")
        self.weight, self.bias = linear.weight, linear.bias
        self.packed_weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach())

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Map `(..., in_features)` to `(..., out_features)`, without gradients."""
        return torch.ops.mkldnn._linear_pointwise(input, self.packed_weight, self.bias, "none", [], "")


def for_inference(model: nn.Module, *, pack: bool) -> nn.Module:
    """Return a model in evaluation mode: the model itself, or a copy of its structure without its parameters.

    The model keeps its mode, layers and gradients, so this can be called between two training steps. Later
    changes of a packed weight do not reach the copy, so do not keep it.

    Args:
        model: any model.
        pack: pack the weights of the linear layers where that is possible.
    """
    pack = pack and can_pack()
    if not pack and not any(module.training for module in model.modules()):
        return model
    shared = [*model.parameters(), *model.buffers()]
    duplicate = copy.deepcopy(model, {id(tensor): tensor for tensor in shared}).eval()
    if pack:
        for module in list(duplicate.modules()):
            for name, child in module.named_children():
                if type(child) is nn.Linear and _is_packable(child):
                    setattr(module, name, PackedLinear(child))
    return duplicate


@functools.cache
def can_pack() -> bool:
    """Return True if this PyTorch build packs linear weights on this processor and computes correctly.

    The two operators, which `torch.compile` emits, are not public, so a trial tests them.
    """
    if platform.machine().lower() not in ("x86_64", "amd64") or not torch.backends.mkldnn.is_available():
        return False
    linear = nn.Linear(16, 8, device="cpu", dtype=torch.float32)
    rows = torch.linspace(-1, 1, 48).view(3, 16)
    try:
        with torch.inference_mode():
            return bool(torch.allclose(PackedLinear(linear)(rows), linear(rows), atol=1e-5))
    except (AttributeError, RuntimeError, TypeError):
        return False


def _is_packable(linear: nn.Linear) -> bool:
    weight = linear.weight
    has_hooks = linear._forward_hooks or linear._forward_pre_hooks
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and not has_hooks
