"""Zero-shot multiple choice, as our code and as remote code, and of batches `(batch, choices, length)`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from choice_case import TEMPERATURE, MultipleChoiceCase, Questions
from heterevent_inputs import CHAINS, CHOICES, EVENTS, SMALL, event_inputs, heterevent_inputs
from method_case import random_texts
from mico_inputs import mico_inputs
from transformers import (
    AutoModelForMultipleChoice,
    AutoProcessor,
    AutoTokenizer,
    DataCollatorForMultipleChoice,
    Trainer,
    TrainingArguments,
)

from eventformers.models.choice_rows import split_rows
from eventformers.models.modeling_heterevent import HeterEventForMultipleChoice, HeterEventForPreTraining
from eventformers.models.modeling_mico import MicoForMultipleChoice, MicoForPreTraining

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
