"""MICO: multi-alternative contrastive learning of commonsense knowledge (Su et al., 2022)."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional
from transformers import initialization as init
from transformers.utils import ModelOutput, can_return_tuple

from .choice_rows import split_rows
from .commonsense_losses import feature_distillation, multi_alternative_contrast
from .configuration_mico import MicoConfig
from .distributed import gather_rows
from .modeling_base import EventEncoderModel, EventPreTrainedModel, layers_of
from .training_head import check_given, training_forward, weighted_sum

if TYPE_CHECKING:
    # Imported so that saving and loading include their code.
    from .pipeline_commonsense_completion import CommonsenseCompletionPipeline  # noqa: F401
    from .pipeline_event_embedding import EventEmbeddingPipeline  # noqa: F401
    from .pipeline_next_event import NextEventPipeline  # noqa: F401
    from .processing_mico import MicoProcessor  # noqa: F401

NO_ALTERNATIVE = -1
"""Id of an empty slot in the queue of earlier alternatives."""
_OF_TRAINING = (r"^logit_scale\.logarithm$", r"^earlier_alternatives\.(vectors|ids)$")
"""The training head's own weights, which the other classes skip. Any other unused weight is reported."""


@dataclass
class MicoForPreTrainingOutput(ModelOutput):
    """Output of MICO's training head.

    Args:
        loss: weighted sum of the terms, a scalar; None without alternatives.
        contrastive_loss: the contrast of premises and alternatives (Eq. 6).
        distillation_loss: beyond the paper, the distance of texts outside the graph from their initial
            vectors, before its weight; None if `distillation_weight` is 0.
        embeddings: vectors of the premises, not normalised, `(batch, projection_dim)`.
        hidden_states: token vectors of every layer of the encoder for the premises, if requested.
        attentions: attention weights of every layer, if requested.
    """

    loss: torch.FloatTensor | None = None
    contrastive_loss: torch.FloatTensor | None = None
    distillation_loss: torch.FloatTensor | None = None
    embeddings: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


@dataclass
class MicoForMultipleChoiceOutput(ModelOutput):
    """Output of MICO's zero-shot multiple choice.

    Args:
        loss: cross-entropy of the right alternative, a scalar; None without labels.
        logits: cosine of premise and alternative over the temperature, `(batch, choices)`; minus infinity
            if a question has fewer alternatives.
        embeddings: vectors of the premises, not normalised, `(batch, projection_dim)`.
        hidden_states: token vectors of every layer of the encoder for the premises, or for each text of the
            pairs, if requested.
        attentions: attention weights of every layer, if requested.
    """

    loss: torch.FloatTensor | None = None
    logits: torch.FloatTensor | None = None
    embeddings: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


class LogitScale(nn.Module):
    """Inverse of the temperature of a contrastive loss, learned as its logarithm."""

    def __init__(self, temperature: float):
        super().__init__()
        self.start = -math.log(temperature)
        self.logarithm = nn.Parameter(torch.tensor([self.start]))

    def forward(self) -> torch.Tensor:
        """The temperature, a scalar."""
        return (-self.logarithm).exp().squeeze()


class EarlierAlternatives(nn.Module):
    """A queue of the alternatives of earlier batches, newest first.

    It is a module so that adapters save and load it with the other modules.
    """

    def __init__(self, size: int, dimension: int):
        super().__init__()
        self.register_buffer("vectors", torch.zeros(size, dimension))
        self.register_buffer("ids", torch.full((size,), NO_ALTERNATIVE, dtype=torch.long))

    def forward(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Copies of the vectors `(size, d)` and ids `(size,)`, which later batches do not overwrite."""
        return self.vectors.clone(), self.ids.clone()

    @torch.no_grad()
    def remember(self, vectors: torch.Tensor, ids: torch.Tensor) -> None:
        """Add vectors `(B, d)` with their ids `(B,)` to the head of the queue."""
        size = len(self.ids)
        self.vectors.copy_(torch.cat([vectors.to(self.vectors.dtype), self.vectors])[:size])
        self.ids.copy_(torch.cat([ids, self.ids])[:size])


class MicoPreTrainedModel(EventPreTrainedModel):
    """Base class of the MICO models."""

    config: MicoConfig
    base_model_prefix = "mico"

    @torch.no_grad()
    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, LogitScale):
            init.constant_(module.logarithm, module.start)
        elif isinstance(module, EarlierAlternatives):
            init.zeros_(module.vectors)
            init.constant_(module.ids, NO_ALTERNATIVE)


class MicoModel(EventEncoderModel, MicoPreTrainedModel):
    """MICO's encoder of premises and alternatives: the pooled output of a pretrained encoder."""

    config: MicoConfig
    _keys_to_ignore_on_load_unexpected = _OF_TRAINING


class MicoForPreTraining(MicoPreTrainedModel):
    """Training head of MICO, which encodes every distinct text of a batch once and computes Eq. 6."""

    def __init__(self, config, encoder=None):
        super().__init__(config)
        self.mico = MicoModel(config, encoder=encoder)
        self.feature_dropout = nn.Dropout(config.feature_dropout)
        self.logit_scale = (
            LogitScale(config.contrastive_temperature) if config.learnable_temperature else None
        )
        self.earlier_alternatives = (
            EarlierAlternatives(config.pre_batch_negatives, config.projection_dim)
            if config.pre_batch_negatives
            else None
        )
        self.post_init()

    def encode_views(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        alternative_input_ids: torch.Tensor | None = None,
        alternative_attention_mask: torch.Tensor | None = None,
        entity_input_ids: torch.Tensor | None = None,
        entity_attention_mask: torch.Tensor | None = None,
        distillation_input_ids: torch.Tensor | None = None,
        distillation_attention_mask: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        """Encode premises, alternatives and the other texts that the configuration needs; equal texts once.

        Args:
            input_ids: the premises, `(B, L)`.
            attention_mask: `(B, L)`.
            alternative_input_ids: k alternatives of each premise, its own first, `(B, k, L')`.
            alternative_attention_mask: `(B, k, L')`.
            entity_input_ids: the entity of each premise, `(B, L'')`.
            entity_attention_mask: `(B, L'')`.
            distillation_input_ids: a text outside the graph for each row, `(B, M)`.
            distillation_attention_mask: `(B, M)`.

        Returns:
            Vectors by view: `premise` `(B, d)`, `alternatives` `(B, k, d)`; with `self_negatives` `entity`
            `(B, d)`; and with `distillation_weight` `distillation` `(B, d)`.

        Raises:
            ValueError: a view that the configuration needs is missing.
        """
        groups = {
            "premise": (input_ids, attention_mask),
            "alternatives": (alternative_input_ids, alternative_attention_mask),
        }
        if self.config.self_negatives:
            groups["entity"] = (entity_input_ids, entity_attention_mask)
        if self.config.distillation_weight:
            groups["distillation"] = (distillation_input_ids, distillation_attention_mask)
        check_given("MICO needs the views", groups)
        vectors = self.mico.embed_distinct(list(groups.values()))
        return {name: self.feature_dropout(rows) for name, rows in zip(groups, vectors, strict=True)}

    def losses_from_views(
        self,
        views: dict[str, torch.Tensor],
        alternative_ids: torch.Tensor | None = None,
        known_alternative_ids: torch.Tensor | None = None,
        entity_ids: torch.Tensor | None = None,
        positive_index: torch.Tensor | None = None,
        log_frequency: torch.Tensor | None = None,
        graph: torch.Tensor | None = None,
        distillation_vectors: torch.Tensor | None = None,
        distillation_mask: torch.Tensor | None = None,
    ) -> MicoForPreTrainingOutput:
        """Compute the terms on the vectors of all processes.

        Args:
            views: output of `encode_views`.
            alternative_ids: id of the text of each alternative, `(B, k)`.
            known_alternative_ids: ids of the alternatives of each premise in the training graph, `(B, M)`,
                each row sorted and padded with a number above all ids.
            entity_ids: id of the alternative that equals each entity, `(B,)`; -1 if there is none.
            positive_index: index of the alternative that is the positive, `(B,)`, for `positive="random"`.
            log_frequency: log of the frequency of each alternative in the training graph, `(B, k)`, for
                `frequency_correction`.
            graph: number of the graph of each row, `(B,)`; alternatives of rows of another graph are no
                negatives. None for a single graph.
            distillation_vectors: the untrained encoder's vector of each text outside the graph, `(B, d)`.
            distillation_mask: True for the rows whose text counts, `(B,)`.

        Returns:
            The losses; `embeddings` holds the premises of this process.

        Raises:
            ValueError: ids that the configuration needs are missing.
        """
        config = self.config
        needed = {}
        if config.mask_known_positives or config.pre_batch_negatives:
            needed["alternative_ids"] = alternative_ids
        if config.mask_known_positives:
            needed["known_alternative_ids"] = known_alternative_ids
            if config.self_negatives:
                needed["entity_ids"] = entity_ids
        if config.positive == "random":
            needed["positive_index"] = positive_index
        if config.frequency_correction:
            needed["log_frequency"] = log_frequency
        if config.distillation_weight:
            needed["distillation_vectors"] = distillation_vectors
            needed["distillation_mask"] = distillation_mask
        check_given("MICO needs", needed)
        if graph is not None:
            needed["graph"] = graph
        gathered = {name: gather_rows(value) for name, value in {**views, **needed}.items()}
        negatives = self._further_negatives(gathered)
        temperature = config.contrastive_temperature if self.logit_scale is None else self.logit_scale()
        left_out = None
        if config.mask_known_positives:
            ids = gathered["alternative_ids"]
            known = _is_known(gathered["known_alternative_ids"], ids.flatten())
            left_out = known.unflatten(1, ids.shape)
        if graph is not None:
            is_other = (gathered["graph"].unsqueeze(1) != gathered["graph"]).unsqueeze(-1)
            left_out = is_other if left_out is None else left_out | is_other
        terms = {}
        terms["contrastive_loss"] = multi_alternative_contrast(
            gathered["premise"],
            gathered["alternatives"],
            temperature,
            left_out,
            chosen=gathered.get("positive_index"),
            margin=config.additive_margin,
            own_alternatives=config.own_alternatives,
            log_frequency=gathered.get("log_frequency"),
            **negatives,
        )
        if self.earlier_alternatives is not None and self.training:
            self.earlier_alternatives.remember(
                gathered["alternatives"][:, 0], gathered["alternative_ids"][:, 0]
            )
        if config.distillation_weight:
            terms["distillation_loss"] = feature_distillation(
                gathered["distillation"], gathered["distillation_vectors"], gathered["distillation_mask"]
            )
        return MicoForPreTrainingOutput(
            loss=weighted_sum(terms, config), **terms, embeddings=views["premise"]
        )

    def _further_negatives(self, gathered: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        negatives = {}
        if self.config.self_negatives:
            negatives["row_negatives"] = gathered["entity"].unsqueeze(1)
        if self.config.self_negatives and self.config.mask_known_positives:
            # An entity may be an answer to its own premise: a dog is near a dog.
            own = gathered["entity_ids"].unsqueeze(1)
            negatives["row_negatives_mask"] = _is_known(gathered["known_alternative_ids"], own)
        if self.earlier_alternatives is not None:
            negatives["shared_negatives"], ids = self.earlier_alternatives()
            left_out = (ids == NO_ALTERNATIVE).expand(len(gathered["premise"]), -1)
            if self.config.mask_known_positives:
                left_out = left_out | _is_known(gathered["known_alternative_ids"], ids)
            negatives["shared_negatives_mask"] = left_out
        return negatives

    forward = training_forward(MicoModel, encode_views, losses_from_views, MicoForPreTrainingOutput)


class MicoForMultipleChoice(MicoPreTrainedModel):
    """Head that chooses the alternative nearest to a premise, zero-shot (Eq. 7)."""

    _keys_to_ignore_on_load_unexpected = _OF_TRAINING

    def __init__(self, config, encoder=None):
        super().__init__(config)
        self.mico = MicoModel(config, encoder=encoder)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        alternative_input_ids: torch.Tensor | None = None,
        alternative_attention_mask: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        token_type_ids: torch.Tensor | None = None,
        **kwargs,
    ) -> MicoForMultipleChoiceOutput:
        """Score the alternatives of each premise.

        Args:
            input_ids: the premises, `(B, L)`; or pairs, as `tokenizer(premise, alternative)` writes them,
                `(B, C, L)`, without `alternative_input_ids`.
            attention_mask: of the shape of `input_ids`; None if nothing is padded. A pair of padding only is
                a missing alternative.
            alternative_input_ids: `(B, C, L')`; without them, and without pairs, only the premises' vectors
                are computed.
            alternative_attention_mask: `(B, C, L')`; None if nothing is padded. A row of padding only is a
                missing alternative: its logit is minus infinity.
            labels: index of the correct alternative, `(B,)`.
            token_type_ids: `(B, L)`, for encoders that know segments; not used with choices.
            **kwargs: `output_hidden_states`, `output_attentions` and `return_dict`; others are passed to the
                encoder if only vectors are computed.

        Returns:
            `MicoForMultipleChoiceOutput`.

        Raises:
            ValueError: a pair is not two texts.
        """
        if alternative_input_ids is None and input_ids is not None and input_ids.dim() == 3:
            premises, alternatives, absent, layers = self._split_pairs(input_ids, attention_mask, **kwargs)
        elif alternative_input_ids is None:
            kwargs.update(token_type_ids=token_type_ids, return_dict=True)
            output = self.mico(input_ids, attention_mask, **kwargs)
            return MicoForMultipleChoiceOutput(embeddings=output.embeddings, **layers_of(output))
        else:
            if attention_mask is None:
                attention_mask = torch.ones_like(input_ids)
            if alternative_attention_mask is None:
                alternative_attention_mask = torch.ones_like(alternative_input_ids)
            absent = alternative_attention_mask.sum(dim=-1) == 0
            # Attention over padding only would give NaN.
            readable = alternative_attention_mask.masked_fill(absent.unsqueeze(-1), 1)
            with self.mico.keeping_layers(input_ids, **kwargs) as layers:
                premises, alternatives = self.mico.embed_distinct(
                    [(input_ids, attention_mask), (alternative_input_ids, readable)]
                )
            premises = premises.unsqueeze(1)
        return self._choose(premises, alternatives, absent, labels, **layers)

    def _split_pairs(self, input_ids: torch.Tensor, attention_mask: torch.Tensor | None, **kwargs) -> tuple:
        """Premises `(B, C, d)`, alternatives `(B, C, d)`, missing ones `(B, C)` and the layers of pairs."""
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        rows = split_rows(input_ids.flatten(0, 1), attention_mask.flatten(0, 1))
        absent = rows.counts == 0
        if bool((~absent & (rows.counts != 2)).any()):
            found = sorted(set(rows.counts[~absent].tolist()) - {2})
            raise ValueError(
                f"found a choice of {found[0]} texts between separating tokens; accepted: two, the premise "
                "and the alternative, as tokenizer(premise, alternative) writes them"
            )
        with self.mico.keeping_layers(rows.input_ids, **kwargs) as layers:
            [vectors] = self.mico.embed_distinct([(rows.input_ids, rows.attention_mask)])
        shape = input_ids.shape[:2]
        premises, alternatives = vectors[rows.texts[:, :2]].unbind(dim=1)
        return premises.unflatten(0, shape), alternatives.unflatten(0, shape), absent.view(shape), layers

    def _choose(
        self,
        premises: torch.Tensor,
        alternatives: torch.Tensor,
        absent: torch.Tensor,
        labels: torch.Tensor | None,
        **layers: tuple[torch.Tensor, ...],
    ) -> MicoForMultipleChoiceOutput:
        """Score alternatives `(B, C, d)` of premises, one for all or one for each, `(B, 1 or C, d)`."""
        cosines = functional.cosine_similarity(premises.float(), alternatives.float(), dim=-1)
        logits = (cosines / self.config.contrastive_temperature).masked_fill(absent, float("-inf"))
        loss = None if labels is None else functional.cross_entropy(logits, labels)
        return MicoForMultipleChoiceOutput(loss=loss, logits=logits, embeddings=premises[:, 0], **layers)


def _is_known(known_ids: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Mark the ids that each row knows: sorted `(B, M)` and `(N,)` or `(B, N)` to bool `(B, N)`."""
    wanted = ids.expand(len(known_ids), -1).contiguous()
    places = torch.searchsorted(known_ids, wanted).clamp(max=known_ids.shape[1] - 1)
    return known_ids.gather(1, places) == wanted
