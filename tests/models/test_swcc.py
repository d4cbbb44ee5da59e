"""SWCC's models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from method_case import MethodCase, Variant
from swcc_inputs import swcc_inputs
from transformers import PreTrainedModel

from eventformers.models import losses
from eventformers.models.configuration_swcc import SwccConfig
from eventformers.models.modeling_swcc import SwccForPreTraining, SwccModel

CONTRAST = "contrastive_loss"


class TestSwcc(MethodCase):
    config_class = SwccConfig
    model_class = SwccModel
    head_class = SwccForPreTraining
    modules_to_save = ("prototypes", "mlm_head")
    variants = {  # noqa: RUF012
        "everything": Variant(
            {
                "pooling": "mean",
                "prototype_entropy_weight": 0.05,
                "shared_word_weight": 0.5,
                "shared_word_co_event_weight": 0.7,
            },
            (CONTRAST, "cluster_loss", "mlm_loss", "prototype_entropy_loss", "shared_word_loss"),
        ),
        "paper": Variant({}, (CONTRAST, "cluster_loss", "mlm_loss")),
        "no_clustering": Variant({"cluster_weight": 0.0}, (CONTRAST, "mlm_loss"), idle=("prototypes",)),
        "no_weak_supervision": Variant(
            {"contrastive_objective": "dropout_views"}, (CONTRAST, "cluster_loss", "mlm_loss")
        ),
        "no_mlm": Variant({"mlm_weight": 0.0}, (CONTRAST, "cluster_loss")),
        "info_nce": Variant(
            {"contrastive_objective": "info_nce", "cluster_weight": 0.0, "mlm_weight": 0.0},
            (CONTRAST,),
            idle=("prototypes",),
        ),
        "margin": Variant(
            {"contrastive_objective": "margin", "cluster_weight": 0.0, "mlm_weight": 0.0},
            (CONTRAST,),
            idle=("prototypes",),
        ),
        "shared_words_alone": Variant(
            {
                "contrastive_objective": "dropout_views",
                "cluster_weight": 0.0,
                "mlm_weight": 0.0,
                "shared_word_weight": 1.0,
            },
            (CONTRAST, "shared_word_loss"),
            idle=("prototypes",),
        ),
        "sentences": Variant(
            {"stage": "sentences", "pooling": "mean"}, ("sentence_loss",), idle=("prototypes", "mlm_head")
        ),
    }
    one_pass_fields = variants["everything"].fields
    required_inputs = {  # noqa: RUF012
        "co_event_input_ids": "co_event",
        "co_event_attention_mask": "co_event",
        "co_event_weight": "co_event_weight",
        "masked_input_ids": "masked_token",
        "masked_positions": "masked_positions",
        "masked_token_ids": "masked_token_ids",
        "paraphrase_input_ids": "paraphrase",
        "paraphrase_attention_mask": "paraphrase",
        "negative_input_ids": "negatives",
        "negative_attention_mask": "negatives",
    }
    invalid_fields = (
        ("pooling", "max"),
        ("event_order", "object_first"),
        ("projection_dim", 0),
        ("projection_dim", "large"),
        ("contrastive_objective", "triplet"),
        ("margin", -7),
        ("contrastive_temperature", 0),
        ("contrastive_temperature", -0.1),
        ("contrastive_temperature", "low"),
        ("contrastive_temperature", float("nan")),
        ("cluster_temperature", 0.0),
        ("shared_word_temperature", 0.0),
        ("sinkhorn_epsilon", 0.0),
        ("sinkhorn_iterations", 0),
        ("num_prototypes", 0),
        ("num_prototypes", 2.5),
        ("cluster_weight", -1),
        ("cluster_weight", float("nan")),
        ("prototype_entropy_weight", -0.1),
        ("mlm_weight", -0.1),
        ("shared_word_weight", -0.1),
        ("stage", "words"),
        ("frequency_normalization", "square"),
    )

    def head_inputs(self, model: PreTrainedModel) -> dict[str, torch.Tensor]:
        config = model.config
        return swcc_inputs(60 if config.encoder_config.vocab_size < 100 else 100, config.projection_dim)

    def loss_weights(self, config: Any) -> dict[str, float]:
        return {
            CONTRAST: 1.0,
            "cluster_loss": config.cluster_weight,
            "mlm_loss": config.mlm_weight,
            "prototype_entropy_loss": config.prototype_entropy_weight,
            "shared_word_loss": config.shared_word_weight,
            "sentence_loss": 1.0,
        }

    def loss_by_separate_passes(self, head: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        config = head.config
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        anchor, view_1, view_2 = (head.swcc(ids, mask).embeddings for _ in range(3))
        co_event = head.swcc(inputs["co_event_input_ids"], inputs["co_event_attention_mask"]).embeddings
        paraphrase = head.swcc(inputs["paraphrase_input_ids"], inputs["paraphrase_attention_mask"]).embeddings
        negatives = torch.stack(
            [
                head.swcc(row_ids, row_mask).embeddings
                for row_ids, row_mask in zip(
                    inputs["negative_input_ids"], inputs["negative_attention_mask"], strict=True
                )
            ]
        )
        hidden = head.swcc(inputs["masked_input_ids"], mask).last_hidden_state
        tokens = torch.stack(
            [row[position] for row, position in zip(hidden, inputs["masked_positions"], strict=True)]
        )
        terms = {
            CONTRAST: losses.weakly_supervised_contrastive(
                anchor, view_1, view_2, co_event, inputs["co_event_weight"], config.contrastive_temperature
            ),
            "cluster_loss": losses.cluster_prediction(
                view_1,
                view_2,
                head.prototypes.weight,
                config.cluster_temperature,
                config.sinkhorn_iterations,
                config.sinkhorn_epsilon,
            ),
            "prototype_entropy_loss": losses.prototype_entropy(
                anchor, head.prototypes.weight, config.cluster_temperature
            ),
            "mlm_loss": torch.nn.functional.cross_entropy(head.mlm_head(tokens), inputs["masked_token_ids"]),
            "shared_word_loss": losses.shared_word_contrast(
                anchor, paraphrase, negatives, config.shared_word_temperature
            )
            + config.shared_word_co_event_weight
            * losses.shared_word_contrast(
                anchor,
                co_event,
                negatives,
                config.shared_word_temperature,
                weight=inputs["co_event_weight"],
            ),
        }
        weights = self.loss_weights(config)
        return sum((weights[name] * term for name, term in terms.items()), torch.zeros(()))

    def test_defaults_are_the_papers(self) -> None:
        config = SwccConfig()
        assert config.pooling == "cls"
        assert (config.contrastive_temperature, config.cluster_temperature) == (0.3, 0.3)
        assert (config.num_prototypes, config.cluster_weight, config.mlm_weight) == (10, 0.1, 1.0)
        assert (config.sinkhorn_iterations, config.sinkhorn_epsilon) == (3, 0.05)
        assert (config.prototype_entropy_weight, config.shared_word_weight) == (0.0, 0.0)
        assert config.stage == "contrast"

    def test_the_weight_of_a_former_term_is_read_and_not_saved(self) -> None:
        assert "predicate_weight" not in SwccConfig(predicate_weight=1.0).to_dict()

    def test_dropout_makes_the_views(self, tiny_encoder: Path) -> None:
        head = SwccForPreTraining.from_encoder(str(tiny_encoder))
        inputs = {
            name: value
            for name, value in swcc_inputs(100).items()
            if name not in ("co_event_weight", "masked_token_ids", "sentence_vectors")
        }
        views = head.train().encode_views(**inputs)
        assert views["anchor"].shape == views["view_1"].shape == views["view_2"].shape
        pairs = [("anchor", "view_1"), ("anchor", "view_2"), ("view_1", "view_2")]
        for left, right in pairs:
            assert not torch.allclose(views[left], views[right], atol=1e-3)
        views = head.eval().encode_views(**inputs)
        for left, right in pairs:
            torch.testing.assert_close(views[left], views[right])

    def test_encodes_only_the_views_it_needs(self, tiny_encoder: Path) -> None:
        views = {
            "info_nce": {"anchor", "co_event"},
            "margin": {"anchor", "co_event"},
            "no_weak_supervision": {"anchor", "view_1", "view_2", "masked_token"},
            "no_mlm": {"anchor", "view_1", "view_2", "co_event"},
            "shared_words_alone": {"anchor", "view_1", "view_2", "paraphrase", "negatives"},
            "sentences": {"anchor"},
        }
        inputs = swcc_inputs(100)
        del inputs["co_event_weight"], inputs["masked_token_ids"], inputs["sentence_vectors"]
        for name, expected in views.items():
            head = SwccForPreTraining.from_encoder(str(tiny_encoder), **self.variants[name].fields)
            assert set(head.encode_views(**inputs)) == expected, name

    def test_stage_of_sentences_learns_their_vectors(self, tiny_encoder: Path) -> None:
        head = SwccForPreTraining.from_encoder(str(tiny_encoder), **self.variants["sentences"].fields).eval()
        inputs = swcc_inputs(100)
        anchor = head.swcc(inputs["input_ids"], inputs["attention_mask"]).embeddings
        cosines = torch.cosine_similarity(anchor, inputs["sentence_vectors"])
        torch.testing.assert_close(head(**inputs).loss, (2 - 2 * cosines).mean())
        with pytest.raises(ValueError, match=r"the stage sentences needs .* missing: sentence_vectors"):
            head(**{**inputs, "sentence_vectors": None})

    def test_margin_takes_another_rows_co_event_as_negative(self, tiny_encoder: Path) -> None:
        # [CLS] of a random encoder is nearly one vector for all texts, so it could not tell rows apart.
        head = SwccForPreTraining.from_encoder(
            str(tiny_encoder), pooling="mean", **self.variants["margin"].fields
        ).eval()
        inputs = swcc_inputs(100)
        anchor = head.swcc(inputs["input_ids"], inputs["attention_mask"]).embeddings
        co_event = head.swcc(inputs["co_event_input_ids"], inputs["co_event_attention_mask"]).embeddings
        others = torch.cat([co_event[-1:], co_event[:-1]])
        expected = losses.margin_contrast(anchor, co_event, others, head.config.margin)
        torch.testing.assert_close(head(**inputs).loss, expected, rtol=1e-5, atol=1e-6)
        assert abs(expected.item() - head.config.margin) > 1e-3

    def test_dropout_views_leave_the_co_event_out(self, tiny_encoder: Path) -> None:
        """Without dropout both views equal the anchor, and what is left is InfoNCE of the anchors."""
        fields = {"contrastive_objective": "dropout_views", "pooling": "mean"}
        head = SwccForPreTraining.from_encoder(str(tiny_encoder), **fields).eval()
        inputs = swcc_inputs(100)
        anchor = head.swcc(inputs["input_ids"], inputs["attention_mask"]).embeddings
        expected = losses.info_nce(anchor, anchor, head.config.contrastive_temperature)
        torch.testing.assert_close(head(**inputs).contrastive_loss, expected, rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("objective", ["weakly_supervised", "dropout_views", "info_nce", "margin"])
    def test_weight_matters_only_under_weak_supervision(self, tiny_encoder: Path, objective: str) -> None:
        head = SwccForPreTraining.from_encoder(str(tiny_encoder), contrastive_objective=objective).eval()
        inputs = swcc_inputs(100)
        loss = head(**inputs).contrastive_loss
        heavier = head(**{**inputs, "co_event_weight": inputs["co_event_weight"] * 2}).contrastive_loss
        assert bool(heavier > loss) == (objective == "weakly_supervised")
