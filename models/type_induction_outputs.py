"""What the models of event type induction return."""

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
        found_triggers: true for the token that was found to be the trigger, `(batch, length)`; None where
            `trigger_input` is not `found`.
    """

    query: torch.FloatTensor | None = None
    key: torch.FloatTensor | None = None
    found_triggers: torch.BoolTensor | None = None


@dataclass
class EventTypeInductionForPreTrainingOutput(ModelOutput):
    """Output of the training head.

    Args:
        loss: weighted sum of the terms below, a scalar; None where no augmented view is given.
        pair_loss: L_c, the masked contrastive loss over the four pairs of views.
        type_name_loss: L_a against the vectors of type names, before its weight.
        frame_loss: L_a against the vectors of frame definitions, before its weight.
        trigger_loss: beyond the paper, that of finding triggers, before its weight.
        embeddings: vectors of the mentions, of length 1, `(batch, projection_dim)`.
    """

    loss: torch.FloatTensor | None = None
    pair_loss: torch.FloatTensor | None = None
    type_name_loss: torch.FloatTensor | None = None
    frame_loss: torch.FloatTensor | None = None
    trigger_loss: torch.FloatTensor | None = None
    embeddings: torch.FloatTensor | None = None


class PooledMentions(NamedTuple):
    """Vectors of mentions, and where triggers are found what was seen on the way.

    Args:
        embeddings: F, `(batch, projection_dim)`.
        scores: what `TriggerFinder` gives, `(batch, length, classes)`.
        token_mask: the tokens that a trigger was sought among, `(batch, length)`.
        found_triggers: true for the token that was found, `(batch, length)`.
    """

    embeddings: torch.Tensor
    scores: torch.Tensor | None
    token_mask: torch.Tensor | None
    found_triggers: torch.Tensor | None
