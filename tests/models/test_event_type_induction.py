"""The models of event type induction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from event_type_induction_inputs import ROWS, event_type_induction_inputs
from huggingface_hub.errors import StrictDataclassError
from method_case import MethodCase, Variant, random_texts
from torch.nn.functional import layer_norm, normalize
from transformers import AutoModel, PreTrainedModel

from eventformers.models import losses
from eventformers.models.configuration_event_type_induction import EventTypeInductionConfig
from eventformers.models.modeling_event_type_induction import (
    EventTypeInductionForPreTraining,
    EventTypeInductionModel,
)
from eventformers.models.pooling import content_mask, mean_pool
from eventformers.models.type_induction_layers import NO_EVENT_START, token_weights

PAIRS = "pair_loss"
AUXILIARY = {"type_name_weight": 1.0, "frame_weight": 0.5}
FOUND = {"trigger_input": "found", "trained_types": ["Attack", "Move"]}
FOUND_TERM = "trigger_loss"
TOLD = {
    **AUXILIARY,
    "trigger_input": "marked_span",
    "map_skip": True,
    "score_bias": -1.0,
}


class TestEventTypeInduction(MethodCase):
    config_class = EventTypeInductionConfig
    model_class = EventTypeInductionModel
    head_class = EventTypeInductionForPreTraining
    modules_to_save = ("query_map", "key_map", "type_name_head", "frame_head", "score_bias", "trigger_finder")
    normalises = True
    variants = {  # noqa: RUF012
        "everything": Variant(
            {
                **AUXILIARY,
                **FOUND,
                "frame_example_weight": 0.6,
                "pooled_layer": 1,
                "map_skip": True,
                "score_bias": -1.0,
            },
            (PAIRS, "type_name_loss", "frame_loss", "frame_example_loss", FOUND_TERM),
        ),
        "paper": Variant({}, (PAIRS,)),
        "type_names": Variant({"type_name_weight": 1.0}, (PAIRS, "type_name_loss")),
        "frames": Variant({"frame_weight": 0.3, "auxiliary_hidden_layer": False}, (PAIRS, "frame_loss")),
        "frame_examples": Variant(
            {"trigger_input": "span", "frame_example_weight": 2},
            (PAIRS, "frame_example_loss"),
        ),
        "printed_diagonal": Variant({"unseen_diagonal": False}, (PAIRS,)),
        "no_margin": Variant({"margin": 0}, (PAIRS,)),
        "trigger": Variant({"trigger_input": "span", "pooled_layer": -1}, (PAIRS,)),
        "marked_trigger": Variant({"trigger_input": "marked_span"}, (PAIRS,)),
        "found": Variant(FOUND, (PAIRS, FOUND_TERM)),
        "found_frozen": Variant(
            {**FOUND, "freeze_encoder": True}, (PAIRS, FOUND_TERM), idle=("event_type_induction.encoder",)
        ),
        "cls": Variant({"pooling": "cls"}, (PAIRS,)),
        "skip": Variant({"map_skip": True, "score_bias": -2.0}, (PAIRS,)),
    }
    one_pass_fields = {**TOLD, "map_dropout": 0}  # noqa: RUF012
    required_inputs = {  # noqa: RUF012
        "augmented_input_ids": "augmented",
        "augmented_attention_mask": "augmented",
        "type_ids": "type_ids",
        "type_name_vectors": "type_name_vectors",
        "frame_vectors": "frame_vectors",
        "sentence_types": "sentence_types",
        "example_input_ids": "example",
        "example_attention_mask": "example",
        "definition_input_ids": "definition",
        "definition_attention_mask": "definition",
        "frame_ids": "frame_ids",
    }
    invalid_fields = (
        ("pooling", "max"),
        ("projection_dim", 0),
        ("margin", 1),
        ("margin", -0.1),
        ("margin", float("nan")),
        ("margin", "half"),
        ("map_dropout", 1),
        ("map_dropout", -0.1),
        ("unseen_diagonal", "yes"),
        ("trigger_input", "quoted"),
        ("pooled_layer", 13),
        ("pooled_layer", -14),
        ("finder_dropout", 1),
        ("trained_types", "Attack"),
        ("freeze_encoder", "yes"),
        ("map_skip", 1),
        ("score_scale", 0),
        ("score_scale", float("nan")),
        ("score_bias", "low"),
        ("type_name_weight", -0.1),
        ("type_name_weight", float("nan")),
        ("frame_weight", -1),
        ("frame_example_weight", -1),
        ("auxiliary_hidden_layer", 2),
    )

    def head_inputs(self, model: PreTrainedModel) -> dict[str, torch.Tensor]:
        config = model.config.encoder_config
        inputs = event_type_induction_inputs(60 if config.vocab_size < 100 else 100, config.hidden_size)
        if model.config.finds_trigger:
            del inputs["trigger_mask"], inputs["augmented_trigger_mask"]
        return inputs

    def loss_weights(self, config: Any) -> dict[str, float]:
        return {
            PAIRS: 1.0,
            "type_name_loss": config.type_name_weight,
            "frame_loss": config.frame_weight,
            "frame_example_loss": config.frame_example_weight,
            FOUND_TERM: 1.0,
        }

    def vector_of_text(self, model: PreTrainedModel, hidden: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return normalize(super().vector_of_text(model, hidden, ids), dim=0)

    def loss_by_separate_passes(self, head: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        config, types = head.config, inputs["type_ids"]
        mention, augmented = (
            head.event_type_induction(
                **{
                    name: inputs[f"{prefix}{name}"]
                    for name in ("input_ids", "attention_mask", "trigger_mask")
                }
            )
            for prefix in ("", "augmented_")
        )
        pair_loss = sum(
            (
                losses.masked_pair_loss(
                    query.query, key.key, types, config.margin, bias=head.score_bias.value
                )
                for query in (mention, augmented)
                for key in (mention, augmented)
            ),
            torch.zeros(()),
        )
        scores = mention.query @ mention.key.T / config.projection_dim**0.5
        clustered = scores.softmax(dim=1) @ mention.embeddings
        names = losses.type_alignment(head.type_name_head(clustered), inputs["type_name_vectors"], types >= 0)
        frames = losses.type_alignment(head.frame_head(clustered), inputs["frame_vectors"], types >= 0)
        return pair_loss + config.type_name_weight * names + config.frame_weight * frames

    def test_defaults_are_the_papers(self) -> None:
        config = EventTypeInductionConfig()
        assert (config.pooling, config.margin, config.map_dropout) == ("mean", 0.5, 0.1)
        assert (config.trigger_input, config.map_skip, config.score_bias) == ("none", False, None)
        assert config.unseen_diagonal
        assert (config.type_name_weight, config.frame_weight, config.frame_example_weight) == (0, 0, 0)

    def test_functional_weights_of_the_paper(self) -> None:
        """METHODS: six linear layers and two layer norms of size 384 beside the encoder."""
        config = EventTypeInductionConfig(projection_dim=384)
        with torch.device("meta"):
            model = EventTypeInductionModel(config)
        own = [*model.query_map.parameters(), *model.key_map.parameters()]
        assert sum(value.numel() for value in own) == 6 * (384 * 384 + 384) + 2 * 2 * 384

    def test_maps_share_no_weight(self, head: PreTrainedModel, texts: dict[str, torch.Tensor]) -> None:
        output = head.base_model(**texts)
        assert output.query.shape == output.key.shape == output.embeddings.shape
        assert not torch.allclose(output.query, output.key, atol=1e-2)

    def test_the_trigger_cannot_be_pooled_by_the_first_token(self) -> None:
        for way in ("span", "found"):
            with pytest.raises(StrictDataclassError, match=r"trigger_input.*accepted: pooling='mean'"):
                EventTypeInductionConfig(trigger_input=way, pooling="cls")

    def test_a_frozen_encoder_learns_from_no_example(self) -> None:
        with pytest.raises(StrictDataclassError, match=r"frame_example_weight is 1 .*freeze_encoder=false"):
            EventTypeInductionConfig(frame_example_weight=1, freeze_encoder=True)

    @pytest.mark.parametrize("trigger_input", ["none", "marked", "span", "marked_span"])
    def test_what_is_pooled(self, tiny_encoder: Path, trigger_input: str) -> None:
        model = _model(tiny_encoder, trigger_input=trigger_input)
        inputs = event_type_induction_inputs(100, 32)
        ids, mask, trigger = (inputs[name] for name in ("input_ids", "attention_mask", "trigger_mask"))
        output = model(ids, mask, trigger_mask=trigger)
        for row in range(ROWS):
            length = int(mask[row].sum())
            hidden = model.encoder(ids[row : row + 1, :length]).last_hidden_state[0]
            if trigger_input.endswith("span") and trigger[row].any():
                hidden = hidden[trigger[row, :length]]
            torch.testing.assert_close(
                output.embeddings[row], normalize(hidden.mean(dim=0), dim=0), rtol=1e-5, atol=1e-5
            )

    def test_a_missing_trigger_gives_the_whole_sentence(self, tiny_encoder: Path) -> None:
        model = _model(tiny_encoder, trigger_input="span")
        ids, mask = random_texts(3, 7, 100, seed=5)
        whole = model(ids, mask).embeddings
        none = torch.zeros_like(mask, dtype=torch.bool)
        torch.testing.assert_close(model(ids, mask, trigger_mask=none).embeddings, whole)
        torch.testing.assert_close(model(ids[:1], trigger_mask=none[:1]).embeddings, whole[:1])

    def test_the_likeliest_token_is_pooled(self, tiny_encoder: Path) -> None:
        """By hand: the softmax of what layers 0 and -1 give, and of the winner the vector of layer 1."""
        model = _model(tiny_encoder, **FOUND, pooled_layer=1)
        with torch.no_grad():
            model.encoder.embeddings.LayerNorm.weight.copy_(torch.linspace(0, 3, 32))
        ids, mask = random_texts(ROWS, 9, 100, seed=8)
        output = model(ids, mask)
        assert output.hidden_states is None
        told = model.pool_mentions(model.encode_tokens(input_ids=ids, attention_mask=mask), mask).scores
        for row, length in enumerate(mask.sum(dim=1).tolist()):
            layers = model.encoder(ids[row : row + 1, :length], output_hidden_states=True).hidden_states
            normed = [layer_norm(layers[place][0], (32,)) for place in (0, -1)]
            scores = model.trigger_finder.layers(torch.cat(normed, dim=1)).softmax(dim=1)
            torch.testing.assert_close(told[row, :length].softmax(dim=1), scores, rtol=1e-4, atol=1e-6)
            best = 1 + int(scores[1:-1, 2].argmax())
            assert output.found_triggers[row].nonzero().flatten().tolist() == [best]
            expected = normalize(layers[1][0, best], dim=0)
            torch.testing.assert_close(output.embeddings[row], expected, rtol=1e-5, atol=1e-5)

    def test_a_given_trigger_is_not_looked_for(self, tiny_encoder: Path) -> None:
        inputs = event_type_induction_inputs(100, 32)
        given = {name: inputs[name] for name in ("input_ids", "attention_mask", "trigger_mask")}
        output = _model(tiny_encoder, **FOUND)(**given)
        assert output.found_triggers is None
        torch.testing.assert_close(
            output.embeddings, _model(tiny_encoder, trigger_input="span")(**given).embeddings
        )

    def test_a_text_of_special_tokens_alone_is_pooled_whole(self, tiny_encoder: Path) -> None:
        ids = torch.tensor([[2, 3]])
        output = _model(tiny_encoder, **FOUND)(ids)
        assert not output.found_triggers.any()
        torch.testing.assert_close(output.embeddings, _model(tiny_encoder)(ids).embeddings)

    def test_views_are_pooled_by_the_types_of_the_mentions(self, tiny_encoder: Path) -> None:
        head = _head(tiny_encoder, **FOUND, score_bias=0.0).eval()
        model = head.event_type_induction
        inputs = self.head_inputs(head)
        ids, mask, types = (inputs[name] for name in ("input_ids", "attention_mask", "type_ids"))
        views = head.encode_views(
            ids, mask, None, inputs["augmented_input_ids"], inputs["augmented_attention_mask"], None, types
        )
        for prefix in ("", "augmented_"):
            texts = inputs[f"{prefix}input_ids"], inputs[f"{prefix}attention_mask"]
            [(tokens, _)] = model.encode_together([texts])
            scores = model.trigger_finder(tokens[..., 32:]).softmax(dim=-1)
            content = texts[1].bool() & (texts[1].cumsum(1) > 1)
            content &= texts[1].cumsum(1) < texts[1].sum(1, keepdim=True)
            for row, number in enumerate(types.tolist()):
                chances = scores[row, :, number if number >= 0 else 2].masked_fill(~content[row], -1)
                vector = normalize(tokens[row, int(chances.argmax()), :32], dim=0)
                expected = model.query_map(vector)
                torch.testing.assert_close(views[f"{prefix}query"][row], expected, rtol=1e-4, atol=1e-5)
            if not prefix:
                absence = torch.where(content.unsqueeze(2), (1 - scores[..., :3]).log(), 0.0).sum(dim=1)
                torch.testing.assert_close(views["absence"], absence, rtol=1e-4, atol=1e-5)

    def test_triggers_are_learned_from_sentences(self, tiny_encoder: Path) -> None:
        """One word of each sentence decides its type; nothing says where it stands."""
        torch.manual_seed(0)
        fields = {**FOUND, "finder_dropout": 0.0, "freeze_encoder": True}
        model = EventTypeInductionModel.from_encoder(str(tiny_encoder), **fields)
        ids = torch.randint(20, 100, (384, 8))
        types = torch.arange(384) % 3
        places = torch.randint(1, 7, (384,))
        # Of the third type, which has no label, two words tell.
        triggers = torch.tensor([10, 11, 12])[types] + torch.where(types == 2, torch.arange(384) % 2, 0)
        ids[:, 0], ids[:, -1] = 2, 3
        ids[torch.arange(384), places] = triggers
        told = torch.nn.functional.one_hot(types, 3).bool()
        optimizer = torch.optim.AdamW(model.trigger_finder.parameters(), lr=1e-2)
        [(tokens, mask)] = model.encode_together([(ids, torch.ones_like(ids))])
        for _ in range(80):
            pooled = model.pool_mentions(tokens, mask)
            loss = losses.noisy_or_loss(losses.log_absence(pooled.scores, pooled.token_mask), told)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert loss < 0.01
        found = model.eval()(ids[types == 2]).found_triggers.int().argmax(dim=1)
        assert (found == places[types == 2]).float().mean() > 0.9

    def test_all_tokens_weighted_by_their_probability(self, tiny_encoder: Path) -> None:
        ids, mask = random_texts(4, 9, 100, seed=8)
        ids[3, 1], mask[3, 2:] = 3, 0
        model = EventTypeInductionModel.from_encoder(str(tiny_encoder), **FOUND, found_exponent=0.5).eval()
        [(tokens, mask)] = model.encode_together([(ids, mask)])
        pooled = model.pool_mentions(tokens, mask)
        content = pooled.token_mask
        chances = pooled.scores.double().softmax(dim=-1)[..., -2].sqrt() * content
        slow = (chances.unsqueeze(2) * tokens[..., :32].double()).sum(dim=1)
        expected = normalize(slow, dim=-1).float()
        torch.testing.assert_close(pooled.embeddings[:3], expected[:3], rtol=1e-4, atol=1e-5)
        # Without any word, the special tokens count, as without an exponent.
        model.config.found_exponent = None
        alone = model.pool_mentions(tokens, mask).embeddings
        torch.testing.assert_close(pooled.embeddings[3], alone[3])
        model.config.found_exponent = 1_000_000
        torch.testing.assert_close(model.pool_mentions(tokens, mask).embeddings, alone, rtol=1e-3, atol=1e-4)

    @pytest.mark.parametrize(
        "fields",
        [
            {"found_exponent": 1},
            {"found_exponent": 1, "trigger_input": "found", "pooling": "lasttoken"},
            {"found_exponent": -1, "trigger_input": "found"},
        ],
    )
    def test_exponents_without_tokens_to_average(self, fields: dict[str, Any]) -> None:
        with pytest.raises(StrictDataclassError, match="found_exponent is"):
            EventTypeInductionConfig(**fields)

    def test_rounds_without_weights_of_tokens(self) -> None:
        with pytest.raises(StrictDataclassError, match="weighting_rounds is 1 with found_exponent=None"):
            EventTypeInductionConfig(trigger_input="found", pooling="mean", weighting_rounds=1)

    def test_token_weights(self) -> None:
        chances = torch.tensor([[0.0, 0.01, 0.04, 0.25, 0.5]])
        mask = torch.tensor([[False, True, True, True, False]])
        weights = token_weights(chances, mask, 0.5)
        factors = torch.tensor([[9.0, 1.0, 1.0, 2.0, 9.0]])
        weighted = token_weights(chances, mask, 0.5, factors)
        torch.testing.assert_close(weighted, weights * factors / (weights * factors).sum())
        torch.testing.assert_close(weights, torch.tensor([[0.0, 0.125, 0.25, 0.625, 0.0]]))
        torch.testing.assert_close(token_weights(chances, mask, 0), mask / 3)

    def test_a_frozen_encoder_rests(self, tiny_encoder: Path) -> None:
        head = EventTypeInductionForPreTraining.from_encoder(
            str(tiny_encoder), trigger_input="found", freeze_encoder=True, trained_types=["Attack", "Move"]
        )
        encoder = head.base_model.encoder
        assert not any(module.training for module in encoder.modules())
        assert not any(parameter.requires_grad for parameter in encoder.parameters())
        assert head.base_model.trigger_finder.training

    def test_seen_types_decide_the_size_of_the_finder(self, tiny_encoder: Path, tmp_path: Path) -> None:
        model = _model(tiny_encoder, trigger_input="found")
        assert model.trigger_finder.layers[-1].out_features == 2
        model.set_trained_types(["Attack", "Move", "Sale"])
        last = model.trigger_finder.layers[-1]
        assert last.out_features == 5
        assert last.bias[-1].item() == NO_EVENT_START
        model.set_trained_types(["Attack", "Move", "Sale"])
        assert model.trigger_finder.layers[-1] is last
        model.save_pretrained(tmp_path)
        loaded = AutoModel.from_pretrained(tmp_path)
        assert loaded.config.trained_types == ["Attack", "Move", "Sale"]
        assert torch.equal(loaded.trigger_finder.layers[-1].weight, last.weight)

    def test_labels_of_unseen_mentions_reach_nothing(self, head: PreTrainedModel) -> None:
        """Their rows of targets may hold anything."""
        inputs = self.head_inputs(head)
        unseen = inputs["type_ids"] < 0
        head(**inputs).loss.backward()
        expected = {name: value.grad.clone() for name, value in head.named_parameters()}
        for name in ("type_name_vectors", "frame_vectors"):
            inputs[name] = inputs[name].masked_fill(unseen.unsqueeze(1), float("nan"))
        head.zero_grad()
        head(**inputs).loss.backward()
        for name, value in head.named_parameters():
            assert torch.equal(value.grad, expected[name]), name

    def test_clustered_features_are_means_of_the_batch(self, tiny_encoder: Path) -> None:
        model = _model(tiny_encoder)
        output = model(*random_texts(4, 9, 100, seed=6))
        same = torch.zeros_like(output.query)
        clustered = model.clustered_features(output.embeddings, same, same)
        torch.testing.assert_close(clustered, output.embeddings.mean(dim=0).expand_as(clustered))
        alone = model.clustered_features(output.embeddings[:1], output.query[:1], output.key[:1])
        torch.testing.assert_close(alone, output.embeddings[:1])

    def test_label_vectors(self, tiny_encoder: Path) -> None:
        """The plain encoder's, without special tokens, whatever mode the model is in."""
        model = EventTypeInductionModel.from_encoder(str(tiny_encoder))
        ids, mask = random_texts(3, 7, 100, seed=5)
        vectors = model.label_vectors(ids, mask)
        assert all(module.training for module in model.modules())
        assert not vectors.requires_grad
        encoder = AutoModel.from_pretrained(tiny_encoder)
        for row, length in enumerate(mask.sum(dim=1)):
            hidden = encoder(ids[row : row + 1, :length]).last_hidden_state[0]
            torch.testing.assert_close(vectors[row], hidden[1:-1].mean(dim=0), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(vectors, mean_pool(model.encoder.eval()(ids, mask)[0], content_mask(mask)))

    def test_skip_starts_from_the_cosines_of_the_encoder(self, tiny_encoder: Path) -> None:
        model = _model(tiny_encoder, map_skip=True, score_scale=8.0)
        for layer in (model.query_map, model.key_map):
            assert layer.map_weight.item() == pytest.approx(0.1)
            layer.map_weight.data.fill_(1e-4)
        output = model(*random_texts(6, 9, 100, seed=6))
        scores = output.query @ output.key.T / model.config.projection_dim**0.5
        torch.testing.assert_close(scores, 8 * output.embeddings @ output.embeddings.T, atol=1e-2, rtol=0)

    def test_starts_are_kept_with_the_weights(self, head: PreTrainedModel, tmp_path: Path) -> None:
        with torch.no_grad():
            head.base_model.query_map.skip_weight.fill_(0.25)
            head.base_model.key_map.map_weight.fill_(0.75)
            head.score_bias.value.fill_(0.5)
        head.save_pretrained(tmp_path)
        loaded = EventTypeInductionForPreTraining.from_pretrained(tmp_path)
        assert loaded.base_model.query_map.skip_weight.item() == 0.25
        assert loaded.base_model.key_map.map_weight.item() == 0.75
        assert loaded.score_bias.value.item() == 0.5

    def test_maps_do_not_vanish_before_training(self, tiny_encoder: Path) -> None:
        """Scores of another order than 0.1 to 1 would start the loss where the margin decides nothing."""
        output = _model(tiny_encoder)(*random_texts(6, 9, 100, seed=6))
        assert 0.1 < output.query.std().item() < 2


def _model(encoder: Path, **fields: Any) -> EventTypeInductionModel:
    torch.manual_seed(0)
    return EventTypeInductionModel.from_encoder(str(encoder), **fields).eval()


def _head(encoder: Path, **fields: Any) -> EventTypeInductionForPreTraining:
    torch.manual_seed(0)
    return EventTypeInductionForPreTraining.from_encoder(str(encoder), **fields)
