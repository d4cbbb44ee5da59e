"""How layers that no pretrained encoder holds start."""

import math

from torch import nn
from transformers import initialization as init


def start_wide(layer: nn.Linear) -> None:
    """Start a linear layer as those of PyTorch do, by the width of its input.

    For `_init_weights`: what was loaded stays. The small weights that encoders start with would make vectors
    of few entries all but vanish.

    Args:
        layer: a linear layer.
    """
    bound = 1 / math.sqrt(layer.in_features)
    init.uniform_(layer.weight, -bound, bound)
    if layer.bias is not None:
        init.uniform_(layer.bias, -bound, bound)
