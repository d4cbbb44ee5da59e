"""Average of an encoder's weights before and after training."""

from __future__ import annotations

import torch
from torch import nn


class StartWeights:
    """The weights that an encoder starts from, kept for the average at the end (Wortsman et al., 2022).

    A model between its start and its end often keeps what the start knew of other tasks and most of what was
    learned.

    Args:
        encoder: the encoder, or several as one module, before the training.
    """

    def __init__(self, encoder: nn.Module) -> None:
        self._weights = {
            name: parameter.detach().cpu().clone() for name, parameter in encoder.named_parameters()
        }

    @torch.no_grad()
    def average_into(self, encoder: nn.Module, share: float) -> None:
        """Move the trained weights towards the start.

        Args:
            encoder: the same, after the training.
            share: share of the start, from 0 to 1.
        """
        for name, parameter in encoder.named_parameters():
            start = self._weights[name].to(parameter.device, parameter.dtype)
            parameter.lerp_(start, share)
