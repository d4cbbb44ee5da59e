"""The common case that a model for multiple choice must pass, as our code and as remote code."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from fresh_process import run_fresh
from transformers import (
    AutoModelForMultipleChoice,
    AutoTokenizer,
    PreTrainedModel,
    Trainer,
    TrainingArguments,
)

TEMPERATURE = 0.2
Questions = dict[str, torch.Tensor]


class MultipleChoiceCase:
    """What logits, loss, and saved and loaded models must be."""

    model_class: ClassVar[type[PreTrainedModel]]
    head_class: ClassVar[type[PreTrainedModel]]
    fields: ClassVar[dict[str, Any]]
    """Fields of the configuration that make a small model of `TEMPERATURE`."""
    labels: ClassVar[list[int]]
    """The right choice of each question."""
    head_fields: ClassVar[dict[str, Any]] = {}
    """Fields of the training head beside these."""
    half: ClassVar[float] = 0.1
    """How far logits in half precision may be off."""
    requires: ClassVar[tuple[str, ...]] = ()
    """Packages beside transformers that the remote code needs."""
    scenarios: ClassVar[tuple[str, ...]] = ("remote_code",)
    """What is tried in a fresh process."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "scenario" in metafunc.fixturenames:
            metafunc.parametrize("scenario", self.scenarios)

    def make_questions(self) -> Questions:
        """Questions of which some have fewer choices."""
        raise NotImplementedError

    def expected_logits(self, model: Any, questions: Questions) -> torch.Tensor:
        """The logits of each question and choice alone; minus infinity where there is no choice."""
        raise NotImplementedError

    def without_choices(self, questions: Questions) -> Questions:
        """The inputs that are embedded."""
        raise NotImplementedError

    def head_inputs(self) -> dict[str, torch.Tensor]:
        """Inputs of the training head."""
        raise NotImplementedError

    @pytest.fixture
    def model(self, tiny_encoder: Path) -> PreTrainedModel:
        torch.manual_seed(0)
        return self.model_class.from_encoder(str(tiny_encoder), **self.fields).eval()

    @pytest.fixture
    def questions(self) -> Questions:
        return self.make_questions()

    def test_logits(self, model: PreTrainedModel, questions: Questions) -> None:
        output = model(**questions)
        expected = self.expected_logits(model, questions)
        assert expected.isinf().any()
        torch.testing.assert_close(output.logits, expected, rtol=1e-5, atol=1e-5)
        assert output.loss is None

    def test_labels_give_a_loss(self, model: PreTrainedModel, questions: Questions) -> None:
        labels = torch.tensor(self.labels)
        output = model(**questions, labels=labels)
        shares = self.expected_logits(model, questions).softmax(dim=1)[torch.arange(len(labels)), labels]
        torch.testing.assert_close(output.loss, -shares.log().mean(), rtol=1e-4, atol=1e-5)
        output.loss.backward()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
        values = model(**questions, labels=labels, return_dict=False)
        assert isinstance(values, tuple)
        torch.testing.assert_close(values[0], output.loss)

    def test_without_choices_it_embeds(self, model: PreTrainedModel, questions: Questions) -> None:
        texts = self.without_choices(questions)
        output = model(**texts)
        assert output.logits is None
        torch.testing.assert_close(output.embeddings, model.base_model(**texts).embeddings)
        assert isinstance(model(**texts, return_dict=False), tuple)

    def test_half_precision_chooses_in_full(self, model: PreTrainedModel, questions: Questions) -> None:
        expected = model(**questions).logits
        logits = model.to(torch.bfloat16)(**questions).logits
        assert logits.dtype == torch.float32
        torch.testing.assert_close(logits, expected, rtol=self.half, atol=self.half)

    def test_a_trained_head_answers(self, tiny_encoder: Path, questions: Questions, tmp_path: Path) -> None:
        """What belongs to the training alone is left out, silently; nothing else may be."""
        head = self.head_class.from_encoder(str(tiny_encoder), **self.fields, **self.head_fields)
        # A head may remember something of the batches before.
        head(**self.head_inputs())
        head.eval().save_pretrained(tmp_path)
        for model_class in (type(head.base_model), AutoModelForMultipleChoice):
            loaded, report = model_class.from_pretrained(tmp_path, output_loading_info=True)
            assert not report["missing_keys"]
            assert not report["unexpected_keys"]
        assert type(loaded) is self.model_class
        texts = self.without_choices(questions)
        torch.testing.assert_close(loaded(**texts).embeddings, head.base_model(**texts).embeddings)
        expected = self.expected_logits(loaded, questions)
        torch.testing.assert_close(loaded(**questions).logits, expected, rtol=1e-5, atol=1e-5)

    def test_the_trainer_predicts_logits(
        self, model: PreTrainedModel, questions: Questions, tmp_path: Path
    ) -> None:
        batch = {**questions, "labels": torch.tensor(self.labels)}
        arguments = TrainingArguments(str(tmp_path), report_to="none", use_cpu=True, disable_tqdm=True)
        trainer = Trainer(model, arguments, data_collator=lambda rows: batch)
        predictions = trainer.predict([{}] * len(self.labels)).predictions
        expected = self.expected_logits(model, questions)
        there = expected.isfinite()
        torch.testing.assert_close(torch.tensor(predictions)[there], expected[there], rtol=1e-4, atol=1e-5)

    @pytest.mark.process
    def test_in_a_fresh_process(
        self, scenario: str, model: PreTrainedModel, questions: Questions, tiny_encoder: Path, tmp_path: Path
    ) -> None:
        """Also from what a training head, and the encoder alone, have saved."""
        expected = model(**questions)
        head = self.head_class(model.config)
        head.base_model.load_state_dict(model.base_model.state_dict())
        requests = []
        for name, saved in {"choice": model, "head": head, "encoder": model.base_model}.items():
            saved.save_pretrained(tmp_path / name)
            AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(tmp_path / name)
            requests.append(
                {
                    "name": name,
                    "folder": str(tmp_path / name),
                    "auto_classes": ["AutoModel", "AutoModelForMultipleChoice"],
                    "requires": list(self.requires),
                    **{key: value.tolist() for key, value in questions.items()},
                }
            )
        home = "transformers_modules" if scenario == "remote_code" else "eventformers.models"
        for answer in run_fresh(scenario, requests, tmp_path / "process", "libraries").values():
            loaded = answer["models"]["AutoModelForMultipleChoice"]
            assert loaded["class"].startswith(home)
            assert loaded["class"].endswith(self.model_class.__name__)
            torch.testing.assert_close(torch.tensor(loaded["logits"]), expected.logits)
