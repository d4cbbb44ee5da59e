"""The common case that the models of every method must pass.

A method's test file subclasses `MethodCase`, fills in the class attributes and gives the inputs of its head.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from copy import copy, deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from accelerate import cpu_offload
from case_files import TESTS, subclasses_in
from huggingface_hub.errors import StrictDataclassError
from saving_case import SavingTests
from tiny import sharpen_attention
from transformers import (
    AutoConfig,
    AutoModel,
    DistilBertConfig,
    PreTrainedModel,
    RobertaConfig,
    Trainer,
    TrainingArguments,
)

CLS, SEP, PADDING = 2, 3, 0
FIRST_WORD = 5
"""Ids of the tiny tokenizer."""


@dataclass(frozen=True)
class Variant:
    """One configuration of a training head.

    Args:
        fields: fields of the configuration.
        terms: the loss terms that the output then holds, without `loss`.
        idle: modules and parameters of the head that no loss term reaches.
        embeds: whether the head gives `embeddings` beside the loss; not asked where the method never does.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)
    terms: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    embeds: bool = True


def random_texts(rows: int, length: int, vocabulary: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and attention mask, `(rows, length)`, of texts of different lengths; the first is full."""
    generator = torch.Generator().manual_seed(seed)
    input_ids = torch.randint(FIRST_WORD, vocabulary, (rows, length), generator=generator)
    lengths = torch.randint(3, length + 1, (rows,), generator=generator)
    lengths[0] = length
    positions = torch.arange(length)
    input_ids[:, 0] = CLS
    input_ids[torch.arange(rows), lengths - 1] = SEP
    attention_mask = (positions < lengths.unsqueeze(1)).long()
    return input_ids.masked_fill(attention_mask == 0, PADDING), attention_mask


class MethodCase(SavingTests):
    """What the configuration, the encoder and the training head of a method must do."""

    config_class: ClassVar[type]
    variants: ClassVar[dict[str, Variant]]
    """Configurations of the head by name. `everything` has every loss term on."""
    required_inputs: ClassVar[dict[str, str]]
    """Inputs that `everything` cannot do without, and what the error then calls them."""
    invalid_fields: ClassVar[tuple[tuple[str, Any], ...]]
    narrow: ClassVar[Mapping[str, int]] = {"projection_dim": 7}
    """The field that sets the size of `embeddings`, at another size than the tiny encoder's."""
    poolings: ClassVar[tuple[str, ...]] = ("cls", "mean")
    """Values of `pooling` that the method can have."""
    normalises: ClassVar[bool] = False
    """Whether `embeddings` have length 1."""
    embeds_with_loss: ClassVar[bool] = True
    """Whether the head gives `embeddings` beside a loss."""
    requires: ClassVar[tuple[str, ...]] = ()
    """Packages beside transformers that the method's remote code needs."""
    sharp_attention: ClassVar[bool] = False
    """Whether `head` attends sharply: few losses reach attention that is flat."""
    one_pass_fields: ClassVar[Mapping[str, Any]] = {}
    """Fields without dropout, for which `loss_by_separate_passes` gives the loss."""

    def loss_weights(self, config: Any) -> dict[str, float]:
        """Weight of each loss term in `loss`."""
        raise NotImplementedError

    def loss_by_separate_passes(self, head: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """The loss of views that are encoded one by one."""
        raise NotImplementedError

    def vector_of_text(self, model: PreTrainedModel, hidden: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """The vector of a text alone, from its token vectors `(length, hidden_size)` and ids `(length,)`."""
        return hidden[0] if model.config.pooling == "cls" else hidden.mean(dim=0)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "variant" in metafunc.fixturenames:
            metafunc.parametrize("variant", self.variants.values(), ids=self.variants)
        if "required_input" in metafunc.fixturenames:
            metafunc.parametrize("required_input", self.required_inputs)
        if "pooling" in metafunc.fixturenames:
            metafunc.parametrize("pooling", self.poolings)
        if "invalid_field" in metafunc.fixturenames:
            metafunc.parametrize(
                "invalid_field", self.invalid_fields, ids=lambda pair: f"{pair[0]}={pair[1]}"
            )

    @pytest.fixture(scope="class")
    @classmethod
    def built(cls, tiny_encoder: Path) -> PreTrainedModel:
        """What `head` gives copies of, which is faster than loading."""
        torch.manual_seed(0)
        head = cls.head_class.from_encoder(str(tiny_encoder), **cls.variants["everything"].fields).eval()
        if cls.sharp_attention:
            sharpen_attention(head)
        return head

    @pytest.fixture
    def head(self, built: PreTrainedModel) -> PreTrainedModel:
        """The head with every loss term on, in evaluation mode."""
        return deepcopy(built)

    @pytest.fixture
    def texts(self, head: PreTrainedModel) -> dict[str, torch.Tensor]:
        """Ids and mask of a few texts."""
        input_ids, attention_mask = random_texts(4, 9, head.config.encoder_config.vocab_size, seed=1)
        return {"input_ids": input_ids, "attention_mask": attention_mask}

    # From an encoder

    @pytest.mark.usefixtures("_uninitialised_memory_is_nan")
    def test_starts_with_the_weights_of_the_encoder(self, tiny_encoder: Path) -> None:
        encoder = AutoModel.from_pretrained(tiny_encoder)
        for model_class in (self.model_class, self.head_class):
            model = model_class.from_encoder(str(tiny_encoder))
            assert all(module.training for module in model.modules())
            weights = model.base_model.encoder.state_dict()
            assert weights
            for name, value in weights.items():
                assert torch.equal(value, encoder.state_dict()[name]), name
            for name, value in [*model.named_parameters(), *model.named_buffers()]:
                assert torch.isfinite(value).all(), name

    def test_embeddings_come_from_the_token_vectors(self, tiny_encoder: Path, pooling: str) -> None:
        encoder = AutoModel.from_pretrained(tiny_encoder)
        model = self.model_class.from_encoder(str(tiny_encoder), pooling=pooling).eval()
        input_ids, attention_mask = random_texts(4, 9, model.config.encoder_config.vocab_size, seed=1)
        output = model(input_ids, attention_mask)
        assert output.embeddings.shape == (4, model.config.projection_dim)
        for row, length in enumerate(attention_mask.sum(dim=1)):
            ids = input_ids[row, :length]
            hidden = encoder(ids.unsqueeze(0)).last_hidden_state[0]
            expected = self.vector_of_text(model, hidden, ids)
            torch.testing.assert_close(output.embeddings[row], expected, rtol=1e-5, atol=1e-5)

    def test_padding_changes_nothing(self, tiny_encoder: Path, tmp_path: Path, pooling: str) -> None:
        started = self.model_class.from_encoder(str(tiny_encoder), pooling=pooling).eval()
        started.save_pretrained(tmp_path)
        for model in (started, self.model_class.from_pretrained(tmp_path)):
            ids, _ = random_texts(1, 6, model.config.encoder_config.vocab_size, seed=2)
            padded = torch.nn.functional.pad(ids, (0, 5), value=FIRST_WORD)
            mask = torch.nn.functional.pad(torch.ones_like(ids), (0, 5))
            alone = model(ids).embeddings
            torch.testing.assert_close(model(padded, mask).embeddings, alone, rtol=1e-5, atol=1e-5)
            assert not torch.allclose(model(padded).embeddings, alone, atol=1e-3)

    def test_projection(self, tiny_encoder: Path, tmp_path: Path) -> None:
        [size] = self.narrow.values()
        model = self.model_class.from_encoder(str(tiny_encoder), **self.narrow).eval()
        input_ids, attention_mask = random_texts(3, 6, model.config.encoder_config.vocab_size, seed=1)
        embeddings = model(input_ids, attention_mask).embeddings
        assert embeddings.shape == (3, size)
        model.save_pretrained(tmp_path)
        reloaded = AutoModel.from_pretrained(tmp_path)
        assert reloaded.config.projection_dim == size
        torch.testing.assert_close(reloaded(input_ids, attention_mask).embeddings, embeddings)

    def test_encoder_in_half_precision_is_raised(self, tiny_encoder: Path, tmp_path: Path) -> None:
        AutoModel.from_pretrained(tiny_encoder, dtype=torch.bfloat16).save_pretrained(tmp_path)
        head = self.head_class.from_encoder(str(tmp_path), **self.variants["everything"].fields)
        assert {parameter.dtype for parameter in head.parameters()} == {torch.float32}
        assert torch.isfinite(head(**self.head_inputs(head)).loss)

    @pytest.mark.parametrize("architecture", ["roberta", "distilbert"])
    def test_other_encoders(self, tmp_path: Path, architecture: str) -> None:
        config = {
            "roberta": RobertaConfig(
                vocab_size=60,
                hidden_size=16,
                num_hidden_layers=1,
                num_attention_heads=2,
                intermediate_size=16,
                max_position_embeddings=40,
                pad_token_id=1,
            ),
            "distilbert": DistilBertConfig(vocab_size=60, dim=16, n_layers=1, n_heads=2, hidden_dim=16),
        }[architecture]
        AutoModel.from_config(config).save_pretrained(tmp_path / "encoder")
        fields = self.variants["everything"].fields
        head = self.head_class.from_encoder(str(tmp_path / "encoder"), **fields).eval()
        head.save_pretrained(tmp_path / "head")
        reloaded = self.head_class.from_pretrained(tmp_path / "head")
        inputs = self.head_inputs(head)
        output = head(**inputs)
        assert torch.isfinite(output.loss)
        torch.testing.assert_close(reloaded(**inputs).loss, output.loss)
        rows = torch.randint(FIRST_WORD, 60, (2, 5))
        padded = torch.nn.functional.pad(rows, (0, 4), value=config.pad_token_id)
        mask = torch.nn.functional.pad(torch.ones_like(rows), (0, 4))
        torch.testing.assert_close(head(padded, mask).embeddings, head(rows).embeddings, rtol=1e-5, atol=1e-5)

    def test_encoder_of_a_model_of_the_suite(self, head: PreTrainedModel, tmp_path: Path) -> None:
        with torch.no_grad():
            next(head.base_model.encoder.parameters()).add_(1.0)
        head.save_pretrained(tmp_path)
        again = self.model_class.from_encoder(str(tmp_path))
        for name, value in head.base_model.encoder.state_dict().items():
            assert torch.equal(again.encoder.state_dict()[name], value), name

    def test_encoder_that_lacks_weights(self, tiny_encoder: Path, tmp_path: Path) -> None:
        encoder = AutoModel.from_pretrained(tiny_encoder)
        state = {name: value for name, value in encoder.state_dict().items() if "layer.1" not in name}
        encoder.save_pretrained(tmp_path, state_dict=state)
        with pytest.raises(ValueError, match=r"does not hold all weights.*layer\.1"):
            self.model_class.from_encoder(str(tmp_path))

    # Outputs

    def test_input_ids_alone_give_embeddings(self, head: PreTrainedModel) -> None:
        input_ids, _ = random_texts(1, 6, head.config.encoder_config.vocab_size, seed=3)
        base = head.base_model(input_ids)
        assert base.embeddings.shape == (1, head.config.projection_dim)
        output = head(input_ids)
        torch.testing.assert_close(output.embeddings, base.embeddings)
        assert output.loss is None

    def test_length_of_embeddings(self, head: PreTrainedModel, texts: dict[str, torch.Tensor]) -> None:
        norms = head.base_model(**texts).embeddings.norm(dim=-1)
        if self.normalises:
            torch.testing.assert_close(norms, torch.ones_like(norms))
        else:
            assert (norms - 1).abs().min() > 1e-3

    def test_return_dict(self, head: PreTrainedModel, texts: dict[str, torch.Tensor]) -> None:
        expected = head.base_model(**texts)
        base = head.base_model(**texts, return_dict=False)
        assert isinstance(base, tuple)
        torch.testing.assert_close(base[0], expected.embeddings)
        inputs = self.head_inputs(head)
        values = head(**inputs, return_dict=False)
        assert isinstance(values, tuple)
        torch.testing.assert_close(values[0], head(**inputs).loss)

    def test_arguments_of_encoders(self, head: PreTrainedModel, texts: dict[str, torch.Tensor]) -> None:
        model = head.base_model
        expected = model(**texts).embeddings
        segments = torch.zeros_like(texts["input_ids"])
        vectors = model.get_input_embeddings()(texts["input_ids"])
        for arguments in (
            {**texts, "token_type_ids": segments},
            {"inputs_embeds": vectors, "attention_mask": texts["attention_mask"]},
        ):
            torch.testing.assert_close(model(**arguments).embeddings, expected)
        layers = model(**texts, output_hidden_states=True).hidden_states
        assert len(layers) == model.config.encoder_config.num_hidden_layers + 1
        model.set_attn_implementation("eager")
        output = model(**texts, output_attentions=True)
        assert len(output.attentions) == model.config.encoder_config.num_hidden_layers
        torch.testing.assert_close(output.embeddings, expected, rtol=1e-5, atol=1e-5)

    def test_heads_return_layers_on_request(self, head: PreTrainedModel) -> None:
        inputs = self.head_inputs(head)
        ids, mask = inputs["input_ids"].flatten(0, -2), inputs["attention_mask"].flatten(0, -2)
        expected = head(**inputs)
        head.set_attn_implementation("eager")
        config = head.config.encoder_config
        encoded = head.base_model.encoder(ids, mask, output_hidden_states=True, output_attentions=True)
        for arguments in (inputs, {"input_ids": ids, "attention_mask": mask}):
            output = head(**arguments, output_hidden_states=True, output_attentions=True)
            assert len(output.hidden_states) == config.num_hidden_layers + 1
            assert len(output.attentions) == config.num_hidden_layers
            for layer, other in zip(output.hidden_states, encoded.hidden_states, strict=True):
                torch.testing.assert_close(layer[mask == 1], other[mask == 1], rtol=1e-4, atol=1e-5)
            for weights, other in zip(output.attentions, encoded.attentions, strict=True):
                torch.testing.assert_close(weights, other, rtol=1e-4, atol=1e-5)
            last = head(**arguments, output_hidden_states=[-1]).hidden_states
            assert last[:-1] == (None,) * config.num_hidden_layers
            torch.testing.assert_close(last[-1], output.hidden_states[-1])
            if arguments is inputs:
                torch.testing.assert_close(output.loss, expected.loss, rtol=1e-4, atol=1e-5)
        assert expected.hidden_states is None
        assert expected.attentions is None

    def test_configuration_requests_layers_and_tuples(
        self, head: PreTrainedModel, texts: dict[str, torch.Tensor], tmp_path: Path
    ) -> None:
        head.save_pretrained(tmp_path)
        asked = {"output_hidden_states": True, "output_attentions": True}
        depth = head.config.num_hidden_layers
        for config in ({}, {"config": AutoConfig.from_pretrained(tmp_path, **asked)}):
            loaded = self.head_class.from_pretrained(tmp_path, **(config or asked))
            for output in (loaded(**texts), loaded.base_model(**texts), loaded(**self.head_inputs(loaded))):
                assert len(output.hidden_states) == depth + 1
                assert len(output.attentions) == depth
        loaded = self.head_class.from_pretrained(tmp_path, return_dict=False)
        assert isinstance(loaded(**texts), tuple)
        assert isinstance(loaded.base_model(**texts), tuple)
        inputs = self.head_inputs(loaded)
        torch.testing.assert_close(loaded(**inputs)[0], head(**inputs).loss)

    def test_offloaded_weights(self, head: PreTrainedModel) -> None:
        inputs = self.head_inputs(head)
        expected = head(**inputs).loss
        cpu_offload(head, execution_device=torch.device("cpu"))
        assert all(weight.is_meta for weight in head.parameters())
        torch.testing.assert_close(head(**inputs).loss, expected)

    @pytest.mark.filterwarnings("ignore::DeprecationWarning")
    def test_quantised_layers(self, head: PreTrainedModel) -> None:
        quantisation = pytest.importorskip("torch.ao.quantization")
        inputs = self.head_inputs(head)
        expected = head(**inputs).loss
        quantised = quantisation.quantize_dynamic(head, {torch.nn.Linear}, dtype=torch.qint8)
        loss = quantised(**inputs).loss
        assert not torch.equal(loss, expected)
        torch.testing.assert_close(loss, expected, rtol=0.02, atol=0.02)

    # In transformers.Trainer

    def test_plain_trainer_evaluates(self, head: PreTrainedModel, tmp_path: Path) -> None:
        inputs, given = self.head_inputs(head), []
        trainer = Trainer(
            head,
            TrainingArguments(tmp_path, report_to="none", per_device_eval_batch_size=2, use_cpu=True),
            data_collator=lambda rows: inputs,
            compute_metrics=lambda predicted: given.append(predicted.predictions) or {"metric": 1.0},
        )
        metrics = trainer.evaluate(list(range(2)))
        expected = head(**inputs)
        assert metrics["eval_loss"] == pytest.approx(expected.loss.item(), rel=1e-4)
        assert metrics["eval_metric"] == 1.0
        [predictions] = given
        answers = expected.embeddings if expected.get("logits") is None else expected.logits
        if answers is not None:
            torch.testing.assert_close(torch.tensor(predictions), answers, rtol=1e-4, atol=1e-5)

    # Losses

    def test_loss_terms_and_what_they_train(self, tiny_encoder: Path, variant: Variant) -> None:
        # With some random weights, no pair has a loss.
        torch.manual_seed(0)
        head = self.head_class.from_encoder(str(tiny_encoder), **{**variant.fields, **self.narrow})
        inputs = self.head_inputs(head)
        output = head(**inputs)
        terms = {name: value for name, value in output.items() if name.endswith("_loss")}
        assert set(terms) == set(variant.terms)
        for name, value in {**terms, "loss": output.loss}.items():
            assert value.dim() == 0, name
            assert torch.isfinite(value), name
        weights = self.loss_weights(head.config)
        expected = sum(weights[name] * value for name, value in terms.items())
        torch.testing.assert_close(output.loss, expected)
        if self.embeds_with_loss and variant.embeds:
            assert output.embeddings.shape == (len(inputs["input_ids"]), head.config.projection_dim)
        else:
            assert output.embeddings is None
        output.loss.backward()
        for name, parameter in head.named_parameters():
            idle = f"{name}.".startswith(tuple(f"{module}." for module in variant.idle))
            reached = parameter.grad is not None and bool(parameter.grad.abs().sum() > 0)
            assert reached != idle, name

    def test_one_pass_equals_a_pass_for_each_view(self, tiny_encoder_without_dropout: Path) -> None:
        """Loss and gradient."""
        if not self.one_pass_fields:
            pytest.skip("this head has a test of its own")
        results = []
        for one_pass in (True, False):
            torch.manual_seed(0)
            head = self.head_class.from_encoder(str(tiny_encoder_without_dropout), **self.one_pass_fields)
            inputs = self.head_inputs(head)
            loss = head(**inputs).loss if one_pass else self.loss_by_separate_passes(head, inputs)
            loss.backward()
            results.append((loss, {name: value.grad for name, value in head.named_parameters()}))
        (loss, gradients), (expected_loss, expected_gradients) = results
        torch.testing.assert_close(loss, expected_loss, rtol=1e-5, atol=1e-6)
        for name, gradient in gradients.items():
            torch.testing.assert_close(gradient, expected_gradients[name], rtol=1e-3, atol=1e-5, msg=name)

    def test_same_seed_gives_the_same_loss(self, tiny_encoder: Path) -> None:
        values = []
        for _ in range(2):
            torch.manual_seed(7)
            head = self.head_class.from_encoder(str(tiny_encoder), **self.variants["everything"].fields)
            values.append(head(**self.head_inputs(head)).loss)
        assert torch.equal(*values)

    def test_missing_input_is_named(self, head: PreTrainedModel, required_input: str) -> None:
        inputs = self.head_inputs(head)
        del inputs[required_input]
        with pytest.raises(ValueError, match=rf"missing: .*\b{self.required_inputs[required_input]}\b"):
            head(**inputs)

    def test_activation_checkpointing_keeps_the_gradient(self, tiny_encoder_without_dropout: Path) -> None:
        gradients = []
        for checkpointing in (False, True):
            torch.manual_seed(0)
            head = self.head_class.from_encoder(
                str(tiny_encoder_without_dropout), **self.variants["everything"].fields
            )
            if checkpointing:
                head.activation_checkpointing_enable()
            head(**self.head_inputs(head)).loss.backward()
            gradients.append({name: value.grad for name, value in head.named_parameters()})
        for name, gradient in gradients[0].items():
            torch.testing.assert_close(gradients[1][name], gradient, msg=name)

    def test_bfloat16(self, head: PreTrainedModel, texts: dict[str, torch.Tensor], tmp_path: Path) -> None:
        inputs = self.head_inputs(head)
        embeddings, loss = head.base_model(**texts).embeddings, head(**inputs).loss
        head.save_pretrained(tmp_path)
        loaded = self.head_class.from_pretrained(tmp_path, dtype=torch.bfloat16)
        for half in (loaded, head.to(torch.bfloat16)):
            output = half.base_model(**texts)
            assert output.embeddings.dtype == torch.bfloat16
            torch.testing.assert_close(output.embeddings.float(), embeddings, rtol=0.1, atol=0.1)
            losses = {name: value for name, value in half(**inputs).items() if name.endswith("loss")}
            assert {value.dtype for value in losses.values()} == {torch.float32}
            torch.testing.assert_close(losses["loss"], loss, rtol=0.2, atol=0.2)

    def test_autocast(self, head: PreTrainedModel) -> None:
        inputs = self.head_inputs(head)
        expected = head(**inputs).loss
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = head(**inputs).loss
        assert loss.dtype == torch.float32
        torch.testing.assert_close(loss, expected, rtol=0.2, atol=0.2)

    def test_trainer_must_not_scale_the_loss(self) -> None:
        assert self.head_class.accepts_loss_kwargs is False

    # Configuration

    def test_refuses_bad_fields(self, invalid_field: tuple[str, Any]) -> None:
        name, value = invalid_field
        with pytest.raises(StrictDataclassError, match=name):
            self.config_class(**{name: value})

    def test_retired_fields_are_read(self) -> None:
        """As long as the value is what is now a constant; it is not saved again."""
        for name, value in self.config_class.retired.items():
            assert name not in self.config_class(**{name: value}).to_dict()
            message = re.escape(f"{name} is other; accepted: {value}, which is no longer a setting")
            with pytest.raises(ValueError, match=message):
                self.config_class(**{name: "other"})

    def test_refuses_numbers_that_are_not_finite(self) -> None:
        numbers = [
            field.name for field in dataclasses.fields(self.config_class) if "float" in str(field.type)
        ]
        for name in numbers:
            for value in (math.nan, math.inf):
                with pytest.raises(StrictDataclassError, match=name):
                    self.config_class(**{name: value})

    def test_configuration_round_trip(self, tmp_path: Path) -> None:
        fields = {**self.variants["everything"].fields, **self.narrow, "event_order": "predicate_first"}
        config = self.config_class(**fields)
        config.save_pretrained(tmp_path)
        loaded = AutoConfig.from_pretrained(tmp_path)
        assert type(loaded) is self.config_class
        for name, value in fields.items():
            assert getattr(loaded, name) == value, name
        assert loaded.text_config.to_dict() == config.text_config.to_dict()

    def test_configuration_copies(self, head: PreTrainedModel, tmp_path: Path) -> None:
        head.save_pretrained(tmp_path)
        config = head.config
        for other in (
            copy(config),
            deepcopy(config),
            self.config_class.from_dict(config.to_dict()),
            self.config_class(**config.to_dict()),
            self.config_class.from_pretrained(tmp_path),
        ):
            assert list(other.custom_pipelines) == list(self.config_class.pipelines)
            assert other.to_dict() == config.to_dict() | {"architectures": other.architectures}

    def test_configuration_of_the_encoder(self) -> None:
        config = self.config_class(hidden_size=48, num_hidden_layers=3)
        assert config.text_config.hidden_size == config.hidden_size == 48
        assert config.text_config.num_hidden_layers == config.num_hidden_layers == 3
        config.vocab_size = 77
        assert config.text_config.vocab_size == config.vocab_size == 77


def case_of(method: str) -> type[MethodCase]:
    """The case of a method, from its file in tests/models."""
    path = TESTS / "models" / f"test_{method}.py"
    assert path.is_file(), f"{method} lacks {path.name} with a subclass of MethodCase"
    cases = subclasses_in(path, MethodCase)
    found = [case for case in cases if case.config_class.model_type == method]
    assert found, f"{path.name} has no subclass of MethodCase for {method}"
    return found[0]


def count_rows(encoder: torch.nn.Module) -> list[int]:
    """A list that receives the number of texts of every pass of an encoder."""
    rows: list[int] = []
    encoder.register_forward_pre_hook(
        lambda module, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    return rows
