"""MICO's models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from method_case import MethodCase, Variant, count_rows, random_texts
from mico_inputs import ABSENT, ROWS, mico_inputs
from transformers import PreTrainedModel

from eventformers.models import losses
from eventformers.models.configuration_mico import MicoConfig
from eventformers.models.modeling_mico import MicoForPreTraining, MicoModel

CONTRAST = "contrastive_loss"
DISTILLATION = "distillation_loss"


class TestMico(MethodCase):
    config_class = MicoConfig
    model_class = MicoModel
    head_class = MicoForPreTraining
    variants = {  # noqa: RUF012
        "everything": Variant(
            {
                "pooling": "mean",
                "contrastive_temperature": 0.1,
                "mask_known_positives": True,
                "feature_dropout": 0.05,
                "distillation_weight": 0.5,
            },
            (CONTRAST, DISTILLATION),
        ),
        "paper": Variant({}, (CONTRAST,)),
        "random_positive": Variant({"positive": "random"}, (CONTRAST,)),
        "zero_logit": Variant({"own_alternatives": "zero_logit"}, (CONTRAST,)),
        "known_positives": Variant({"mask_known_positives": True}, (CONTRAST,)),
        "frequency_correction": Variant(
            {"frequency_correction": True, "mask_known_positives": True}, (CONTRAST,)
        ),
        "distillation": Variant({"distillation_weight": 2}, (CONTRAST, DISTILLATION)),
    }
    one_pass_fields = {**variants["everything"].fields, "feature_dropout": 0.0}  # noqa: RUF012
    required_inputs = {  # noqa: RUF012
        "alternative_input_ids": "alternatives",
        "alternative_attention_mask": "alternatives",
        "alternative_ids": "alternative_ids",
        "known_alternative_ids": "known_alternative_ids",
        "distillation_input_ids": "distillation",
        "distillation_attention_mask": "distillation",
        "distillation_vectors": "distillation_vectors",
        "distillation_mask": "distillation_mask",
    }
    invalid_fields = (
        ("pooling", "max"),
        ("projection_dim", 0),
        ("contrastive_temperature", 0),
        ("contrastive_temperature", -0.1),
        ("contrastive_temperature", "low"),
        ("contrastive_temperature", float("nan")),
        ("positive", "easy"),
        ("own_alternatives", "included"),
        ("mask_known_positives", 1),
        ("distillation_weight", -1),
        ("distillation_weight", "high"),
        ("feature_dropout", -0.1),
        ("feature_dropout", 1),
        ("feature_dropout", float("nan")),
    )

    def head_inputs(self, model: PreTrainedModel) -> dict[str, torch.Tensor]:
        vocabulary = 60 if model.config.encoder_config.vocab_size < 100 else 100
        return mico_inputs(vocabulary, model.config.projection_dim)

    def loss_weights(self, config: Any) -> dict[str, float]:
        return {CONTRAST: 1.0, DISTILLATION: config.distillation_weight}

    def loss_by_separate_passes(self, head: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        def encode(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            return head.mico(ids, mask).embeddings

        premise = encode(inputs["input_ids"], inputs["attention_mask"])
        alternatives = torch.stack(
            [
                encode(ids, mask)
                for ids, mask in zip(
                    inputs["alternative_input_ids"], inputs["alternative_attention_mask"], strict=True
                )
            ]
        )
        known = [set(ids) - {ABSENT} for ids in inputs["known_alternative_ids"].tolist()]
        ids = inputs["alternative_ids"].tolist()
        outside = encode(inputs["distillation_input_ids"], inputs["distillation_attention_mask"])
        distance = losses.feature_distillation(
            outside, inputs["distillation_vectors"], inputs["distillation_mask"]
        )
        contrast = losses.multi_alternative_contrast(
            premise,
            alternatives,
            head.config.contrastive_temperature,
            torch.tensor([[[text in mine for text in row] for row in ids] for mine in known]),
        )
        return contrast + head.config.distillation_weight * distance

    def test_defaults_are_the_papers(self) -> None:
        config = MicoConfig()
        assert (config.pooling, config.contrastive_temperature) == ("cls", 0.07)
        assert (config.positive, config.own_alternatives) == ("hard", "excluded")
        assert (config.mask_known_positives, config.feature_dropout) == (False, 0.0)
        assert (config.frequency_correction, config.distillation_weight) == (False, 0.0)

    def test_frequencies_reach_the_loss(self, tiny_encoder_without_dropout: Path) -> None:
        inputs = mico_inputs(100)
        corrected, plain = (
            _head(tiny_encoder_without_dropout, frequency_correction=switch).eval()
            for switch in (True, False)
        )
        views = corrected.encode_views(**_of_views(inputs))
        expected = losses.multi_alternative_contrast(
            views["premise"],
            views["alternatives"],
            corrected.config.contrastive_temperature,
            log_frequency=inputs["log_frequency"],
        )
        torch.testing.assert_close(corrected(**inputs).loss, expected)
        assert not torch.allclose(plain(**inputs).loss, expected)
        del inputs["log_frequency"]
        with pytest.raises(ValueError, match="missing: log_frequency"):
            corrected(**inputs)

    @pytest.mark.parametrize("masked", [False, True])
    def test_other_graphs_give_no_negatives(self, tiny_encoder_without_dropout: Path, masked: bool) -> None:
        """Two graphs in a batch: the loss is the mean over rows of the losses of each graph by itself."""
        head = _head(tiny_encoder_without_dropout, mask_known_positives=masked).eval()
        inputs = mico_inputs(100)
        graph = torch.tensor([0, 1, 1, 0, 1, 1])
        alone = [
            head(**{name: value[graph == number] for name, value in inputs.items()}).loss * size
            for number, size in ((0, 2), (1, 4))
        ]
        torch.testing.assert_close(head(**inputs, graph=graph).loss, sum(alone) / ROWS)
        assert not torch.allclose(head(**inputs).loss, sum(alone) / ROWS)

    def test_every_field_changes_the_loss(self, tiny_encoder: Path) -> None:
        # At a low temperature a logit of 0 would be nothing beside the others.
        base = {"pooling": "mean", "contrastive_temperature": 1.0}
        found = {}
        for name, fields in {
            "paper": {},
            "temperature": {"contrastive_temperature": 0.5},
            "positive": {"positive": "random"},
            "own": {"own_alternatives": "zero_logit"},
            "known": {"mask_known_positives": True},
            "pooling": {"pooling": "cls"},
            "distillation": {"distillation_weight": 1.0},
        }.items():
            head = _head(tiny_encoder, **{**base, **fields}).eval()
            found[name] = round(head(**mico_inputs(100)).loss.item(), 4)
        assert len(set(found.values())) == len(found), found

    def test_feature_dropout_is_on_every_vector(self, tiny_encoder_without_dropout: Path) -> None:
        fields = {"feature_dropout": 0.5, "distillation_weight": 1}
        head = _head(tiny_encoder_without_dropout, **fields)
        inputs = mico_inputs(100)
        given = _of_views(inputs)
        torch.manual_seed(0)
        for name, vectors in head.encode_views(**given).items():
            assert 0.3 < (vectors == 0).float().mean() < 0.7, name
        for name, vectors in head.eval().encode_views(**given).items():
            assert (vectors != 0).all(), name

    def test_random_positive_needs_to_know_which(self, tiny_encoder: Path) -> None:
        head = _head(tiny_encoder, positive="random")
        inputs = mico_inputs(100)
        del inputs["positive_index"]
        with pytest.raises(ValueError, match="missing: positive_index"):
            head(**inputs)

    def test_mask_of_the_premises_is_not_needed(self, tiny_encoder: Path) -> None:
        head = _head(tiny_encoder).eval()
        inputs = mico_inputs(100)
        inputs["attention_mask"] = torch.ones_like(inputs["attention_mask"])
        expected = head(**inputs).loss
        del inputs["attention_mask"]
        torch.testing.assert_close(head(**inputs).loss, expected)

    def test_one_alternative(self, tiny_encoder: Path) -> None:
        """Eq. 4 for every premise, as the validation loss takes it."""
        head = _head(tiny_encoder, pooling="mean").eval()
        inputs = {
            name: value[:, :1] if name.startswith("alternative") else value
            for name, value in mico_inputs(100).items()
        }
        premise = head.mico(inputs["input_ids"], inputs["attention_mask"]).embeddings
        alternative = head.mico(
            inputs["alternative_input_ids"][:, 0], inputs["alternative_attention_mask"][:, 0]
        ).embeddings
        expected = losses.info_nce(premise, alternative, head.config.contrastive_temperature)
        torch.testing.assert_close(head(**inputs).loss, expected, rtol=1e-5, atol=1e-6)


def _head(encoder: Path, **fields: Any) -> MicoForPreTraining:
    torch.manual_seed(0)
    return MicoForPreTraining.from_encoder(str(encoder), **fields)


def _of_views(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: value for name, value in inputs.items() if name.endswith(("input_ids", "attention_mask"))}


# Equal texts


@pytest.fixture(params=["cls", "mean"])
def model(request: pytest.FixtureRequest, tiny_encoder_without_dropout: Path) -> MicoModel:
    return MicoModel.from_encoder(str(tiny_encoder_without_dropout), pooling=request.param, projection_dim=7)


def _groups() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Two groups of texts of different widths, which share texts within and across, 9 distinct in all."""
    first_ids, first_mask = random_texts(5, 6, 100, seed=1)
    second_ids, second_mask = random_texts(4, 9, 100, seed=2)
    padded = torch.nn.functional.pad(first_ids, (0, 3)), torch.nn.functional.pad(first_mask, (0, 3))
    return [
        (torch.cat([first_ids, first_ids[:2]]), torch.cat([first_mask, first_mask[:2]])),
        (torch.cat([second_ids, padded[0][3:]]), torch.cat([second_mask, padded[1][3:]])),
    ]


def test_distinct_texts_get_the_vectors_of_a_plain_pass(model: MicoModel) -> None:
    weights = [torch.randn(len(ids), 7, generator=torch.Generator().manual_seed(3)) for ids, _ in _groups()]
    results = []
    for vectors in (
        model.embed_distinct(_groups()),
        [model(ids, mask).embeddings for ids, mask in _groups()],
    ):
        model.zero_grad()
        sum((weight * part).sum() for weight, part in zip(weights, vectors, strict=True)).backward()
        results.append((vectors, {name: value.grad.clone() for name, value in model.named_parameters()}))
    (vectors, gradients), (expected, expected_gradients) = results
    for part, expected_part in zip(vectors, expected, strict=True):
        torch.testing.assert_close(part, expected_part, rtol=1e-5, atol=1e-5)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected_gradients[name], rtol=1e-3, atol=1e-4, msg=name)


def test_equal_texts_are_encoded_once(model: MicoModel) -> None:
    rows = count_rows(model.encoder)
    model.embed_distinct(_groups())
    assert sum(rows) == 9


def test_what_padding_holds_makes_no_other_text(model: MicoModel) -> None:
    rows = count_rows(model.encoder)
    ids, mask = torch.tensor([[2, 7, 3, 0], [2, 7, 3, 9]]), torch.tensor([[1, 1, 1, 0], [1, 1, 1, 0]])
    [same] = model.embed_distinct([(ids, mask)])
    assert sum(rows) == 1
    assert torch.equal(same[0], same[1])
    # The same ids with another mask are another text.
    [different] = model.embed_distinct([(ids[1:].expand(2, -1), torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]]))])
    assert sum(rows) == 3
    assert not torch.allclose(different[0], different[1], atol=1e-5)


def test_the_head_encodes_each_text_of_a_batch_once(tiny_encoder: Path) -> None:
    head = _head(tiny_encoder)
    rows = count_rows(head.mico.encoder)
    inputs = mico_inputs(100)
    head(**inputs)
    assert sum(rows) == ROWS + len(inputs["alternative_ids"].unique())
