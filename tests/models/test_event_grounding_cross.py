"""The cross-encoder of hierarchical event grounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from event_grounding_inputs import candidate_inputs
from method_case import MethodCase, Variant, random_texts
from peft import LoraConfig
from tiny import save_tiny_cross_encoder
from transformers import PreTrainedModel, pipeline

from eventformers.models import losses
from eventformers.models.configuration_event_grounding import EventGroundingCrossConfig
from eventformers.models.modeling_event_grounding import EventGroundingForPreTraining
from eventformers.models.modeling_event_grounding_cross import (
    EventGroundingCrossModel,
    EventGroundingForSequenceClassification,
)

LOSS = "candidate_loss"


def test_it_loads_in_sentence_transformers(tiny_encoder: Path, tmp_path: Path) -> None:
    others = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    folder = str(save_tiny_cross_encoder(tiny_encoder, tmp_path / "model"))
    mention = "The city was hit by [[the flood]]."
    events = ["2014 flood", "a storm of the city", "election"]
    ranked = pipeline("event-grounding", model=folder)(mention, events=events)
    assert len({round(one["score"], 5) for one in ranked}) == len(events)
    model = others.CrossEncoder(folder, device="cpu")
    scores = model.predict([(mention, one["event"]) for one in ranked])
    np.testing.assert_allclose(scores, [one["score"] for one in ranked], rtol=1e-5)
    found = model.rank(mention, events)
    assert [one["corpus_id"] for one in found] == [one["index"] for one in ranked]
    alone = {"context_left": "", "mention": "the flood", "context_right": ""}
    [expected] = pipeline("event-grounding", model=folder)(alone, events=events[:1])
    assert model.predict([("the flood", events[0])])[0] == pytest.approx(expected["score"], rel=1e-5)


def test_sentence_transformers_saves_it(tiny_encoder: Path, tmp_path: Path) -> None:
    others = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    model = others.CrossEncoder(str(save_tiny_cross_encoder(tiny_encoder, tmp_path / "model")), device="cpu")
    pairs = [("the [[flood]]", "2014 flood"), ("the [[strike]]", "election")]
    model.save_pretrained(str(tmp_path / "whole"), create_model_card=False)
    before = model.predict(pairs)
    np.testing.assert_allclose(others.CrossEncoder(str(tmp_path / "whole")).predict(pairs), before, rtol=1e-6)
    model.add_adapter(LoraConfig(target_modules=["query", "value"], init_lora_weights=False))
    scores = model.predict(pairs)
    assert not np.allclose(scores, before, atol=1e-6)
    model.save_pretrained(str(tmp_path / "adapters"), create_model_card=False)
    again = others.CrossEncoder(str(tmp_path / "adapters"), device="cpu")
    np.testing.assert_allclose(again.predict(pairs), scores, rtol=1e-6)


def test_it_has_one_label(tiny_encoder: Path, tmp_path: Path) -> None:
    folder = save_tiny_cross_encoder(tiny_encoder, tmp_path / "model")
    message = "num_labels is 3, but .* one logit .*; accepted: 1"
    with pytest.raises(ValueError, match=message):
        EventGroundingForSequenceClassification.from_pretrained(folder, num_labels=3)
    with pytest.raises(ValueError, match=message):
        EventGroundingCrossConfig(num_labels=3)
    assert (
        EventGroundingForSequenceClassification.from_pretrained(folder, num_labels=1).config.num_labels == 1
    )


class TestEventGroundingCross(MethodCase):
    config_class = EventGroundingCrossConfig
    model_class = EventGroundingCrossModel
    head_class = EventGroundingForSequenceClassification
    head_auto_class = "AutoModelForSequenceClassification"
    modules_to_save = ("prediction_head",)
    variants = {  # noqa: RUF012
        "everything": Variant({"pooling": "mean", "null_threshold": 0.25}, (LOSS,)),
        "paper": Variant({}, (LOSS,)),
    }
    required_inputs = {}  # noqa: RUF012
    sharp_attention = True
    invalid_fields = (
        ("pooling", "max"),
        ("projection_dim", 0),
        ("mention_tokens", 0),
        ("event_tokens", 2),
        ("head_dropout", 1),
        ("head_dropout", -0.1),
        ("head_dropout", float("nan")),
        ("null_threshold", 1.0),
        ("null_threshold", float("nan")),
    )

    def head_inputs(self, model: PreTrainedModel) -> dict[str, torch.Tensor]:
        """One pair a row."""
        inputs = candidate_inputs(60 if model.config.encoder_config.vocab_size < 100 else 100)
        there = inputs["attention_mask"].any(dim=-1)
        return {name: value[there] for name, value in inputs.items()}

    def loss_weights(self, config: Any) -> dict[str, float]:
        return {LOSS: 1.0}

    def test_defaults_are_the_papers(self) -> None:
        config = EventGroundingCrossConfig()
        assert (config.pooling, config.head_dropout) == ("cls", 0.1)
        assert (config.mention_tokens, config.event_tokens, config.num_labels) == (128, 128, 1)

    def test_one_label_is_saved(self, head: PreTrainedModel, tmp_path: Path) -> None:
        head.save_pretrained(tmp_path)
        assert EventGroundingCrossConfig.from_pretrained(tmp_path).num_labels == 1

    def test_logits_of_rows(self, head: PreTrainedModel) -> None:
        """What the head makes of the pooled vector."""
        inputs = self.head_inputs(head)
        output = head(**inputs)
        own = head.prediction_head
        expected = own.score(own.hidden(output.embeddings).tanh())
        assert output.logits.shape == (len(inputs["input_ids"]), 1)
        torch.testing.assert_close(output.logits, expected)
        gold = inputs["labels"].bool().unsqueeze(1)
        torch.testing.assert_close(output.loss, losses.candidate_loss(expected, gold))

    @pytest.mark.parametrize("labels_type", [torch.long, torch.bool, torch.float])
    def test_candidates_equal_rows(self, head: PreTrainedModel, labels_type: torch.dtype) -> None:
        inputs = candidate_inputs(100)
        there = inputs["attention_mask"].any(dim=-1)
        rows = head(**self.head_inputs(head))
        output = head(**{**inputs, "labels": inputs["labels"].to(labels_type)})
        assert output.logits.shape == there.shape
        torch.testing.assert_close(output.logits[there], rows.logits.squeeze(1), rtol=1e-4, atol=1e-5)
        assert (output.logits[~there] == float("-inf")).all()
        torch.testing.assert_close(output.embeddings[there], rows.embeddings, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(output.loss, rows.loss, rtol=1e-4, atol=1e-5)
        unlabelled = head(inputs["input_ids"], inputs["attention_mask"])
        assert unlabelled.loss is None
        torch.testing.assert_close(unlabelled.logits, output.logits)

    def test_absent_candidates_have_no_gradient(self, head: PreTrainedModel) -> None:
        head(**candidate_inputs(100)).loss.backward()
        assert all(torch.isfinite(value.grad).all() for value in head.parameters())

    def test_softmax_over_the_candidates_of_a_mention(self, tiny_encoder: Path) -> None:
        """It reaches every parameter; a bias of all scores, which it could not reach, is not there."""
        inputs = candidate_inputs(100)
        there, gold = inputs["attention_mask"].any(dim=-1), inputs["labels"].bool()
        head = self.head_class.from_encoder(str(tiny_encoder), linking_objective="softmax")
        output = head(**inputs)
        torch.testing.assert_close(output.loss, losses.candidate_contrast(output.logits, gold, there))
        output.loss.backward()
        for name, parameter in head.named_parameters():
            assert parameter.grad is not None, name
            assert torch.isfinite(parameter.grad).all(), name
            assert parameter.grad.abs().sum() > 0, name

    def test_softmax_needs_the_candidates_of_a_mention(self, tiny_encoder: Path) -> None:
        head = self.head_class.from_encoder(str(tiny_encoder), linking_objective="softmax")
        pairs = self.head_inputs(head)
        with pytest.raises(ValueError, match=r"input_ids has the shape \(\d+, \d+\); accepted: \(batch"):
            head(**pairs)
        assert head(**{**pairs, "labels": None}).loss is None

    def test_masks_may_be_left_out_where_nothing_is_padded(self, head: PreTrainedModel) -> None:
        ids, _ = random_texts(6, 5, 100, seed=3)
        pairs = ids.unflatten(0, (2, 3))
        torch.testing.assert_close(head(pairs).logits, head(pairs, torch.ones_like(pairs)).logits)

    def test_half_precision_scores_in_full(self, head: PreTrainedModel) -> None:
        inputs = candidate_inputs(100)
        expected = head(**inputs).logits
        logits = head.to(torch.bfloat16)(**inputs).logits
        assert logits.dtype == torch.float32
        torch.testing.assert_close(logits, expected, rtol=0.05, atol=0.05)

    def test_dropout_of_the_head(self, tiny_encoder_without_dropout: Path) -> None:
        ids = torch.tensor([[2, 9, 10, 3]])
        for share, differs in ((0.5, True), (0, False)):
            torch.manual_seed(0)
            head = EventGroundingForSequenceClassification.from_encoder(
                str(tiny_encoder_without_dropout), head_dropout=share
            )
            assert torch.equal(head(ids).logits, head(ids).logits) != differs

    def test_starts_from_the_mention_tower(self, tiny_encoder: Path, tmp_path: Path) -> None:
        """A cross-encoder on a trained bi-encoder."""
        bi_encoder = EventGroundingForPreTraining.from_encoder(str(tiny_encoder))
        with torch.no_grad():
            for value in bi_encoder.event_grounding.encoder.parameters():
                value.add_(1.0)
        bi_encoder.save_pretrained(tmp_path)
        head = EventGroundingForSequenceClassification.from_encoder(str(tmp_path))
        for name, value in bi_encoder.event_grounding.encoder.state_dict().items():
            assert torch.equal(head.event_grounding_cross.encoder.state_dict()[name], value), name
