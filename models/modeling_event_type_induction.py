"""Event type induction by batch attention (Edwards and Ji, 2023)."""

import math
from dataclasses import dataclass
from itertools import product
from typing import cast

import torch
from torch import nn
from torch.nn import functional
from transformers import initialization as init
from transformers.utils import ModelOutput

from .configuration_event_type_induction import EventTypeInductionConfig
from .distributed import gather_rows
from .losses import masked_pair_loss, type_alignment
from .modeling_base import EventEncoderModel, EventModelOutput, EventPreTrainedModel
from .pooling import content_mean_pool
from .similarities import in_full_precision
from .type_losses import UNSEEN

PAIRED_VIEWS = tuple(product(("query", "augmented_query"), ("key", "augmented_key")))
"""The four pairs of queries and keys that L_c sums over."""


@dataclass
class EventTypeInductionModelOutput(EventModelOutput):
    """Output of the encoder of mentions.

    Args:
        embeddings: F, the pooled vectors, of length 1, `(batch, projection_dim)`.
        query: Q, `(batch, projection_dim)`.
        key: K, `(batch, projection_dim)`.
    """

    query: torch.FloatTensor | None = None
    key: torch.FloatTensor | None = None


@dataclass
class EventTypeInductionForPreTrainingOutput(ModelOutput):
    """Output of the training head.

    Args:
        loss: weighted sum of the terms below, a scalar; None where no augmented view is given.
        pair_loss: L_c, the masked contrastive loss over the four pairs of views.
        type_name_loss: L_a against the vectors of type names, before its weight.
        frame_loss: L_a against the vectors of frame definitions, before its weight.
        embeddings: vectors of the mentions, of length 1, `(batch, projection_dim)`.
    """

    loss: torch.FloatTensor | None = None
    pair_loss: torch.FloatTensor | None = None
    type_name_loss: torch.FloatTensor | None = None
    frame_loss: torch.FloatTensor | None = None
    embeddings: torch.FloatTensor | None = None


class WideStartLinear(nn.Linear):
    """A linear layer that starts as those of PyTorch do, with weights by the width of its input.

    With the small weights that encoders start with, vectors of length 1 would all but vanish before the layer
    norm of a map.
    """


class NonlinearMap(nn.Module):
    """The map of a mention's vector to its query or its key: two hidden layers (section 3.3).

    Args:
        dimension: size of the vectors, in and out.
        dropout: probability of both dropout layers.
        skip_start: what the vector itself is multiplied by, at the start of training, before it is added;
            None adds nothing.
        map_start: what the map is then multiplied by at the start; not used without `skip_start`.
    """

    def __init__(self, dimension: int, dropout: float, skip_start: float | None, map_start: float):
        super().__init__()
        self.layers = nn.Sequential(
            WideStartLinear(dimension, dimension),
            nn.ReLU(),
            nn.Dropout(dropout),
            WideStartLinear(dimension, dimension),
            nn.ReLU(),
            nn.LayerNorm(dimension),
            nn.Dropout(dropout),
            WideStartLinear(dimension, dimension),
        )
        self.starts = None if skip_start is None else (skip_start, map_start)
        self.skip_weight = None if skip_start is None else nn.Parameter(torch.empty(()))
        self.map_weight = None if skip_start is None else nn.Parameter(torch.empty(()))

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Map vectors, `(B, d)` to `(B, d)`."""
        mapped = self.layers(vectors)
        if self.skip_weight is None:
            return mapped
        return self.skip_weight * vectors + self.map_weight * mapped


class AuxiliaryHead(nn.Sequential):
    """The head between clustered features and the vectors of types (section 3.5).

    Args:
        dimension: size of the clustered features.
        target_dimension: size of the vectors of types.
        hidden_layer: whether it has a hidden layer.
    """

    def __init__(self, dimension: int, target_dimension: int, hidden_layer: bool):
        hidden = (WideStartLinear(dimension, dimension), nn.ReLU()) if hidden_layer else ()
        super().__init__(*hidden, WideStartLinear(dimension, target_dimension))

    def forward(self, clustered: torch.Tensor) -> torch.Tensor:
        """Map clustered features, `(B, dimension)` to `(B, target_dimension)`."""
        return super().forward(clustered.to(self[-1].weight.dtype))


class ScoreBias(nn.Module):
    """A learned number that is added to every score; a module of its own, so that an adapter saves it."""

    def __init__(self, start: float):
        super().__init__()
        self.start = start
        self.value = nn.Parameter(torch.empty(()))

    def forward(self) -> torch.Tensor:
        """The number, a scalar."""
        return self.value


class EventTypeInductionPreTrainedModel(EventPreTrainedModel):
    """Base class of the models of event type induction."""

    config: EventTypeInductionConfig
    base_model_prefix = "event_type_induction"

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, WideStartLinear):
            bound = 1 / math.sqrt(module.in_features)
            init.uniform_(module.weight, -bound, bound)
            init.uniform_(module.bias, -bound, bound)
        elif isinstance(module, NonlinearMap) and module.starts is not None:
            init.constant_(module.skip_weight, module.starts[0])
            init.constant_(module.map_weight, module.starts[1])
        elif isinstance(module, ScoreBias):
            init.constant_(module.value, module.start)


@in_full_precision
def batch_attention(query: torch.Tensor, key: torch.Tensor, embeddings: torch.Tensor) -> torch.Tensor:
    """Clustered features: each mention as a mean of all, weighted by the softmax of its scores (section 3.3).

    Args:
        query: `(B, d)`.
        key: `(B, d)`.
        embeddings: `(B, d)`.

    Returns:
        `(B, d)`.
    """
    scores = query @ key.transpose(0, 1) / query.shape[1] ** 0.5
    return scores.softmax(dim=1) @ embeddings


class EventTypeInductionModel(EventEncoderModel, EventTypeInductionPreTrainedModel):
    """An encoder of event mentions, and the maps to their queries and keys."""

    config: EventTypeInductionConfig
    # Left out knowingly: they belong to the training head. Any other weight without a place is still told.
    _keys_to_ignore_on_load_unexpected = (r"^(type_name_head|frame_head)\.", r"^score_bias\.value$")

    def __init__(self, config, encoder=None):
        super().__init__(config, encoder=encoder)
        size = config.projection_dim
        skip_start = math.sqrt(config.score_scale * math.sqrt(size)) if config.map_skip else None
        self.query_map = NonlinearMap(size, config.map_dropout, skip_start, config.map_weight)
        self.key_map = NonlinearMap(size, config.map_dropout, skip_start, config.map_weight)
        self.post_init()

    def pool(
        self, last_hidden_state: torch.Tensor, attention_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Pool and project token vectors, and scale what comes to length 1.

        Args:
            last_hidden_state: `(batch, length, hidden_size)`.
            attention_mask: `(batch, length)`; None where nothing is padded.

        Returns:
            F, `(batch, projection_dim)`.
        """
        pooled = super().pool(last_hidden_state, attention_mask)
        return functional.normalize(pooled.float(), dim=-1).to(pooled.dtype)

    def pool_mentions(
        self,
        last_hidden_state: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        trigger_mask: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Pool mentions over the tokens that `trigger_input` says.

        Args:
            last_hidden_state: `(batch, length, hidden_size)`.
            attention_mask: `(batch, length)`; None where nothing is padded.
            trigger_mask: true for a token of the trigger, `(batch, length)` or less wide; None where the
                triggers are not known. A row without any is pooled over its whole sentence.

        Returns:
            F, `(batch, projection_dim)`.
        """
        if trigger_mask is not None and self.config.pools_trigger:
            missing = last_hidden_state.shape[1] - trigger_mask.shape[1]
            trigger_mask = functional.pad(trigger_mask.bool(), (0, missing))
            if attention_mask is None:
                attention_mask = torch.ones_like(trigger_mask)
            has_trigger = trigger_mask.any(dim=1, keepdim=True)
            attention_mask = torch.where(has_trigger, trigger_mask, attention_mask.bool())
        return self.pool(last_hidden_state, attention_mask)

    def clustered_features(
        self, embeddings: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> torch.Tensor:
        """Attend over a batch; see `batch_attention`. What comes depends on the whole batch."""
        return batch_attention(query, key, embeddings)

    @torch.no_grad()
    def label_vectors(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Vectors of names of types or definitions of frames under the encoder as it is (section 3.5, B_t).

        The mean over the tokens without the special ones, not normalised, without dropout or gradient. The
        targets of the auxiliary losses are those of the encoder before training.

        Args:
            input_ids: `(labels, length)`.
            attention_mask: `(labels, length)`.

        Returns:
            `(labels, hidden_size)`.
        """
        was_training = self.encoder.training
        self.encoder.eval()
        try:
            hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        finally:
            self.encoder.train(was_training)
        return content_mean_pool(hidden, attention_mask)

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        return_dict: bool | None = None,
        trigger_mask: torch.Tensor | None = None,
        **kwargs,
    ) -> EventTypeInductionModelOutput | tuple:
        """Encode mentions.

        Args:
            input_ids: token ids of sentences, `(batch, length)`.
            attention_mask: 1 for a token, 0 for padding, `(batch, length)`; None where nothing is padded.
            token_type_ids: `(batch, length)`, for encoders that know segments.
            inputs_embeds: token embeddings instead of ids, `(batch, length, hidden_size)`.
            output_hidden_states: also return the vectors of every layer.
            output_attentions: also return the attention weights.
            return_dict: False gives a tuple.
            trigger_mask: true for a token of the trigger, `(batch, length)`; read where `trigger_input` pools
                over the trigger.
            **kwargs: passed on to the encoder.

        Returns:
            `EventTypeInductionModelOutput`.
        """
        encoded = super().forward(
            input_ids,
            attention_mask,
            token_type_ids,
            inputs_embeds,
            output_hidden_states,
            output_attentions,
            **kwargs,
        )
        encoded = cast(EventModelOutput, encoded)
        embeddings = self.pool_mentions(encoded.last_hidden_state, attention_mask, trigger_mask)
        result = EventTypeInductionModelOutput(
            embeddings=embeddings,
            last_hidden_state=encoded.last_hidden_state,
            hidden_states=encoded.hidden_states,
            attentions=encoded.attentions,
            query=self.query_map(embeddings),
            key=self.key_map(embeddings),
        )
        return result.to_tuple() if return_dict is False else result


class EventTypeInductionForPreTraining(EventTypeInductionPreTrainedModel):
    """The training head: mentions and their augmented views in one encoder pass, then L_c and L_a."""

    def __init__(self, config, encoder=None):
        super().__init__(config)
        self.event_type_induction = EventTypeInductionModel(config, encoder=encoder)
        sizes = config.projection_dim, config.encoder_config.hidden_size, config.auxiliary_hidden_layer
        self.type_name_head = AuxiliaryHead(*sizes) if config.type_name_weight else None
        self.frame_head = AuxiliaryHead(*sizes) if config.frame_weight else None
        self.score_bias = None if config.score_bias is None else ScoreBias(config.score_bias)
        self.post_init()

    def encode_views(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        trigger_mask: torch.Tensor | None = None,
        augmented_input_ids: torch.Tensor | None = None,
        augmented_attention_mask: torch.Tensor | None = None,
        augmented_trigger_mask: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        """Encode mentions and their augmented views in one encoder pass.

        Args:
            input_ids: the mentions, `(B, L)`.
            attention_mask: `(B, L)`.
            trigger_mask: true for a token of the trigger, `(B, L)`.
            augmented_input_ids: the same mentions in other words, `(B, L')`.
            augmented_attention_mask: `(B, L')`.
            augmented_trigger_mask: `(B, L')`.

        Returns:
            `embeddings`, `query`, `key`, `augmented_query` and `augmented_key`, each `(B, d)`.

        Raises:
            ValueError: the augmented view is missing.
        """
        if augmented_input_ids is None or augmented_attention_mask is None:
            raise ValueError("event type induction needs the views mention, augmented; missing: augmented")
        model = self.event_type_induction
        (hidden, mask), (augmented_hidden, augmented_mask) = model.encode_together(
            [(input_ids, attention_mask), (augmented_input_ids, augmented_attention_mask)]
        )
        embeddings = model.pool_mentions(hidden, mask, trigger_mask)
        augmented = model.pool_mentions(augmented_hidden, augmented_mask, augmented_trigger_mask)
        return {
            "embeddings": embeddings,
            "query": model.query_map(embeddings),
            "key": model.key_map(embeddings),
            "augmented_query": model.query_map(augmented),
            "augmented_key": model.key_map(augmented),
        }

    def losses_from_views(
        self,
        views: dict[str, torch.Tensor],
        type_ids: torch.Tensor | None = None,
        type_name_vectors: torch.Tensor | None = None,
        frame_vectors: torch.Tensor | None = None,
    ) -> EventTypeInductionForPreTrainingOutput:
        """Compute L_c and L_a on the vectors of all processes.

        Args:
            views: what `encode_views` returns.
            type_ids: number of each mention's type, `(B,)`; -1 where it is unseen.
            type_name_vectors: vector of the name of each mention's type (`label_vectors`),
                `(B, hidden_size)`; rows of unseen types are not read.
            frame_vectors: vector of the definition of its frame, `(B, hidden_size)`.

        Returns:
            The losses; `embeddings` holds the mentions of this process.

        Raises:
            ValueError: ids or vectors that the configured losses need are missing.
        """
        config = self.config
        auxiliary = {
            name: (head, vectors)
            for name, head, vectors in (
                ("type_name", self.type_name_head, type_name_vectors),
                ("frame", self.frame_head, frame_vectors),
            )
            if head is not None
        }
        needed = {
            "type_ids": type_ids,
            **{f"{name}_vectors": vectors for name, (_, vectors) in auxiliary.items()},
        }
        if missing := [name for name, value in needed.items() if value is None]:
            raise ValueError(
                f"event type induction with these loss weights needs {', '.join(needed)}; missing: "
                f"{', '.join(missing)}"
            )
        gathered = {name: gather_rows(value) for name, value in {**views, **needed}.items()}
        type_ids = gathered["type_ids"]
        pair_loss = sum(
            masked_pair_loss(
                gathered[query],
                gathered[key],
                type_ids,
                config.margin,
                bias=0.0 if self.score_bias is None else self.score_bias(),
                unseen_diagonal=config.unseen_diagonal,
                over_kept_pairs=config.pair_mean == "kept",
            )
            for query, key in PAIRED_VIEWS
        )
        terms, loss = {"pair_loss": pair_loss}, pair_loss
        if auxiliary:
            clustered = self.event_type_induction.clustered_features(
                gathered["embeddings"], gathered["query"], gathered["key"]
            )
            for name, (head, _) in auxiliary.items():
                term = type_alignment(
                    head(clustered),
                    gathered[f"{name}_vectors"],
                    type_ids != UNSEEN,
                )
                terms[f"{name}_loss"] = term
                loss = loss + getattr(config, f"{name}_weight") * term
        return EventTypeInductionForPreTrainingOutput(loss=loss, embeddings=views["embeddings"], **terms)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        trigger_mask: torch.Tensor | None = None,
        augmented_input_ids: torch.Tensor | None = None,
        augmented_attention_mask: torch.Tensor | None = None,
        augmented_trigger_mask: torch.Tensor | None = None,
        type_ids: torch.Tensor | None = None,
        type_name_vectors: torch.Tensor | None = None,
        frame_vectors: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        return_dict: bool | None = None,
        **kwargs,
    ) -> EventTypeInductionForPreTrainingOutput | tuple:
        """Compute the training loss, or only the vectors where neither augmented view nor types are given.

        Args:
            input_ids: the mentions, `(B, L)`.
            attention_mask: `(B, L)`; None where nothing is padded.
            trigger_mask: true for a token of the trigger, `(B, L)`; read where `trigger_input` pools over
                the trigger.
            augmented_input_ids: the same mentions in other words, `(B, L')`.
            augmented_attention_mask: `(B, L')`.
            augmented_trigger_mask: `(B, L')`.
            type_ids: number of each mention's type, `(B,)`; -1 where it is unseen.
            type_name_vectors: vector of the name of each mention's type (`label_vectors`),
                `(B, hidden_size)`; rows of unseen types are not read.
            frame_vectors: vector of the definition of its frame, `(B, hidden_size)`.
            token_type_ids: not used by the training views: a mention is one segment.
            return_dict: False gives a tuple.
            **kwargs: passed on to the encoder where only vectors are computed.

        Returns:
            `EventTypeInductionForPreTrainingOutput`.

        Raises:
            ValueError: the augmented view or types are given, but something that the configured losses need
                is missing.
        """
        if augmented_input_ids is None and type_ids is None:
            output = self.event_type_induction(
                input_ids,
                attention_mask,
                token_type_ids=token_type_ids,
                trigger_mask=trigger_mask,
                **kwargs,
            )
            result = EventTypeInductionForPreTrainingOutput(embeddings=output.embeddings)
        else:
            if attention_mask is None:
                attention_mask = torch.ones_like(input_ids)
            views = self.encode_views(
                input_ids,
                attention_mask,
                trigger_mask,
                augmented_input_ids,
                augmented_attention_mask,
                augmented_trigger_mask,
            )
            result = self.losses_from_views(views, type_ids, type_name_vectors, frame_vectors)
        return result.to_tuple() if return_dict is False else result


EventTypeInductionModel.register_for_auto_class("AutoModel")
EventTypeInductionForPreTraining.register_for_auto_class("AutoModelForPreTraining")
