"""The bi-encoder of hierarchical event grounding (Ou et al., 2023)."""

import copy
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch import nn
from transformers import initialization as init
from transformers.utils import ModelOutput, can_return_tuple

from .configuration_event_grounding import EventGroundingConfig
from .distributed import gather_rows
from .grounding_losses import (
    first_places,
    gold_pairs,
    hierarchy_loss,
    hierarchy_score,
    linking_contrast,
    linking_loss,
)
from .modeling_base import EventEncoderModel, EventModelOutput, EventPreTrainedModel, start_wide
from .similarities import unit
from .training_head import check_given, training_forward, weighted_sum

if TYPE_CHECKING:
    # Imported so that saving and loading include their code.
    from .pipeline_event_embedding import EventEmbeddingPipeline  # noqa: F401
    from .pipeline_event_grounding import EventGroundingPipeline  # noqa: F401
    from .processing_event_grounding import EventGroundingProcessor  # noqa: F401

SIDES = ("mention", "event")
"""The two kinds of texts; each has its own tower."""

_STAGE_INPUTS = {
    "linking": ("mentions", "events"),
    "hierarchy": ("parents", "children"),
    "joint": ("mentions", "events", "parents", "children"),
}
"""The texts that each stage uses."""


@dataclass
class EventGroundingForPreTrainingOutput(ModelOutput):
    """Output of the training head.

    Args:
        loss: weighted sum of the terms below, a scalar; None where only vectors are computed.
        linking_loss: cross-entropy of mentions and events, binary (section 5.1) or as `linking_objective`
            says, before its weight.
        hierarchy_loss: binary cross-entropy of parents and children (Eq. 4), before its weight.
        embeddings: vectors of the mentions, scaled to length one with `normalise`, `(batch, projection_dim)`;
            None in the stage `hierarchy`, which uses no mentions.
        hidden_states: token vectors of every layer of the encoder for the mentions, if requested.
        attentions: attention weights of every layer, if requested.
    """

    loss: torch.FloatTensor | None = None
    linking_loss: torch.FloatTensor | None = None
    hierarchy_loss: torch.FloatTensor | None = None
    embeddings: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


class HierarchyScorer(nn.Module):
    """Score of a parent with a child, from the vectors of both (Eq. 1 to 3).

    It is initialised like layers of PyTorch: with the small initial weights of encoders, all scores would be
    nearly 0, and a few steps of pretraining would not move them.
    """

    def __init__(self, dimension: int, full_complex: bool):
        super().__init__()
        self.real = nn.Linear(dimension, dimension)
        self.imaginary = nn.Linear(dimension, dimension)
        self.relation = nn.Parameter(torch.empty(dimension))
        self.relation_real = nn.Parameter(torch.empty(dimension)) if full_complex else None

    def forward(self, parents: torch.Tensor, children: torch.Tensor) -> torch.Tensor:
        """Score all pairs: `(P, d)` and `(C, d)` to `(P, C)`."""
        return hierarchy_score(
            self.real(parents),
            self.imaginary(parents),
            self.real(children),
            self.imaginary(children),
            self.relation,
            self.relation_real,
        )


class ScoreCalibration(nn.Module):
    """A learned scale, if `learns_scale`, and a learned bias, if it is not None, of the scores in the linking
    loss, beyond the paper."""

    def __init__(self, scale: float, learns_scale: bool, bias: float | None):
        super().__init__()
        self.scale, self.start_bias = scale, bias
        self.log_scale = nn.Parameter(torch.empty(1)) if learns_scale else None
        self.bias = None if bias is None else nn.Parameter(torch.empty(1))

    def forward(self) -> dict[str, torch.Tensor | float]:
        """The `scale` and the `bias`, each a number or a scalar tensor."""
        return {
            "scale": self.scale if self.log_scale is None else self.log_scale.exp().squeeze(),
            "bias": 0.0 if self.bias is None else self.bias.squeeze(),
        }


class EventGroundingPreTrainedModel(EventPreTrainedModel):
    """Base class of the models of the bi-encoder."""

    config: EventGroundingConfig
    base_model_prefix = "event_grounding"

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, HierarchyScorer):
            start_wide(module.real)
            start_wide(module.imaginary)
            for relation in (module.relation, module.relation_real):
                if relation is not None:
                    init.normal_(relation)
        elif isinstance(module, ScoreCalibration):
            if module.log_scale is not None:
                init.constant_(module.log_scale, math.log(module.scale))
            if module.bias is not None:
                init.constant_(module.bias, module.start_bias)

    def text_encoders(self):
        """The encoders of the mention tower and, if it is a second one, of the event tower."""
        tower = self.base_model.event_tower
        return [*super().text_encoders(), *([] if tower is None else tower.text_encoders())]

    def resize_token_embeddings(self, *args, **kwargs):
        """Resize the vocabulary of both towers; see `PreTrainedModel` for arguments and return value."""
        embeddings = super().resize_token_embeddings(*args, **kwargs)
        if self.base_model.event_tower is not None:
            self.base_model.event_tower.resize_token_embeddings(*args, **kwargs)
        return embeddings


class EventGroundingModel(EventEncoderModel, EventGroundingPreTrainedModel):
    """Bi-encoder of mentions in their contexts and of events; the score is the dot product.

    The encoder of `EventEncoderModel` is the mention tower; `event_tower` is a second one, which starts from
    the same pretrained encoder.
    """

    config: EventGroundingConfig
    # These weights belong to the training head. Any other unused weight is still reported.
    _keys_to_ignore_on_load_unexpected = (r"^(hierarchy_scorer|score_calibration)\.",)

    def __init__(self, config, encoder=None):
        super().__init__(config, encoder=encoder)
        self.event_tower = None
        if not config.share_towers:
            if encoder is not None:
                # With its own configuration it would miss changes of attention or vocabulary.
                encoder = copy.deepcopy(encoder, {id(encoder.config): encoder.config})
            self.event_tower = EventEncoderModel(config, encoder=encoder)
        self.post_init()

    def embed_for_task(self, input_ids, attention_mask=None, token_type_ids=None, task=None):
        """Encode texts for sentence-transformers: events for the task `document`, otherwise mentions.

        Args:
            input_ids: token ids, `(batch, length)`.
            attention_mask: 1 for a token, 0 for padding, `(batch, length)`; None if nothing is padded.
            token_type_ids: `(batch, length)`, for encoders that know segments.
            task: `document`, `query`, or None.

        Returns:
            `EventModelOutput`.

        Raises:
            ValueError: an event after a prompt may be longer than `event_tokens`: the folder has no limit
                with the tokens of the prompt, since it was saved without a tokenizer.
        """
        is_event = task == "document"
        if is_event and self.config.prompts and input_ids.shape[1] > self.config.event_tokens:
            raise ValueError(
                f"found events of up to {input_ids.shape[1]} tokens with their prompt, but the limit is "
                f"{self.config.event_tokens} tokens without it; accepted: shorter events, "
                "eventformers.ground, or the folder of a training run, which has a limit for both"
            )
        return self(input_ids, attention_mask, token_type_ids, side="event" if is_event else "mention")

    def tower(self, side: str) -> EventEncoderModel:
        """The encoder of one side.

        Raises:
            ValueError: `side` is neither.
        """
        if side not in SIDES:
            raise ValueError(f"side is {side!r}; accepted: {' or '.join(map(repr, SIDES))}")
        return self if side == "mention" or self.event_tower is None else self.event_tower

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        side: str = "mention",
        **kwargs,
    ) -> EventModelOutput:
        """Encode mentions, or events; arguments that are not listed are those of `EventEncoderModel`.

        Args:
            side: `mention` for mentions in their contexts, `event` for events.

        Returns:
            `EventModelOutput`.

        Raises:
            ValueError: an unknown side.
        """
        tower = self.tower(side)
        encode = super().forward if tower is self else tower
        output = encode(input_ids, attention_mask, token_type_ids, inputs_embeds, return_dict=True, **kwargs)
        output = cast(EventModelOutput, output)
        output.embeddings = self.comparable(output.embeddings)
        return output

    def comparable(self, vectors: torch.Tensor) -> torch.Tensor:
        """Scale pooled vectors for the dot product of mentions and events.

        Args:
            vectors: `(..., projection_dim)`.

        Returns:
            The same vectors, scaled to length one with `normalise`.
        """
        return unit(vectors) if self.config.normalise else vectors


class EventGroundingForPreTraining(EventGroundingPreTrainedModel):
    """Training head that scores mentions with the events of the batch, and parents with children.

    Events have ids. Every event of the batch that is gold for a mention is its positive, whichever mention
    and process it came with.
    """

    def __init__(self, config, encoder=None):
        super().__init__(config)
        self.event_grounding = EventGroundingModel(config, encoder=encoder)
        self.hierarchy_scorer = HierarchyScorer(config.projection_dim, config.full_complex)
        learns = config.learnable_score_scale or config.score_bias is not None
        self.score_calibration = (
            ScoreCalibration(config.score_scale, config.learnable_score_scale, config.score_bias)
            if learns
            else None
        )
        self.train(self.training)
        self.post_init()

    def train(self, mode: bool = True):
        """Switch training mode; parameters that the configured stage does not use get no gradient."""
        super().train(mode)
        model, stage = self.event_grounding, self.config.stage
        idle: list[nn.Module | None] = [self.hierarchy_scorer] if stage == "linking" else []
        if stage == "hierarchy":
            of_mentions = [] if self.config.share_towers else [model.encoder, model.projection]
            idle = [self.score_calibration, *of_mentions]
        # Repeated at each call: loading weights makes all of them trainable.
        for module in idle:
            if module is not None:
                module.requires_grad_(False)
        return self

    def encode_views(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        event_input_ids: torch.Tensor | None = None,
        event_attention_mask: torch.Tensor | None = None,
        parent_input_ids: torch.Tensor | None = None,
        parent_attention_mask: torch.Tensor | None = None,
        child_input_ids: torch.Tensor | None = None,
        child_attention_mask: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        """Encode the texts of the configured stage, those of each tower together; equal texts once.

        Args:
            input_ids: the mentions, `(B, L)`; not used in the stage `hierarchy`.
            attention_mask: `(B, L)`.
            event_input_ids: the k events of each mention, `(B, k, L')`: a gold one, and others such as hard
                negatives.
            event_attention_mask: `(B, k, L')`.
            parent_input_ids: the parents of h pairs of the hierarchy, `(B, h, L'')`.
            parent_attention_mask: `(B, h, L'')`.
            child_input_ids: their children, `(B, h, L''')`.
            child_attention_mask: `(B, h, L''')`.

        Returns:
            Vectors by view: `mentions` `(B, d)`, `events` `(B, k, d)`, `parents` and `children` `(B, h, d)`,
            those of the configured stage.

        Raises:
            ValueError: a view that the configured stage needs is missing.
        """
        given = {
            "mentions": (input_ids, attention_mask),
            "events": (event_input_ids, event_attention_mask),
            "parents": (parent_input_ids, parent_attention_mask),
            "children": (child_input_ids, child_attention_mask),
        }
        groups = {name: given[name] for name in _STAGE_INPUTS[self.config.stage]}
        check_given(f"event grounding in the stage {self.config.stage} needs the views", groups)
        towers: dict[EventEncoderModel, list[str]] = {}
        for name in groups:
            tower = self.event_grounding.tower("mention" if name == "mentions" else "event")
            towers.setdefault(tower, []).append(name)
        views: dict[str, torch.Tensor] = {}
        for tower, names in towers.items():
            vectors = tower.embed_distinct([groups[name] for name in names])
            views.update(zip(names, vectors, strict=True))
        return views

    def losses_from_views(
        self,
        views: dict[str, torch.Tensor],
        event_ids: torch.Tensor | None = None,
        gold_event_ids: torch.Tensor | None = None,
        parent_ids: torch.Tensor | None = None,
        known_parent_ids: torch.Tensor | None = None,
    ) -> EventGroundingForPreTrainingOutput:
        """Compute the losses of the configured stage on the vectors of all processes.

        Args:
            views: output of `encode_views`.
            event_ids: id of each event, `(B, k)`, from 0; the same in every language.
            gold_event_ids: ids of all gold events of each mention, `(B, G)`; padded with -1.
            parent_ids: id of each parent, `(B, h)`, from 0.
            known_parent_ids: ids of all parents of each child in the hierarchy, `(B, h, K)`; padded with -1.

        Returns:
            The losses; `embeddings` holds the mentions of this process.

        Raises:
            ValueError: ids that the configured stage needs are missing.
        """
        config = self.config
        ids: dict[str, torch.Tensor | None] = {}
        if "mentions" in views:
            ids |= {"event_ids": event_ids, "gold_event_ids": gold_event_ids}
        if "parents" in views:
            ids |= {"parent_ids": parent_ids, "known_parent_ids": known_parent_ids}
        check_given(f"event grounding in the stage {config.stage} needs", ids)
        gathered = {name: gather_rows(value) for name, value in {**views, **ids}.items()}
        terms = {}
        if "mentions" in views:
            pairs = gathered["mentions"], gathered["events"].flatten(0, -2)
            numbers = gathered["event_ids"].flatten()
            gold = gold_pairs(numbers, gathered["gold_event_ids"])
            calibration: dict[str, torch.Tensor | float] = {"scale": config.score_scale}
            if self.score_calibration is not None:
                calibration = self.score_calibration()
            if config.linking_objective == "softmax":
                scale, distinct = calibration["scale"], first_places(numbers)
                terms["linking_loss"] = linking_contrast(
                    *pairs, gold, distinct, normalise=config.normalise, scale=scale
                )
            else:
                terms["linking_loss"] = linking_loss(*pairs, gold, normalise=config.normalise, **calibration)
        if "parents" in views:
            is_parent = gold_pairs(
                gathered["parent_ids"].flatten(), gathered["known_parent_ids"].flatten(0, -2)
            )
            scores = self.hierarchy_scorer(
                gathered["parents"].flatten(0, -2), gathered["children"].flatten(0, -2)
            )
            terms["hierarchy_loss"] = hierarchy_loss(scores, is_parent.transpose(0, 1))
        # The weight of the hierarchy loss is that beside the linking loss.
        loss = weighted_sum(terms, config) if config.stage == "joint" else sum(terms.values())
        mentions = views.get("mentions")
        embeddings = None if mentions is None else self.event_grounding.comparable(mentions)
        return EventGroundingForPreTrainingOutput(loss=loss, embeddings=embeddings, **terms)

    forward = training_forward(
        EventGroundingModel, encode_views, losses_from_views, EventGroundingForPreTrainingOutput
    )
