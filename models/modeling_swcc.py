"""SWCC: simultaneous weakly supervised contrastive learning and clustering (Gao et al., 2022)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch import nn
from torch.nn import functional
from transformers.utils import ModelOutput

from .commonsense_losses import feature_distillation
from .configuration_swcc import SwccConfig
from .distributed import gather_rows
from .event_losses import (
    cluster_prediction,
    info_nce,
    margin_contrast,
    prototype_entropy,
    shared_word_contrast,
    weakly_supervised_contrastive,
)
from .layer_weights import weight_of
from .modeling_base import EventEncoderModel, EventPreTrainedModel
from .training_head import check_given, training_forward, weighted_sum

if TYPE_CHECKING:
    # Imported so that saving and loading include their code.
    from .pipeline_event_embedding import EventEmbeddingPipeline  # noqa: F401
    from .pipeline_next_event import NextEventPipeline  # noqa: F401


@dataclass
class SwccForPreTrainingOutput(ModelOutput):
    """Output of SWCC's training head.

    Args:
        loss: weighted sum of the terms below (Eq. 9), a scalar; None if no views are given. The stage
            `sentences` has the last term alone, and `contrast` the others.
        contrastive_loss: L_cl (Eq. 6), or the configured alternative objective.
        cluster_loss: L_cp (Eq. 7), before its weight.
        mlm_loss: cross-entropy of the masked token, before its weight.
        prototype_entropy_loss: entropy of the prototype distribution, before its weight.
        shared_word_loss: contrast of paraphrases with events that share words, before its weight.
        sentence_loss: squared distance of the anchors from the initial vectors of their sentences.
        embeddings: vectors of the anchors, not normalised, `(batch, projection_dim)`.
        hidden_states: token vectors of every layer of the encoder for the anchors, if requested.
        attentions: attention weights of every layer, if requested.
    """

    loss: torch.FloatTensor | None = None
    contrastive_loss: torch.FloatTensor | None = None
    cluster_loss: torch.FloatTensor | None = None
    mlm_loss: torch.FloatTensor | None = None
    prototype_entropy_loss: torch.FloatTensor | None = None
    shared_word_loss: torch.FloatTensor | None = None
    sentence_loss: torch.FloatTensor | None = None
    embeddings: torch.FloatTensor | None = None
    hidden_states: tuple[torch.FloatTensor, ...] | None = None
    attentions: tuple[torch.FloatTensor, ...] | None = None


class SwccPreTrainedModel(EventPreTrainedModel):
    """Base class of the SWCC models."""

    config: SwccConfig
    base_model_prefix = "swcc"


class SwccModel(EventEncoderModel, SwccPreTrainedModel):
    """SWCC's event encoder: the vector of an event is the pooled output of a pretrained encoder (Eq. 2)."""

    config: SwccConfig
    # These weights belong to the training head. Any other unused weight is still reported.
    _keys_to_ignore_on_load_unexpected = (r"^prototypes\.weight$", r"^mlm_head\.(weight|bias)$")


class SwccForPreTraining(SwccPreTrainedModel):
    """Training head of SWCC with contrast, prototypes and masked token, in one encoder pass for all views."""

    # Heads of earlier releases have it even if no loss uses it.
    _keys_to_ignore_on_load_unexpected = (r"^mlm_head\.(weight|bias)$",)

    def __init__(self, config, encoder=None):
        super().__init__(config)
        self.swcc = SwccModel(config, encoder=encoder)
        self.prototypes = nn.Linear(config.projection_dim, config.num_prototypes, bias=False)
        sizes = config.encoder_config.hidden_size, config.encoder_config.vocab_size
        self.mlm_head = nn.Linear(*sizes) if config.mlm_weight else None
        self.post_init()

    def get_output_embeddings(self):
        """The layer that predicts masked tokens, whose size follows the vocabulary; None with `mlm_weight`
        0."""
        return self.mlm_head

    def set_output_embeddings(self, new_embeddings):
        """Replace the layer that predicts masked tokens."""
        self.mlm_head = new_embeddings

    def encode_views(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        co_event_input_ids: torch.Tensor | None = None,
        co_event_attention_mask: torch.Tensor | None = None,
        masked_input_ids: torch.Tensor | None = None,
        masked_positions: torch.Tensor | None = None,
        paraphrase_input_ids: torch.Tensor | None = None,
        paraphrase_attention_mask: torch.Tensor | None = None,
        negative_input_ids: torch.Tensor | None = None,
        negative_attention_mask: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        """Encode every view that the configured losses need, in one encoder pass.

        The dropout views repeat the same rows: dropout draws another mask for each row.

        Args:
            input_ids: the anchors, `(B, L)`.
            attention_mask: `(B, L)`.
            co_event_input_ids: one event of the same document for each anchor, `(B, L')`.
            co_event_attention_mask: `(B, L')`.
            masked_input_ids: the anchors with one token masked, `(B, L)`.
            masked_positions: position of that token, `(B,)`.
            paraphrase_input_ids: an event of similar meaning for each anchor, without its words, `(B, L'')`.
            paraphrase_attention_mask: `(B, L'')`.
            negative_input_ids: N events for each anchor that share words with it, `(B, N, L'')`.
            negative_attention_mask: `(B, N, L'')`.

        Returns:
            Vectors by view: `anchor`, `view_1`, `view_2`, `co_event` `(B, d)`, `masked_token`
            `(B, hidden_size)`, `paraphrase` `(B, d)`, `negatives` `(B, N, d)`; only those that are needed.

        Raises:
            ValueError: a view that the configured losses need is missing.
        """
        config = self.config
        objective = config.contrastive_objective
        groups = {"anchor": (input_ids, attention_mask)}
        if config.stage == "sentences":
            return {"anchor": self.swcc.embed_distinct(list(groups.values()))[0]}
        if objective in ("weakly_supervised", "dropout_views") or config.cluster_weight:
            groups["view_1"] = groups["view_2"] = (input_ids, attention_mask)
        contrasts_co_event = config.shared_word_weight and config.shared_word_co_event_weight
        if objective != "dropout_views" or contrasts_co_event:
            groups["co_event"] = (co_event_input_ids, co_event_attention_mask)
        if config.mlm_weight:
            groups["masked_token"] = (masked_input_ids, attention_mask)
        if config.shared_word_weight:
            groups["paraphrase"] = (paraphrase_input_ids, paraphrase_attention_mask)
            groups["negatives"] = (negative_input_ids, negative_attention_mask)
        positions = {"masked_positions": masked_positions} if config.mlm_weight else {}
        check_given(
            f"the objective {objective!r} with these loss weights needs the views", {**groups, **positions}
        )
        if config.shared_word_weight:
            ids, mask = groups["negatives"]
            groups["negatives"] = (ids.flatten(0, 1), mask.flatten(0, 1))
        encoded = dict(zip(groups, self.swcc.encode_together(list(groups.values())), strict=True))
        views = {
            name: self.swcc.pool(hidden, mask)
            for name, (hidden, mask) in encoded.items()
            if name != "masked_token"
        }
        if config.mlm_weight:
            hidden, _ = encoded["masked_token"]
            views["masked_token"] = hidden[torch.arange(len(hidden), device=hidden.device), masked_positions]
        if config.shared_word_weight:
            views["negatives"] = views["negatives"].unflatten(0, (len(input_ids), -1))
        return views

    def losses_from_views(
        self,
        views: dict[str, torch.Tensor],
        co_event_weight: torch.Tensor | None = None,
        masked_token_ids: torch.Tensor | None = None,
        sentence_vectors: torch.Tensor | None = None,
    ) -> SwccForPreTrainingOutput:
        """Compute the losses of the configured stage on the vectors of all processes.

        Args:
            views: output of `encode_views`.
            co_event_weight: normalised co-occurrence frequency of each co-event, `(B,)`.
            masked_token_ids: id of the token that is masked, `(B,)`.
            sentence_vectors: vectors of the sentences of each anchor before the stage, `(B, d)`.

        Returns:
            The losses; `embeddings` holds the anchors of this process.

        Raises:
            ValueError: weights or labels that the configured losses need are missing.
        """
        config = self.config
        if config.stage == "sentences":
            check_given("SWCC in the stage sentences needs", {"sentence_vectors": sentence_vectors})
            loss = feature_distillation(gather_rows(views["anchor"]), gather_rows(sentence_vectors))
            return SwccForPreTrainingOutput(loss=loss, sentence_loss=loss, embeddings=views["anchor"])
        needed = {}
        contrasts_co_event = config.shared_word_weight and config.shared_word_co_event_weight
        if config.contrastive_objective == "weakly_supervised" or contrasts_co_event:
            needed["co_event_weight"] = co_event_weight
        if config.mlm_weight:
            needed["masked_token_ids"] = masked_token_ids
        check_given(f"the objective {config.contrastive_objective!r} with these loss weights needs", needed)
        gathered = {name: gather_rows(vectors) for name, vectors in views.items() if name != "masked_token"}
        terms = {"contrastive_loss": self._contrast(gathered, co_event_weight)}
        prototypes = weight_of(self.prototypes, gathered["anchor"].device)
        if config.cluster_weight:
            terms["cluster_loss"] = cluster_prediction(
                gathered["view_1"],
                gathered["view_2"],
                prototypes,
                config.cluster_temperature,
                config.sinkhorn_iterations,
                config.sinkhorn_epsilon,
            )
        if config.prototype_entropy_weight:
            terms["prototype_entropy_loss"] = prototype_entropy(
                gathered["anchor"], prototypes, config.cluster_temperature
            )
        if config.mlm_weight:
            logits = cast(nn.Linear, self.mlm_head)(views["masked_token"]).float()
            token_losses = functional.cross_entropy(logits, masked_token_ids, reduction="none")
            terms["mlm_loss"] = gather_rows(token_losses).mean()
        if config.shared_word_weight:
            of_anchor, temperature = gathered["anchor"], config.shared_word_temperature
            negatives = gathered["negatives"]
            loss = shared_word_contrast(of_anchor, gathered["paraphrase"], negatives, temperature)
            if config.shared_word_co_event_weight:
                weight = gather_rows(co_event_weight)
                loss = loss + config.shared_word_co_event_weight * shared_word_contrast(
                    of_anchor, gathered["co_event"], negatives, temperature, weight=weight
                )
            terms["shared_word_loss"] = loss
        loss = weighted_sum(terms, config)
        return SwccForPreTrainingOutput(loss=loss, embeddings=views["anchor"], **terms)

    def _contrast(self, views, co_event_weight):
        config = self.config
        if config.contrastive_objective == "info_nce":
            return info_nce(views["anchor"], views["co_event"], config.contrastive_temperature)
        if config.contrastive_objective == "margin":
            # Rows are shuffled, so the co-event of the next row is a random event.
            return margin_contrast(
                views["anchor"], views["co_event"], views["co_event"].roll(1, dims=0), config.margin
            )
        if config.contrastive_objective == "dropout_views":
            co_event, weight = views["view_1"], torch.zeros_like(views["anchor"][:, 0])
        else:
            co_event, weight = views["co_event"], gather_rows(co_event_weight)
        return weakly_supervised_contrastive(
            views["anchor"],
            views["view_1"],
            views["view_2"],
            co_event,
            weight,
            config.contrastive_temperature,
        )

    forward = training_forward(SwccModel, encode_views, losses_from_views, SwccForPreTrainingOutput)
