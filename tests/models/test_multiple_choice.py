"""Zero-shot multiple choice, as our code and as remote code, and of batches `(batch, choices, length)`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from fresh_process import run_fresh
from heterevent_inputs import CHAINS, CHOICES, EVENTS, SMALL, event_inputs, heterevent_inputs
from method_case import random_texts
from mico_inputs import mico_inputs
from transformers import (
    AutoModelForMultipleChoice,
    AutoProcessor,
    AutoTokenizer,
    DataCollatorForMultipleChoice,
    PreTrainedModel,
    Trainer,
    TrainingArguments,
)

from eventformers.models.choice_rows import split_rows
from eventformers.models.modeling_heterevent import HeterEventForMultipleChoice, HeterEventForPreTraining
from eventformers.models.modeling_mico import MicoForMultipleChoice, MicoForPreTraining

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


QUESTIONS = 3


class TestMicoChoice(MultipleChoiceCase):
    model_class = MicoForMultipleChoice
    head_class = MicoForPreTraining
    fields = {"pooling": "mean", "contrastive_temperature": TEMPERATURE, "projection_dim": 7}  # noqa: RUF012
    labels = [3, 0, 1]  # noqa: RUF012
    half = 0.05
    scenarios = ("package_last", "remote_code")

    def make_questions(self) -> Questions:
        """Questions of which the second has one alternative less, and the last offers what the first does."""
        input_ids, attention_mask = random_texts(QUESTIONS, 6, 100, seed=1)
        ids, mask = random_texts(QUESTIONS * CHOICES, 9, 100, seed=2)
        ids[-CHOICES:], mask[-CHOICES:] = ids[:CHOICES], mask[:CHOICES]
        absent = 2 * CHOICES - 1
        ids[absent], mask[absent] = 0, 0
        return {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "alternative_input_ids": ids.unflatten(0, (QUESTIONS, CHOICES)),
            "alternative_attention_mask": mask.unflatten(0, (QUESTIONS, CHOICES)),
        }

    def expected_logits(self, model: MicoForMultipleChoice, questions: Questions) -> torch.Tensor:
        logits = torch.full((QUESTIONS, CHOICES), float("-inf"))
        premises = model.mico(**self.without_choices(questions)).embeddings
        for row in range(QUESTIONS):
            for place in range(CHOICES):
                mask = questions["alternative_attention_mask"][row, place]
                if mask.any():
                    text = questions["alternative_input_ids"][row, place][: mask.sum()]
                    alternative = model.mico(text.unsqueeze(0)).embeddings[0]
                    cosine = torch.cosine_similarity(premises[row], alternative, dim=0)
                    logits[row, place] = cosine.item() / TEMPERATURE
        return logits

    def without_choices(self, questions: Questions) -> Questions:
        return {name: questions[name] for name in ("input_ids", "attention_mask")}

    def head_inputs(self) -> dict[str, torch.Tensor]:
        return mico_inputs(100)

    def test_premises_are_the_embeddings(self, model: MicoForMultipleChoice, questions: Questions) -> None:
        premises = model.mico(**self.without_choices(questions)).embeddings
        torch.testing.assert_close(model(**questions).embeddings, premises, rtol=1e-5, atol=1e-5)

    def test_masks_may_be_left_out_where_nothing_is_padded(self, model: MicoForMultipleChoice) -> None:
        ids, _ = random_texts(QUESTIONS * (1 + CHOICES), 5, 100, seed=3)
        premises, alternatives = ids[:QUESTIONS], ids[QUESTIONS:].unflatten(0, (QUESTIONS, CHOICES))
        torch.testing.assert_close(
            model(premises, alternative_input_ids=alternatives).logits,
            model(premises, torch.ones_like(premises), alternatives, torch.ones_like(alternatives)).logits,
        )


class TestHeterEventChoice(MultipleChoiceCase):
    model_class = HeterEventForMultipleChoice
    head_class = HeterEventForPreTraining
    fields = {**SMALL, "contrast_temperature": TEMPERATURE}  # noqa: RUF012
    head_fields = {"predict_from": "neighbours"}  # noqa: RUF012
    labels = [3, 0, 0, 1]  # noqa: RUF012
    requires = ("torch_geometric",)

    def make_questions(self) -> Questions:
        """Questions of different lengths, of which the second has one choice less and the third only one."""
        draw = torch.Generator().manual_seed(1)
        choices = torch.randint(EVENTS, (CHAINS, CHOICES), generator=draw)
        choices[1, -1:], choices[2, 1:] = -1, -1
        return {**event_inputs(100), "chains": heterevent_inputs(100)["chains"], "choices": choices}

    def expected_logits(self, model: HeterEventForMultipleChoice, questions: Questions) -> torch.Tensor:
        """Each question alone: the context as a chain of the encoder, each choice as a chain of its own."""
        logits = torch.full((CHAINS, CHOICES), float("-inf"))
        events = self.without_choices(questions)
        for row in range(CHAINS):
            context = [event for event in questions["chains"][row].tolist() if event >= 0]
            nodes = model.heterevent(
                **{name: value[context] for name, value in events.items()},
                chain_index=torch.zeros(len(context), dtype=torch.long),
            ).embeddings
            for place, choice in enumerate(questions["choices"][row].tolist()):
                if choice >= 0:
                    alone = {name: value[choice : choice + 1] for name, value in events.items()}
                    candidate = model.heterevent(**alone).candidates[0]
                    cosines = [torch.cosine_similarity(node, candidate, dim=0).item() for node in nodes]
                    logits[row, place] = sum(cosines) / len(cosines) / TEMPERATURE
        return logits

    def without_choices(self, questions: Questions) -> Questions:
        return {name: value for name, value in questions.items() if name not in ("chains", "choices")}

    def head_inputs(self) -> dict[str, torch.Tensor]:
        return heterevent_inputs(100)

    def test_one_choice_is_certain(self, model: HeterEventForMultipleChoice, questions: Questions) -> None:
        alone = {**questions, "chains": questions["chains"][2:3], "choices": questions["choices"][2:3]}
        assert model(**alone, labels=torch.tensor([0])).loss == 0

    def test_a_context_without_events_prefers_nothing(
        self, model: HeterEventForMultipleChoice, questions: Questions
    ) -> None:
        nothing = {**questions, "chains": torch.full_like(questions["chains"], -1)}
        logits = model(**nothing).logits
        assert (logits[questions["choices"] >= 0] == 0).all()

    @pytest.mark.parametrize("name", ["chains", "choices"])
    def test_missing_input_is_named(
        self, model: HeterEventForMultipleChoice, questions: Questions, name: str
    ) -> None:
        del questions[name]
        with pytest.raises(ValueError, match=f"missing: {name}"):
            model(**questions)


PREMISES = [
    {"premise": "the storm hit", "alternatives": ["the city flooded", "a thief won the game"]},
    {"premise": "police arrested a thief", "alternatives": ["the mayor won", "the storm flooded a road"]},
]
CONTEXTS = [
    {"context": ["the storm hit", "the river flooded"], "choices": ["the thief won", "the city flooded"]},
    {"context": ["police arrested a thief"], "choices": ["the storm hit", "the mayor won the game"]},
]


def features(tokenizer: Any, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What users of multiple-choice models tokenise: the context and one choice as a pair."""
    made = []
    for number, question in enumerate(questions):
        context, choices = question.values()
        first = context if isinstance(context, str) else f" {tokenizer.sep_token} ".join(context)
        made.append({**tokenizer([first] * len(choices), choices), "labels": number % 2})
    return made


@pytest.mark.parametrize(("method", "questions"), [("mico", PREMISES), ("heterevent", CONTEXTS)])
def test_a_standard_batch_is_scored_as_by_the_processor(
    folders: dict[str, Path], method: str, questions: list[dict[str, Any]]
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folders[method])
    model = AutoModelForMultipleChoice.from_pretrained(folders[method])
    batch = DataCollatorForMultipleChoice(tokenizer)(features(tokenizer, questions))
    assert batch["input_ids"].dim() == 3
    output = model(**batch)
    inputs = AutoProcessor.from_pretrained(folders[method])(questions)
    # Of the pairs, each token is a word of its own, and all are predicates.
    inputs.pop("word_index", None)
    expected = model(**inputs, labels=batch["labels"])
    assert output.logits.std() > 1e-3
    torch.testing.assert_close(output.logits, expected.logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(output.loss, expected.loss, rtol=1e-4, atol=1e-4)
    batch["attention_mask"][0, 1] = 0
    assert model(**batch).logits[0].tolist() == [
        pytest.approx(output.logits[0, 0].item(), abs=1e-4),
        -torch.inf,
    ]


@pytest.mark.parametrize(("method", "questions"), [("mico", PREMISES), ("heterevent", CONTEXTS)])
def test_plain_trainer(
    folders: dict[str, Path], tmp_path: Path, method: str, questions: list[dict[str, Any]]
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folders[method])
    model = AutoModelForMultipleChoice.from_pretrained(folders[method])
    before = {name: value.clone() for name, value in model.state_dict().items()}
    rows = features(tokenizer, questions)
    trainer = Trainer(
        model=model,
        args=TrainingArguments(tmp_path, max_steps=2, report_to="none", use_cpu=True, save_strategy="no"),
        train_dataset=rows,
        eval_dataset=rows,
        data_collator=DataCollatorForMultipleChoice(tokenizer),
    )
    trainer.train()
    assert trainer.evaluate()["eval_loss"] > 0
    assert any(not torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_rows_of_any_tokenizer() -> None:
    """Two separating tokens, padding at the left, one text, and a row of padding only."""
    ids = torch.tensor(
        [[0, 7, 8, 2, 2, 9, 2, 1], [1, 1, 0, 7, 2, 8, 9, 2], [0, 7, 2, 1, 1, 1, 1, 1], [1] * 8]
    )
    rows = split_rows(ids, (ids != 1).long())
    lengths = rows.attention_mask.sum(dim=1).tolist()
    texts = [row[:length] for row, length in zip(rows.input_ids.tolist(), lengths, strict=True)]
    assert texts == [[0, 7, 8, 2], [0, 9, 2], [0, 7, 2], [0, 8, 9, 2], [0, 7, 2]]
    assert rows.texts.tolist() == [[0, 1], [2, 3], [4, -1], [-1, -1]]
    assert rows.counts.tolist() == [2, 2, 1, 0]


def test_a_choice_without_a_premise(folders: dict[str, Path]) -> None:
    model = AutoModelForMultipleChoice.from_pretrained(folders["mico"])
    tokenizer = AutoTokenizer.from_pretrained(folders["mico"])
    alone = tokenizer(["the storm hit"], return_tensors="pt")["input_ids"].unsqueeze(0)
    with pytest.raises(ValueError, match="a choice of 1 texts between separating tokens; accepted: two"):
        model(alone)
