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
    """

    loss: torch.FloatTensor | None = None
    contrastive_loss: torch.FloatTensor | None = None
    embeddings: torch.FloatTensor | None = None


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
        if positive_input_ids is None or positive_attention_mask is None:
            raise ValueError("the contrast needs the views anchor, positive; missing: positive")
        groups = [(input_ids, attention_mask), (positive_input_ids, positive_attention_mask)]
        anchor, positive = (self.simcse.pool(*encoded) for encoded in self.simcse.encode_together(groups))
        return {"anchor": anchor, "positive": positive}

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

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        positive_input_ids: torch.Tensor | None = None,
        positive_attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        return_dict: bool | None = None,
        **kwargs,
    ) -> SimCseForPreTrainingOutput | tuple:
        """Compute the training loss, or only the vectors without a positive.

        Args:
            input_ids: the anchors, `(B, L)`.
            attention_mask: `(B, L)`; None where nothing is padded.
            positive_input_ids: the same events again, `(B, L')`.
            positive_attention_mask: `(B, L')`.
            token_type_ids: not used by the training views: an event is one segment.
            return_dict: False gives a tuple.
            **kwargs: passed on to the encoder where only vectors are computed.

        Returns:
            `SimCseForPreTrainingOutput`.

        Raises:
            ValueError: the positive has no ids or no mask.
        """
        if positive_input_ids is None and positive_attention_mask is None:
            output = self.simcse(input_ids, attention_mask, token_type_ids=token_type_ids, **kwargs)
            result = SimCseForPreTrainingOutput(embeddings=output.embeddings)
        else:
            if attention_mask is None:
                attention_mask = torch.ones_like(input_ids)
            result = self.losses_from_views(
                self.encode_views(input_ids, attention_mask, positive_input_ids, positive_attention_mask)
            )
        return result.to_tuple() if return_dict is False else result


SimCseModel.register_for_auto_class("AutoModel")
SimCseForPreTraining.register_for_auto_class("AutoModelForPreTraining")
