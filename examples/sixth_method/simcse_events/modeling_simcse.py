"""SimCSE: contrast of two dropout views of a text (Gao et al., 2021).

A saved model holds this file. It may import siblings by `from .name import …` and `eventformers.models` by
`from eventformers.models.name import …`; of the latter the saved model holds copies, so that it loads as
remote code without either package.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn
from transformers.utils import ModelOutput

from eventformers.models.distributed import gather_rows
from eventformers.models.losses import info_nce
from eventformers.models.modeling_base import EventEncoderModel, EventPreTrainedModel
from eventformers.models.training_head import check_given, training_forward

from .configuration_simcse import SimCseConfig

if TYPE_CHECKING:
    # Named here so that their code is saved with that of the models.
    from eventformers.models.pipeline_event_embedding import EventEmbeddingPipeline  # noqa: F401
    from eventformers.models.pipeline_next_event import NextEventPipeline  # noqa: F401


@dataclass
class SimCseForPreTrainingOutput(ModelOutput):
    """Output of SimCSE's training head.

    Args:
        loss: the contrast, a scalar; None without a positive.
        contrastive_loss: the same, under the name by which it is logged.
        embeddings: vectors of the anchors, not normalised, `(batch, projection_dim)`.
        hidden_states: token vectors of every layer of the encoder for the anchors, if requested.
        attentions: attention weights of every layer, if requested.
    """

    loss: torch.FloatTensor | None = None
    contrastive_loss: torch.FloatTensor | None = None
    embeddings: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


class SimCsePreTrainedModel(EventPreTrainedModel):
    """Base class of the SimCSE models."""

    config: SimCseConfig
    base_model_prefix = "simcse"


class SimCseModel(EventEncoderModel, SimCsePreTrainedModel):
    """SimCSE's event encoder: the pooled output of a pretrained encoder."""

    config: SimCseConfig
    _keys_to_ignore_on_load_unexpected = (r"^mlp\.(weight|bias)$",)


class SimCseForPreTraining(SimCsePreTrainedModel):
    """SimCSE's training head: contrast behind a layer that training alone uses."""

    def __init__(self, config, encoder=None):
        super().__init__(config)
        self.simcse = SimCseModel(config, encoder=encoder)
        self.mlp = nn.Linear(config.projection_dim, config.projection_dim)
        self.post_init()

    def encode_views(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        positive_input_ids: torch.Tensor | None = None,
        positive_attention_mask: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        """Encode events and their positives in one encoder pass.

        Args:
            input_ids: the anchors, `(B, L)`.
            attention_mask: `(B, L)`.
            positive_input_ids: the same events again, `(B, L')`; dropout makes the difference.
            positive_attention_mask: `(B, L')`.

        Returns:
            `anchor` and `positive`, each `(B, projection_dim)`.

        Raises:
            ValueError: the positive is missing.
        """
        groups = {
            "anchor": (input_ids, attention_mask),
            "positive": (positive_input_ids, positive_attention_mask),
        }
        check_given("the contrast needs the views", groups)
        encoded = self.simcse.encode_together(list(groups.values()))
        return {name: self.simcse.pool(*view) for name, view in zip(groups, encoded, strict=True)}

    def losses_from_views(self, views: dict[str, torch.Tensor]) -> SimCseForPreTrainingOutput:
        """Compute the loss on the vectors of all processes.

        Args:
            views: what `encode_views` returns.

        Returns:
            The loss; `embeddings` holds the anchors of this process.
        """
        anchor, positive = (torch.tanh(self.mlp(gather_rows(views[name]))) for name in ("anchor", "positive"))
        loss = info_nce(anchor, positive, self.config.contrastive_temperature)
        return SimCseForPreTrainingOutput(loss=loss, contrastive_loss=loss, embeddings=views["anchor"])

    forward = training_forward(SimCseModel, encode_views, losses_from_views, SimCseForPreTrainingOutput)
