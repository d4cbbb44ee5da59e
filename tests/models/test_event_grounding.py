"""The bi-encoder of hierarchical event grounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from event_grounding_inputs import (
    EVENT_IDS,
    GOLD_EVENT_IDS,
    KNOWN_PARENT_IDS,
    PARENT_IDS,
    event_grounding_inputs,
)
from method_case import MethodCase, Variant, count_rows, random_texts
from transformers import AutoModel, PreTrainedModel

from eventformers.models import losses
from eventformers.models.configuration_event_grounding import EventGroundingConfig
from eventformers.models.modeling_event_grounding import EventGroundingForPreTraining, EventGroundingModel

LINKING, HIERARCHY = "linking_loss", "hierarchy_loss"
SCORER = "hierarchy_scorer"
CALIBRATED = {"score_scale": 0.1, "learnable_score_scale": True, "score_bias": -1.0}


class TestEventGrounding(MethodCase):
    config_class = EventGroundingConfig
    model_class = EventGroundingModel
    head_class = EventGroundingForPreTraining
    modules_to_save = (SCORER, "score_calibration")
    variants = {  # noqa: RUF012
        "everything": Variant(
            {
                **CALIBRATED,
                "pooling": "mean",
                "stage": "joint",
                "hierarchy_weight": 0.3,
                "full_complex": True,
                "null_threshold": 0.25,
            },
            (LINKING, HIERARCHY),
        ),
        "baseline": Variant({}, (LINKING,), idle=(SCORER,)),
        "pretraining": Variant(
            {"stage": "hierarchy", **CALIBRATED},
            (HIERARCHY,),
            idle=("event_grounding.encoder", "event_grounding.projection", "score_calibration"),
            embeds=False,
        ),
        "joint": Variant({"stage": "joint"}, (LINKING, HIERARCHY)),
        "shared": Variant({"stage": "hierarchy", "share_towers": True}, (HIERARCHY,), embeds=False),
        "shared_joint": Variant({"stage": "joint", "share_towers": True}, (LINKING, HIERARCHY)),
        "normalised": Variant({"normalise": True, **CALIBRATED}, (LINKING,), idle=(SCORER,)),
        "scale": Variant({"learnable_score_scale": True}, (LINKING,), idle=(SCORER,)),
        "bias": Variant({"score_bias": 0}, (LINKING,), idle=(SCORER,)),
        "softmax": Variant(
            {"linking_objective": "softmax", "normalise": True, "learnable_score_scale": True},
            (LINKING,),
            idle=(SCORER,),
        ),
    }
    required_inputs = {  # noqa: RUF012
        "input_ids": "mentions",
        "event_input_ids": "events",
        "event_attention_mask": "events",
        "parent_input_ids": "parents",
        "parent_attention_mask": "parents",
        "child_input_ids": "children",
        "child_attention_mask": "children",
        "event_ids": "event_ids",
        "gold_event_ids": "gold_event_ids",
        "parent_ids": "parent_ids",
        "known_parent_ids": "known_parent_ids",
    }
    sharp_attention = True
    invalid_fields = (
        ("pooling", "max"),
        ("projection_dim", 0),
        ("mention_tokens", 4),
        ("event_tokens", 3),
        ("read_heading", "title"),
        ("share_towers", "yes"),
        ("stage", "ranking"),
        ("hierarchy_weight", -1),
        ("hierarchy_weight", float("nan")),
        ("full_complex", 2),
        ("normalise", "yes"),
        ("score_scale", 0),
        ("learnable_score_scale", 1),
        ("score_bias", "low"),
        ("null_threshold", "low"),
        ("null_threshold", float("nan")),
    )

    def head_inputs(self, model: PreTrainedModel) -> dict[str, torch.Tensor]:
        return event_grounding_inputs(60 if model.config.encoder_config.vocab_size < 100 else 100)

    def loss_weights(self, config: Any) -> dict[str, float]:
        if config.stage != "joint":
            return {LINKING: 1.0, HIERARCHY: 1.0}
        return {LINKING: 1.0, HIERARCHY: config.hierarchy_weight}

    def test_defaults_are_the_papers(self) -> None:
        config = EventGroundingConfig()
        assert (config.pooling, config.share_towers, config.projection_dim) == ("cls", False, 768)
        assert (config.mention_tokens, config.event_tokens, config.read_heading) == (128, 128, True)
        assert (config.hierarchy_weight, config.full_complex) == (0.01, False)
        assert (config.normalise, config.linking_objective) == (False, "binary")
        assert (config.score_scale, config.learnable_score_scale, config.score_bias) == (1.0, False, None)

    # Towers

    def test_both_towers_start_with_the_encoder(self, tiny_encoder: Path) -> None:
        expected = AutoModel.from_pretrained(tiny_encoder).state_dict()
        model = EventGroundingModel.from_encoder(str(tiny_encoder))
        for encoder in (model.encoder, model.event_tower.encoder):
            for name, value in encoder.state_dict().items():
                assert torch.equal(value, expected[name]), name
        shared = {id(value) for value in model.encoder.parameters()}
        assert shared.isdisjoint(id(value) for value in model.event_tower.parameters())

    def test_each_side_has_its_tower(self, tiny_encoder: Path, tmp_path: Path) -> None:
        """Also after loading, with every option of the encoders and another attention."""
        model = _model(tiny_encoder, projection_dim=7)
        with torch.no_grad():
            for value in model.event_tower.parameters():
                value.add_(0.05 * torch.randn_like(value))
        model.save_pretrained(tmp_path)
        texts = random_texts(4, 9, 100, seed=1)
        for loaded in (model, EventGroundingModel.from_pretrained(tmp_path)):
            mention, event = (loaded(*texts, side=side).embeddings for side in ("mention", "event"))
            torch.testing.assert_close(loaded(*texts).embeddings, mention)
            assert not torch.allclose(mention, event, atol=1e-3)
            hidden = loaded.event_tower.encoder(*texts).last_hidden_state[:, 0]
            torch.testing.assert_close(event, loaded.event_tower.projection(hidden))
            values = loaded(*texts, side="event", return_dict=False)
            assert isinstance(values, tuple)
            loaded.set_attn_implementation("eager")
            output = loaded(*texts, side="event", output_attentions=True)
            assert len(output.attentions) == loaded.config.encoder_config.num_hidden_layers
            torch.testing.assert_close(output.embeddings, event, rtol=1e-5, atol=1e-5)

    def test_a_shared_tower_is_one(self, tiny_encoder: Path, tmp_path: Path) -> None:
        model = _model(tiny_encoder, share_towers=True)
        own, plain = (sum(value.numel() for value in each.parameters()) for each in (model, model.encoder))
        assert own == plain
        texts = random_texts(3, 6, 100, seed=1)
        model.save_pretrained(tmp_path)
        for loaded in (model, AutoModel.from_pretrained(tmp_path)):
            torch.testing.assert_close(loaded(*texts, side="event").embeddings, loaded(*texts).embeddings)

    @pytest.mark.parametrize("share_towers", [False, True])
    def test_an_unknown_side(self, tiny_encoder: Path, share_towers: bool) -> None:
        model = _model(tiny_encoder, share_towers=share_towers)
        with pytest.raises(ValueError, match="side is 'parent'; accepted: 'mention' or 'event'"):
            model(torch.tensor([[2, 3]]), side="parent")

    def test_the_head_embeds_either_side(self, head: PreTrainedModel) -> None:
        ids, mask = random_texts(3, 6, 100, seed=1)
        expected = head.base_model(ids, mask, side="event").embeddings
        torch.testing.assert_close(head(ids, mask, side="event").embeddings, expected)

    def test_vocabularies_grow_together(self, head: PreTrainedModel, tmp_path: Path) -> None:
        size = head.config.encoder_config.vocab_size + 5
        ids, mask = random_texts(3, 6, 100, seed=1)
        expected = head.base_model(ids, mask, side="event").embeddings
        head.resize_token_embeddings(size)
        head.save_pretrained(tmp_path)
        for model in (head, EventGroundingForPreTraining.from_pretrained(tmp_path)):
            for encoder in model.text_encoders():
                assert encoder.get_input_embeddings().num_embeddings == size
                assert encoder.config.vocab_size == size
            torch.testing.assert_close(model.base_model(ids, mask, side="event").embeddings, expected)
            new_word = model.base_model(torch.full((1, 3), size - 1), side="event").embeddings
            assert torch.isfinite(new_word).all()

    # Losses

    @pytest.mark.parametrize("variant_name", ["everything", "shared_joint"])
    def test_losses_of_single_texts(self, tiny_encoder: Path, variant_name: str) -> None:
        """Every text encoded alone, and the targets written out by sets."""
        head = _head(tiny_encoder, **self.variants[variant_name].fields, projection_dim=7).eval()
        inputs = event_grounding_inputs(100)
        output = head(**inputs)
        mentions = _embed_alone(head, inputs["input_ids"], inputs["attention_mask"], "mention")
        events, parents, children = (
            _embed_alone(
                head,
                inputs[f"{name}_input_ids"].flatten(0, 1),
                inputs[f"{name}_attention_mask"].flatten(0, 1),
                "event",
            )
            for name in ("event", "parent", "child")
        )
        gold = [[event in row for each in EVENT_IDS for event in each] for row in GOLD_EVENT_IDS]
        calibration = {} if head.score_calibration is None else {"scale": 0.1, "bias": -1.0}
        linking = losses.linking_loss(mentions, events, torch.tensor(gold), **calibration)
        torch.testing.assert_close(output.linking_loss, linking, rtol=1e-4, atol=1e-5)
        known = [set(of_child) for row in KNOWN_PARENT_IDS for of_child in row]
        is_child = [[parent in of_child for of_child in known] for row in PARENT_IDS for parent in row]
        hierarchy = losses.hierarchy_loss(head.hierarchy_scorer(parents, children), torch.tensor(is_child))
        torch.testing.assert_close(output.hierarchy_loss, hierarchy, rtol=1e-4, atol=1e-5)

    def test_softmax_of_single_texts(self, tiny_encoder: Path) -> None:
        """Each event of the batch counts once, wherever it came."""
        inputs = event_grounding_inputs(100)
        fields = {"linking_objective": "softmax", "score_scale": 3.0, "normalise": True}
        head = _head(tiny_encoder, share_towers=True, **fields).eval()
        mentions = _embed_alone(head, inputs["input_ids"], inputs["attention_mask"], "mention")
        events = _embed_alone(
            head,
            inputs["event_input_ids"].flatten(0, 1),
            inputs["event_attention_mask"].flatten(0, 1),
            "event",
        )
        numbers = [event for each in EVENT_IDS for event in each]
        gold = [[event in row for event in numbers] for row in GOLD_EVENT_IDS]
        first = [event not in numbers[:place] for place, event in enumerate(numbers)]
        expected = losses.linking_contrast(
            mentions, events, torch.tensor(gold), torch.tensor(first), normalise=True, scale=3.0
        )
        torch.testing.assert_close(head(**inputs).linking_loss, expected, rtol=1e-4, atol=1e-5)
        assert not all(first)

    def test_softmax_has_no_bias(self) -> None:
        with pytest.raises(Exception, match=r"linking_objective is 'softmax'.*accepted: None"):
            EventGroundingConfig(linking_objective="softmax", score_bias=-1.0)

    def test_the_threshold_of_linking_has_no_part_in_the_loss(self, tiny_encoder: Path) -> None:
        losses = []
        for threshold in (None, 0.5):
            torch.manual_seed(0)
            head = _head(tiny_encoder, stage="joint", null_threshold=threshold).eval()
            losses.append(head(**self.head_inputs(head)).loss)
        assert torch.equal(*losses)

    def test_length_one_is_for_linking_alone(self, tiny_encoder: Path) -> None:
        """The hierarchy is learned from vectors of any length."""
        inputs, outputs, vectors = event_grounding_inputs(100), [], []
        for normalise in (False, True):
            head = _head(tiny_encoder, stage="joint", normalise=normalise).eval()
            outputs.append(head(**inputs))
            vectors.append(head.base_model(inputs["input_ids"], inputs["attention_mask"]).embeddings)
        torch.testing.assert_close(outputs[1].hierarchy_loss, outputs[0].hierarchy_loss)
        assert not torch.allclose(outputs[1].linking_loss, outputs[0].linking_loss)
        for found in (vectors[1], outputs[1].embeddings):
            torch.testing.assert_close(found, torch.nn.functional.normalize(vectors[0], dim=-1))

    def test_scorer_projects_and_scores(self, head: PreTrainedModel) -> None:
        """An event has no score with itself but for the symmetric part."""
        scorer = head.hierarchy_scorer
        vectors = torch.randn(5, 32, generator=torch.Generator().manual_seed(0))
        among = scorer(vectors, vectors)
        assert among.diagonal().abs().min() > 1e-3
        with torch.no_grad():
            scorer.relation_real.zero_()
        among = scorer(vectors, vectors)
        torch.testing.assert_close(among, -among.T)
        assert among[0, 1].abs() > 1e-3

    def test_scorer_does_not_vanish_before_training(self, tiny_encoder: Path) -> None:
        """With scores of nearly 0 the pretraining would start flat."""
        head = _head(tiny_encoder, stage="hierarchy").eval()
        vectors = torch.randn(8, 32, generator=torch.Generator().manual_seed(0))
        assert 0.1 < head.hierarchy_scorer(vectors, vectors).std().item() < 10

    def test_padding_of_numbers_changes_nothing(self, head: PreTrainedModel) -> None:
        inputs = event_grounding_inputs(100)
        expected = head(**inputs).loss
        for name in ("gold_event_ids", "known_parent_ids"):
            inputs[name] = torch.nn.functional.pad(inputs[name], (0, 2), value=-1)
        torch.testing.assert_close(head(**inputs).loss, expected)

    def test_an_event_of_another_mention_is_no_negative(self, tiny_encoder: Path) -> None:
        """The loss falls if a mention is labelled with the event of another mention."""
        head = _head(tiny_encoder).eval()
        with torch.no_grad():
            for value in head.base_model.event_tower.parameters():
                value.add_(0.1 * torch.randn(value.shape, generator=torch.Generator().manual_seed(1)))
        inputs = event_grounding_inputs(100)
        one = head(**inputs).linking_loss
        inputs["gold_event_ids"][3, 1] = 8
        assert not torch.allclose(head(**inputs).linking_loss, one)

    def test_equal_texts_are_encoded_once(self, tiny_encoder_without_dropout: Path) -> None:
        head = _head(tiny_encoder_without_dropout, stage="joint")
        rows = count_rows(head.base_model.event_tower.encoder)
        inputs = event_grounding_inputs(100)
        ids, mask = inputs["event_input_ids"][:, :1], inputs["event_attention_mask"][:, :1]
        for name in ("event", "parent", "child"):
            inputs[f"{name}_input_ids"] = ids.expand(-1, 2, -1)
            inputs[f"{name}_attention_mask"] = mask.expand(-1, 2, -1)
        head(**inputs)
        assert sum(rows) == len(ids)

    # Stages

    def test_a_stage_goes_on_from_another(self, tiny_encoder: Path, tmp_path: Path) -> None:
        """The scorer is kept through a stage that does not use it, and learns again behind it."""
        head = _head(tiny_encoder, stage="hierarchy")
        head.save_pretrained(tmp_path / "first")
        for stage, learns in (("linking", False), ("joint", True)):
            config = EventGroundingConfig.from_pretrained(tmp_path / "first", stage=stage)
            loaded, report = EventGroundingForPreTraining.from_pretrained(
                tmp_path / "first", config=config, output_loading_info=True
            )
            assert not report["missing_keys"]
            assert not report["unexpected_keys"]
            loaded.train()
            for name, value in head.hierarchy_scorer.named_parameters():
                assert torch.equal(loaded.hierarchy_scorer.get_parameter(name), value)
            assert {value.requires_grad for value in loaded.hierarchy_scorer.parameters()} == {learns}
            assert all(value.requires_grad for value in loaded.base_model.parameters())

    def test_pretraining_reads_no_mention(self, tiny_encoder: Path) -> None:
        head = _head(tiny_encoder, stage="hierarchy").eval()
        inputs = event_grounding_inputs(100)
        expected = head(**inputs).loss
        of_hierarchy = {
            name: value for name, value in inputs.items() if name.startswith(("parent", "child", "known"))
        }
        output = head(**of_hierarchy)
        torch.testing.assert_close(output.loss, expected)
        assert output.embeddings is None


def _model(encoder: Path, **fields: Any) -> EventGroundingModel:
    torch.manual_seed(0)
    return EventGroundingModel.from_encoder(str(encoder), **fields).eval()


def _head(encoder: Path, **fields: Any) -> EventGroundingForPreTraining:
    torch.manual_seed(0)
    return EventGroundingForPreTraining.from_encoder(str(encoder), **fields)


def _embed_alone(
    head: EventGroundingForPreTraining, ids: torch.Tensor, mask: torch.Tensor, side: str
) -> torch.Tensor:
    rows = [text[: int(length)].unsqueeze(0) for text, length in zip(ids, mask.sum(dim=1), strict=True)]
    return torch.cat([head.event_grounding(row, side=side).embeddings for row in rows])
