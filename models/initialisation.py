"""Initialisation of layers that no pretrained encoder has."""

import math

from torch import nn
from transformers import initialization as init


def start_wide(layer: nn.Linear) -> None:
    """Initialise a linear layer as PyTorch does by default, with a scale that depends on its input size.

    Call it from `_init_weights`, which keeps loaded weights. The small initial weights of encoders would make
    the output of a small layer vanish.

    Args:
        layer: a linear layer.
    """
    bound = 1 / math.sqrt(layer.in_features)
    init.uniform_(layer.weight, -bound, bound)
    if layer.bias is not None:
        init.uniform_(layer.bias, -bound, bound)
