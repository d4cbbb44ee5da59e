"""Outputs of the models of event type induction."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from transformers.utils import ModelOutput

from .modeling_base import EventModelOutput


@dataclass
class EventTypeInductionModelOutput(EventModelOutput):
    """Output of the encoder of mentions.

    Args:
        embeddings: F, the pooled vectors, of length 1, `(batch, projection_dim)`.
        query: Q, `(batch, projection_dim)`.
        key: K, `(batch, projection_dim)`.
        found_triggers: True for the token found to be the trigger, `(batch, length)`; None unless
            `trigger_input` is `found`.
    """

    query: torch.FloatTensor | None = None
    key: torch.FloatTensor | None = None
    found_triggers: torch.BoolTensor | None = None


@dataclass
class EventTypeInductionForPreTrainingOutput(ModelOutput):
    """Output of the training head.

    Args:
        loss: weighted sum of the terms below, a scalar; None if no augmented view is given.
        pair_loss: L_c, the masked contrastive loss over the four pairs of views.
        type_name_loss: L_a against the vectors of type names, before its weight.
        frame_loss: L_a against the vectors of frame definitions, before its weight.
        trigger_loss: beyond the paper, the loss of the trigger finder, before its weight.
        embeddings: vectors of the mentions, of length 1, `(batch, projection_dim)`.
    """

    loss: torch.FloatTensor | None = None
    pair_loss: torch.FloatTensor | None = None
    type_name_loss: torch.FloatTensor | None = None
    frame_loss: torch.FloatTensor | None = None
    trigger_loss: torch.FloatTensor | None = None
    embeddings: torch.FloatTensor | None = None


class PooledMentions(NamedTuple):
    """Vectors of mentions and, if triggers are found, the intermediate results.

    Args:
        embeddings: F, `(batch, projection_dim)`.
        scores: output of `TriggerFinder`, `(batch, length, classes)`.
        token_mask: the tokens that can be the trigger, `(batch, length)`.
        found_triggers: True for the found token, `(batch, length)`.
    """

    embeddings: torch.Tensor
    scores: torch.Tensor | None
    token_mask: torch.Tensor | None
    found_triggers: torch.Tensor | None
