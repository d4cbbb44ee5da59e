"""The cross-encoder of hierarchical event grounding (Ou et al., 2023)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn
from transformers.utils import ModelOutput, can_return_tuple

from .configuration_event_grounding import EventGroundingCrossConfig
from .distributed import gather_rows
from .grounding_losses import candidate_contrast, candidate_loss
from .modeling_base import EventEncoderModel, EventPreTrainedModel, layers_of, start_wide

if TYPE_CHECKING:
    # Imported so that saving and loading include their code.
    from .pipeline_event_grounding import EventGroundingPipeline  # noqa: F401
    from .processing_event_grounding import EventGroundingProcessor  # noqa: F401


@dataclass
class EventGroundingCrossOutput(ModelOutput):
    """Output of the cross-encoder.

    Args:
        loss: the loss of the candidates, by `linking_objective`, a scalar; None without labels.
        logits: score of each candidate, `(batch, candidates)`, in float32. Its sigmoid is the probability;
            with `linking_objective` `softmax`, its softmax over the candidates of a mention is. Minus
            infinity where a mention has fewer candidates.
        candidate_loss: the same as `loss`, under the name of its term (section 5.1).
        embeddings: pooled vectors of the pairs, not normalised: `(batch, projection_dim)`, or
            `(batch, candidates, projection_dim)` where each mention has several.
        hidden_states: token vectors of every layer of the encoder for the pairs, if requested.
        attentions: attention weights of every layer, if requested.
    """

    loss: torch.FloatTensor | None = None
    logits: torch.FloatTensor | None = None
    candidate_loss: torch.FloatTensor | None = None
    embeddings: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


class PredictionHead(nn.Module):
    """The head that turns the pooled vector of a pair into its score (section 5.1).

    The paper only names a head; the released code of the work it follows has a hidden layer of this shape.
    """

    def __init__(self, dimension: int, dropout: float, bias: bool):
        super().__init__()
        self.hidden = nn.Linear(dimension, dimension)
        self.dropout = nn.Dropout(dropout)
        self.score = nn.Linear(dimension, 1, bias=bias)

    def forward(self, pooled: torch.Tensor) -> torch.Tensor:
        """Score pairs, `(..., d)` to `(...)`."""
        return self.score(self.dropout(self.hidden(pooled).tanh())).squeeze(-1)


class EventGroundingCrossPreTrainedModel(EventPreTrainedModel):
    """Base class of the models of the cross-encoder."""

    config: EventGroundingCrossConfig
    base_model_prefix = "event_grounding_cross"

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, PredictionHead):
            start_wide(module.score)
            start_wide(module.hidden)


class EventGroundingCrossModel(EventEncoderModel, EventGroundingCrossPreTrainedModel):
    """Encoder of mentions and candidate events, each pair as one text."""

    config: EventGroundingCrossConfig
    # These weights belong to the head. Any other unused weight is still reported.
    _keys_to_ignore_on_load_unexpected = (r"^prediction_head\.",)


class EventGroundingForSequenceClassification(EventGroundingCrossPreTrainedModel):
    """Cross-encoder that scores the candidate events of mentions, of which several may be gold."""

    def __init__(self, config, encoder=None):
        super().__init__(config)
        self.event_grounding_cross = EventGroundingCrossModel(config, encoder=encoder)
        # A bias shared by all scores does not change a softmax.
        with_bias = config.linking_objective != "softmax"
        self.prediction_head = PredictionHead(config.projection_dim, config.head_dropout, with_bias)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        **kwargs,
    ) -> EventGroundingCrossOutput:
        """Score pairs of a mention and a candidate event.

        Args:
            input_ids: one pair per row, `(B, L)`, or C candidates of each mention, `(B, C, L)`.
            attention_mask: of the same shape; None if nothing is padded. A row of padding only is a missing
                candidate: its logit is minus infinity, and no loss uses it.
            labels: 1 or true for a gold candidate, `(B,)` or `(B, C)`.
            token_type_ids: `(B, L)`, for encoders with segments; not used with `(B, C, L)`.
            inputs_embeds: token embeddings instead of ids, `(B, L, hidden_size)`.
            **kwargs: `output_hidden_states`, `output_attentions` and `return_dict`; others are passed to the
                encoder if each row is one pair.

        Returns:
            `EventGroundingCrossOutput`.

        Raises:
            ValueError: labels are given for single pairs, but `linking_objective` compares a mention's
                candidates.
        """
        model = self.event_grounding_cross
        is_single = input_ids is None or input_ids.dim() == 2
        if labels is not None and is_single and self.config.linking_objective == "softmax":
            shape = None if input_ids is None else tuple(input_ids.shape)
            raise ValueError(
                "linking_objective is 'softmax', which learns from several candidates of a mention together; "
                f"input_ids has the shape {shape}; accepted: (batch, candidates, length)"
            )
        if is_single:
            output = model(
                input_ids, attention_mask, token_type_ids, inputs_embeds, **{**kwargs, "return_dict": True}
            )
            embeddings, layers = output.embeddings, layers_of(output)
            logits = self.prediction_head(embeddings).float().unsqueeze(1)
            present = torch.ones_like(logits, dtype=torch.bool)
        else:
            if attention_mask is None:
                attention_mask = torch.ones_like(input_ids)
            present = attention_mask.any(dim=-1)
            # Attention over padding only would give NaN.
            readable = attention_mask.masked_fill(~present.unsqueeze(-1), 1)
            with model.keeping_layers(input_ids, inputs_embeds=inputs_embeds, **kwargs) as layers:
                [embeddings] = model.embed_distinct([(input_ids, readable)])
            logits = self.prediction_head(embeddings).float().masked_fill(~present, float("-inf"))
        loss = None
        if labels is not None:
            gold = labels.view(logits.shape).bool()
            contrast = candidate_contrast if self.config.linking_objective == "softmax" else candidate_loss
            loss = contrast(gather_rows(logits), gather_rows(gold), gather_rows(present))
        return EventGroundingCrossOutput(
            loss=loss, logits=logits, candidate_loss=loss, embeddings=embeddings, **layers
        )
