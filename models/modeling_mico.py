"""MICO: multi-alternative contrastive learning of commonsense knowledge (Su et al., 2022)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional
from transformers.utils import ModelOutput, can_return_tuple

from .choice_rows import split_rows
from .commonsense_losses import feature_distillation, multi_alternative_contrast
from .configuration_mico import MicoConfig
from .distributed import gather_rows
from .modeling_base import EventEncoderModel, EventMultipleChoiceOutput, EventPreTrainedModel, layers_of
from .training_head import check_given, training_forward, weighted_sum

if TYPE_CHECKING:
    # Imported so that saving and loading include their code.
    from .pipeline_commonsense_completion import CommonsenseCompletionPipeline  # noqa: F401
    from .pipeline_event_embedding import EventEmbeddingPipeline  # noqa: F401
    from .pipeline_next_event import NextEventPipeline  # noqa: F401
    from .processing_mico import MicoProcessor  # noqa: F401


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


class MicoPreTrainedModel(EventPreTrainedModel):
    """Base class of the MICO models."""

    config: MicoConfig
    base_model_prefix = "mico"


class MicoModel(EventEncoderModel, MicoPreTrainedModel):
    """MICO's encoder of premises and alternatives: the pooled output of a pretrained encoder."""

    config: MicoConfig


class MicoForPreTraining(MicoPreTrainedModel):
    """Training head of MICO, which encodes every distinct text of a batch once and computes Eq. 6."""

    def __init__(self, config, encoder=None):
        super().__init__(config)
        self.mico = MicoModel(config, encoder=encoder)
        self.feature_dropout = nn.Dropout(config.feature_dropout)
        self.post_init()

    def encode_views(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        alternative_input_ids: torch.Tensor | None = None,
        alternative_attention_mask: torch.Tensor | None = None,
        distillation_input_ids: torch.Tensor | None = None,
        distillation_attention_mask: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        """Encode premises, alternatives and the other texts that the configuration needs; equal texts once.

        Args:
            input_ids: the premises, `(B, L)`.
            attention_mask: `(B, L)`.
            alternative_input_ids: k alternatives of each premise, its own first, `(B, k, L')`.
            alternative_attention_mask: `(B, k, L')`.
            distillation_input_ids: a text outside the graph for each row, `(B, M)`.
            distillation_attention_mask: `(B, M)`.

        Returns:
            Vectors by view: `premise` `(B, d)`, `alternatives` `(B, k, d)`; and with `distillation_weight`
            `distillation` `(B, d)`.

        Raises:
            ValueError: a view that the configuration needs is missing.
        """
        groups = {
            "premise": (input_ids, attention_mask),
            "alternatives": (alternative_input_ids, alternative_attention_mask),
        }
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
        if config.mask_known_positives:
            needed["alternative_ids"] = alternative_ids
            needed["known_alternative_ids"] = known_alternative_ids
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
        left_out = None
        if config.mask_known_positives:
            ids, known_ids = gathered["alternative_ids"], gathered["known_alternative_ids"]
            wanted = ids.flatten().expand(len(known_ids), -1).contiguous()
            places = torch.searchsorted(known_ids, wanted).clamp(max=known_ids.shape[1] - 1)
            left_out = (known_ids.gather(1, places) == wanted).unflatten(1, ids.shape)
        if graph is not None:
            is_other = (gathered["graph"].unsqueeze(1) != gathered["graph"]).unsqueeze(-1)
            left_out = is_other if left_out is None else left_out | is_other
        terms = {}
        terms["contrastive_loss"] = multi_alternative_contrast(
            gathered["premise"],
            gathered["alternatives"],
            config.contrastive_temperature,
            left_out,
            chosen=gathered.get("positive_index"),
            own_alternatives=config.own_alternatives,
            log_frequency=gathered.get("log_frequency"),
        )
        if config.distillation_weight:
            terms["distillation_loss"] = feature_distillation(
                gathered["distillation"], gathered["distillation_vectors"], gathered["distillation_mask"]
            )
        return MicoForPreTrainingOutput(
            loss=weighted_sum(terms, config), **terms, embeddings=views["premise"]
        )

    forward = training_forward(MicoModel, encode_views, losses_from_views, MicoForPreTrainingOutput)


class MicoForMultipleChoice(MicoPreTrainedModel):
    """Head that chooses the alternative nearest to a premise, zero-shot (Eq. 7)."""

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
    ) -> EventMultipleChoiceOutput:
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
            `EventMultipleChoiceOutput`: the logits are the cosines over the temperature.

        Raises:
            ValueError: a pair is not two texts.
        """
        pairs = input_ids if input_ids is not None and input_ids.dim() == 3 else None
        if alternative_input_ids is None and pairs is None:
            kwargs.update(token_type_ids=token_type_ids, return_dict=True)
            output = self.mico(input_ids, attention_mask, **kwargs)
            return EventMultipleChoiceOutput(embeddings=output.embeddings, **layers_of(output))
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        if alternative_input_ids is None and pairs is not None:
            rows, shape = (
                split_rows(pairs.flatten(0, 1), attention_mask.flatten(0, 1)),
                pairs.shape[:2],
            )
            absent = (rows.counts == 0).view(shape)
            if wrong := sorted(set(rows.counts.tolist()) - {0, 2}):
                raise ValueError(
                    f"found a choice of {wrong[0]} texts between separating tokens; accepted: two, the "
                    "premise and the alternative, as tokenizer(premise, alternative) writes them"
                )
            with self.mico.keeping_layers(rows.input_ids, **kwargs) as layers:
                [vectors] = self.mico.embed_distinct([(rows.input_ids, rows.attention_mask)])
            premises, alternatives = vectors[rows.texts[:, :2]].unflatten(0, shape).unbind(dim=2)
        else:
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
        cosines = functional.cosine_similarity(premises.float(), alternatives.float(), dim=-1)
        logits = (cosines / self.config.contrastive_temperature).masked_fill(absent, float("-inf"))
        loss = None if labels is None else functional.cross_entropy(logits, labels)
        return EventMultipleChoiceOutput(loss=loss, logits=logits, embeddings=premises[:, 0], **layers)
