"""Average of an encoder's weights before and after training, or their extrapolation."""

from __future__ import annotations

import torch
from torch import nn


class StartWeights:
    """Copy of an encoder's initial weights, for averaging after training (Wortsman et al., 2022).

    An averaged model often keeps both the initial model's performance on other tasks and most of the gain.
    A negative share extrapolates: it scales the change of the weights beyond 1, as task arithmetic scales a
    task vector (Ilharco et al., 2023).

    Args:
        encoder: the encoder before training, or several as one module.
    """

    def __init__(self, encoder: nn.Module) -> None:
        self._weights = {
            name: parameter.detach().cpu().clone() for name, parameter in encoder.named_parameters()
        }

    @torch.no_grad()
    def average_into(self, encoder: nn.Module, share: float) -> None:
        """Average the trained weights with the initial ones, in place.

        Args:
            encoder: the same encoder after training.
            share: share of the initial weights, at most 1; below 0, the change of the weights is scaled by
                1 - share.
        """
        for name, parameter in encoder.named_parameters():
            start = self._weights[name].to(parameter.device, parameter.dtype)
            parameter.lerp_(start, share)
