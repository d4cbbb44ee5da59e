"""Event type induction by batch attention (Edwards and Ji, 2023)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch.nn import functional
from transformers import initialization as init
from transformers.utils import ModelOutput, can_return_tuple

from .configuration_event_type_induction import EventTypeInductionConfig
from .distributed import gather_rows
from .modeling_base import (
    EventEncoderModel,
    EventModelOutput,
    EventPreTrainedModel,
    requested_layers,
    select_layers,
    start_wide,
)
from .pooling import content_mask, mean_pool
from .training_head import check_given, training_forward, weighted_sum
from .type_induction_layers import (
    NO_EVENT_START,
    AuxiliaryHead,
    FirstScores,
    NonlinearMap,
    ScoreBias,
    TriggerFinder,
    WideStartLinear,
    batch_attention,
    likeliest_tokens,
    token_probabilities,
    token_weights,
)
from .type_losses import UNSEEN, frame_contrast, log_absence, masked_pair_loss, noisy_or_loss, type_alignment

if TYPE_CHECKING:
    # Imported so that saving and loading include their code.
    from .pipeline_event_embedding import EventEmbeddingPipeline  # noqa: F401
    from .pipeline_event_type_induction import EventTypeInductionPipeline  # noqa: F401
    from .pipeline_next_event import NextEventPipeline  # noqa: F401
    from .processing_event_type_induction import EventTypeInductionProcessor  # noqa: F401

FRAME_EXAMPLE_TEMPERATURE = 0.05
PAIRED_VIEWS = tuple(product(("query", "augmented_query"), ("key", "augmented_key")))
"""The four pairs of queries and keys that L_c sums over."""


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
        frame_example_loss: beyond the paper, the contrast of frames' examples with definitions, before its
            weight.
        trigger_loss: beyond the paper, the loss of the trigger finder, before its weight.
        embeddings: vectors of the mentions, of length 1, `(batch, projection_dim)`.
        hidden_states: token vectors of every layer of the encoder for the mentions, if requested.
        attentions: attention weights of every layer, if requested.
    """

    loss: torch.FloatTensor | None = None
    pair_loss: torch.FloatTensor | None = None
    type_name_loss: torch.FloatTensor | None = None
    frame_loss: torch.FloatTensor | None = None
    frame_example_loss: torch.FloatTensor | None = None
    trigger_loss: torch.FloatTensor | None = None
    embeddings: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


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


class EventTypeInductionPreTrainedModel(EventPreTrainedModel):
    """Base class of the models of event type induction."""

    config: EventTypeInductionConfig
    base_model_prefix = "event_type_induction"

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, WideStartLinear):
            start_wide(module)
            if isinstance(module, FirstScores):
                init.constant_(module.bias[-1:], NO_EVENT_START)
        elif isinstance(module, NonlinearMap) and module.skip_start is not None:
            init.constant_(module.skip_weight, module.skip_start)
            # The map joins as a small part, so that cosines start near those of the encoder.
            init.constant_(module.map_weight, 0.1)
        elif isinstance(module, ScoreBias):
            init.constant_(module.value, module.start)


class EventTypeInductionModel(EventEncoderModel, EventTypeInductionPreTrainedModel):
    """Encoder of event mentions, with maps to queries and keys."""

    config: EventTypeInductionConfig
    # These weights belong to the training head. Any other unused weight is still reported.
    _keys_to_ignore_on_load_unexpected = (r"^(type_name_head|frame_head)\.", r"^score_bias\.value$")

    def __init__(self, config, encoder=None):
        super().__init__(config, encoder=encoder)
        size = config.projection_dim
        skip_start = math.sqrt(config.score_scale * math.sqrt(size)) if config.map_skip else None
        self.query_map = NonlinearMap(size, config.map_dropout, skip_start)
        self.key_map = NonlinearMap(size, config.map_dropout, skip_start)
        self.trigger_finder = self._new_finder() if config.finds_trigger else None
        self.train(self.training)
        self.post_init()

    def _new_finder(self) -> TriggerFinder:
        config = self.config
        return TriggerFinder(
            config.encoder_config.hidden_size,
            len(config.layers_read) - 1,
            len(config.trained_types or ()),
            config.finder_dropout,
        )

    def set_trained_types(self, seen_types: list[str]) -> None:
        """Set the types whose labels are used in training, in the order of their numbers; reset the trigger
        finder if they changed."""
        if seen_types == self.config.trained_types:
            return
        self.config.trained_types = list(seen_types)
        if self.trigger_finder is not None:
            place = self.query_map.layers[0].weight
            self.trigger_finder = self._new_finder().to(place.device, place.dtype)
            self.trigger_finder.train(self.training).apply(self._init_weights)

    @property
    def token_size(self) -> int:
        """Size of a token vector: the layer that is pooled, then the layers that the trigger finder reads."""
        return self.config.encoder_config.hidden_size * len(self.config.layers_read)

    def encode_tokens(self, **inputs) -> torch.Tensor:
        """Compute the token vectors that this method uses, `(rows, length, token_size)`; see `token_size`."""
        if self.config.layers_read == [-1]:
            return super().encode_tokens(**inputs)
        output = self.encoder(**inputs, output_hidden_states=True, return_dict=True)
        return self._read_layers(output.hidden_states)

    def _read_layers(self, hidden_states: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.cat([hidden_states[place] for place in self.config.layers_read], dim=-1)

    def pool(
        self, last_hidden_state: torch.Tensor, attention_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Pool and project token vectors as in the base class, and scale the result F, `(batch,
        projection_dim)`, to length 1."""
        pooled = super().pool(last_hidden_state, attention_mask)
        return functional.normalize(pooled.float(), dim=-1).to(pooled.dtype)

    def pool_mentions(
        self,
        tokens: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        trigger_mask: torch.Tensor | None = None,
        type_ids: torch.Tensor | None = None,
        token_factors: torch.Tensor | None = None,
    ) -> PooledMentions:
        """Pool mentions over the tokens that `trigger_input` selects.

        Args:
            tokens: output of `encode_tokens`, `(batch, length, token_size)`.
            attention_mask: `(batch, length)`; None if nothing is padded.
            trigger_mask: True for a token of the trigger, `(batch, length)` or narrower; None if the triggers
                are unknown. A row without a trigger is pooled over its whole sentence. If the mask is given,
                the model does not search for triggers.
            type_ids: if triggers are found, the id of each mention's type, `(batch,)`, -1 for an unseen one;
                None treats all as unseen.
            token_factors: with `found_exponent`, factors of the tokens' weights, positive, `(batch, length)`;
                None for equal ones.

        Returns:
            F, `(batch, projection_dim)`, and the found triggers.
        """
        size = self.config.encoder_config.hidden_size
        hidden, scores, token_mask, found, weights = tokens[..., :size], None, None, None, None
        if self.trigger_finder is not None:
            if attention_mask is None:
                attention_mask = torch.ones(tokens.shape[:2], dtype=torch.long, device=tokens.device)
            scores = self.trigger_finder(tokens[..., size:])
            token_mask = content_mask(attention_mask, not self.config.is_decoder_only)
            if trigger_mask is None:
                unseen = scores.new_full((len(scores),), scores.shape[-1] - 2, dtype=torch.long)
                classes = unseen if type_ids is None else torch.where(type_ids == UNSEEN, unseen, type_ids)
                probabilities = token_probabilities(scores, token_mask, classes)
                trigger_mask = found = likeliest_tokens(probabilities, token_mask)
                if self.config.found_exponent is not None:
                    exponent = self.config.found_exponent
                    weights = token_weights(probabilities, token_mask, exponent, token_factors)
        elif not self.config.pools_trigger:
            trigger_mask = None
        if trigger_mask is not None:
            trigger_mask = functional.pad(trigger_mask.bool(), (0, hidden.shape[1] - trigger_mask.shape[1]))
            if attention_mask is None:
                attention_mask = torch.ones_like(trigger_mask)
            # Avoids `torch.where` on booleans, which ONNX Runtime does not support.
            has_trigger = trigger_mask.any(dim=1, keepdim=True)
            attention_mask = trigger_mask | (attention_mask.bool() & ~has_trigger)
            if weights is not None:
                attention_mask = torch.where(has_trigger, weights, attention_mask.float())
        return PooledMentions(self.pool(hidden, attention_mask), scores, token_mask, found)

    def clustered_features(
        self, embeddings: torch.Tensor, query: torch.Tensor, key: torch.Tensor
    ) -> torch.Tensor:
        """Attend over a batch; see `batch_attention`. The result depends on the whole batch."""
        return batch_attention(query, key, embeddings)

    @torch.no_grad()
    def label_vectors(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Vectors of type names or frame definitions under the current encoder (section 3.5, B_t).

        The mean over the tokens without the special ones, or over all of a decoder-only encoder, not
        normalised, without dropout or gradient.
        Training computes the targets of the auxiliary losses once, with the encoder as it starts.

        Args:
            input_ids: `(labels, length)`.
            attention_mask: `(labels, length)`.

        Returns:
            `(labels, hidden_size)`.
        """
        was_training = self.encoder.training
        self.encoder.eval()
        try:
            hidden = super().encode_tokens(input_ids=input_ids, attention_mask=attention_mask)
        finally:
            self.encoder.train(was_training)
        return mean_pool(hidden, content_mask(attention_mask, not self.config.is_decoder_only))

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        trigger_mask: torch.Tensor | None = None,
        token_factors: torch.Tensor | None = None,
        **kwargs,
    ) -> EventTypeInductionModelOutput:
        """Encode mentions; arguments that are not listed are those of `EventEncoderModel`.

        Args:
            trigger_mask: True for a token of the trigger, `(batch, length)`; used if `trigger_input` pools
                over the trigger, and if it is `found`: then the model does not search for triggers.
            token_factors: with `found_exponent`, factors of the tokens' weights, positive, `(batch, length)`;
                None for equal ones.

        Returns:
            `EventTypeInductionModelOutput`.
        """
        last_alone = self.config.layers_read == [-1]
        asked = requested_layers(self.config, kwargs).get("output_hidden_states")
        kwargs["output_hidden_states"] = bool(asked) or not last_alone
        encoded = self._run_encoder(input_ids, attention_mask, token_type_ids, inputs_embeds, **kwargs)
        tokens = encoded.last_hidden_state if last_alone else self._read_layers(encoded.hidden_states)
        mask = self._mask_of_tokens(attention_mask, tokens)
        pooled = self.pool_mentions(tokens, mask, trigger_mask, token_factors=token_factors)
        return EventTypeInductionModelOutput(
            embeddings=self.truncate(pooled.embeddings),
            last_hidden_state=encoded.last_hidden_state,
            hidden_states=select_layers(encoded.hidden_states, asked) if asked else None,
            attentions=encoded.attentions,
            query=self.query_map(pooled.embeddings),
            key=self.key_map(pooled.embeddings),
            found_triggers=pooled.found_triggers,
        )


class EventTypeInductionForPreTraining(EventTypeInductionPreTrainedModel):
    """Training head that encodes mentions and their views in one pass, then computes L_c and L_a."""

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
        type_ids: torch.Tensor | None = None,
        example_input_ids: torch.Tensor | None = None,
        example_attention_mask: torch.Tensor | None = None,
        definition_input_ids: torch.Tensor | None = None,
        definition_attention_mask: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        """Encode mentions, their augmented views and examples of frames in one encoder pass.

        Args:
            input_ids: the mentions, `(B, L)`.
            attention_mask: `(B, L)`.
            trigger_mask: True for a token of the trigger, `(B, L)`; used if `trigger_input` pools over the
                trigger.
            augmented_input_ids: the same mentions in other words, `(B, L')`.
            augmented_attention_mask: `(B, L')`.
            augmented_trigger_mask: `(B, L')`.
            type_ids: id of each mention's type, `(B,)`; -1 for an unseen one. If triggers are found, each is
                found by its own type.
            example_input_ids: a sentence that evokes a frame, drawn for each mention, `(B, E)`; used, like
                the next three, if `frame_example_weight` is not 0.
            example_attention_mask: `(B, E)`.
            definition_input_ids: the definition of that frame, `(B, D)`.
            definition_attention_mask: `(B, D)`.

        Returns:
            `embeddings`, `query`, `key`, `augmented_query` and `augmented_key`, each `(B, d)`; with examples
            of frames also `examples` and `definitions`, `(B, d)`; if triggers are found, also `absence`, the
            output of `log_absence` for the mentions, `(B, types + 1)`.

        Raises:
            ValueError: the augmented view, or an example with its definition, is missing.
        """
        groups = {
            "mention": (input_ids, attention_mask),
            "augmented": (augmented_input_ids, augmented_attention_mask),
        }
        if self.config.frame_example_weight:
            groups["example"] = example_input_ids, example_attention_mask
            groups["definition"] = definition_input_ids, definition_attention_mask
        check_given("event type induction needs the views", groups)
        model = self.event_type_induction
        (hidden, mask), (augmented_hidden, augmented_mask), *of_frames = model.encode_together(
            list(groups.values())
        )
        pooled = model.pool_mentions(hidden, mask, trigger_mask, type_ids)
        augmented = model.pool_mentions(augmented_hidden, augmented_mask, augmented_trigger_mask, type_ids)
        views = {
            "embeddings": pooled.embeddings,
            "query": model.query_map(pooled.embeddings),
            "key": model.key_map(pooled.embeddings),
            "augmented_query": model.query_map(augmented.embeddings),
            "augmented_key": model.key_map(augmented.embeddings),
        }
        for name, (tokens, token_mask) in zip(("examples", "definitions"), of_frames, strict=False):
            views[name] = model.pool(tokens[..., : self.config.encoder_config.hidden_size], token_mask)
        if pooled.scores is not None:
            # Not of the augmented view, which may have lost the word that expressed an event.
            views["absence"] = log_absence(pooled.scores, pooled.token_mask)
        return views

    def losses_from_views(
        self,
        views: dict[str, torch.Tensor],
        type_ids: torch.Tensor | None = None,
        type_name_vectors: torch.Tensor | None = None,
        frame_vectors: torch.Tensor | None = None,
        sentence_types: torch.Tensor | None = None,
        frame_ids: torch.Tensor | None = None,
    ) -> EventTypeInductionForPreTrainingOutput:
        """Compute L_c and L_a on the vectors of all processes.

        Args:
            views: output of `encode_views`.
            type_ids: id of each mention's type, `(B,)`; -1 for an unseen one.
            type_name_vectors: vector of the name of each mention's type (`label_vectors`),
                `(B, hidden_size)`; rows of unseen types are ignored.
            frame_vectors: vector of the definition of its frame, `(B, hidden_size)`.
            sentence_types: event types in each mention's sentence, `(B, types + 1)`, bool: the seen types,
                then any other type; used if triggers are found.
            frame_ids: number of each example's frame, `(B,)`.

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
            **({"sentence_types": sentence_types} if config.finds_trigger else {}),
            **({"frame_ids": frame_ids} if config.frame_example_weight else {}),
        }
        check_given("event type induction with these loss weights needs", needed)
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
            )
            for query, key in PAIRED_VIEWS
        )
        terms = {"pair_loss": pair_loss}
        if auxiliary:
            clustered = self.event_type_induction.clustered_features(
                gathered["embeddings"], gathered["query"], gathered["key"]
            )
            for name, (head, _) in auxiliary.items():
                targets = gathered[f"{name}_vectors"]
                terms[f"{name}_loss"] = type_alignment(head(clustered), targets, type_ids != UNSEEN)
        if config.frame_example_weight:
            terms["frame_example_loss"] = frame_contrast(
                gathered["examples"],
                gathered["definitions"],
                gathered["frame_ids"],
                FRAME_EXAMPLE_TEMPERATURE,
            )
        if config.finds_trigger:
            terms["trigger_loss"] = noisy_or_loss(gathered["absence"], gathered["sentence_types"])
        loss = weighted_sum(terms, config)
        return EventTypeInductionForPreTrainingOutput(loss=loss, embeddings=views["embeddings"], **terms)

    forward = training_forward(
        EventTypeInductionModel, encode_views, losses_from_views, EventTypeInductionForPreTrainingOutput
    )
