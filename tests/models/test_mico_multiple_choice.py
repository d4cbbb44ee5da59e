"""MICO's zero-shot multiple choice, as our code and as remote code."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from fresh_process import run_fresh
from method_case import random_texts
from mico_inputs import mico_inputs
from transformers import AutoModelForMultipleChoice, AutoTokenizer, Trainer, TrainingArguments

from eventformers.models.modeling_mico import MicoForMultipleChoice, MicoForPreTraining, MicoModel

QUESTIONS, CHOICES = 3, 4
TEMPERATURE = 0.2


@pytest.fixture
def model(tiny_encoder: Path) -> MicoForMultipleChoice:
    torch.manual_seed(0)
    return MicoForMultipleChoice.from_encoder(
        str(tiny_encoder), pooling="mean", contrastive_temperature=TEMPERATURE, projection_dim=7
    ).eval()


@pytest.fixture
def questions() -> dict[str, torch.Tensor]:
    """Questions of which the second has one alternative less."""
    input_ids, attention_mask = random_texts(QUESTIONS, 6, 100, seed=1)
    alternative_ids, alternative_mask = random_texts(QUESTIONS * CHOICES, 9, 100, seed=2)
    # The last question offers what the first does.
    alternative_ids[-CHOICES:], alternative_mask[-CHOICES:] = (
        alternative_ids[:CHOICES],
        alternative_mask[:CHOICES],
    )
    absent = 2 * CHOICES - 1
    alternative_ids[absent], alternative_mask[absent] = 0, 0
    return {
        "input_ids": input_ids,
        "attention_mask": attention_mask,
        "alternative_input_ids": alternative_ids.unflatten(0, (QUESTIONS, CHOICES)),
        "alternative_attention_mask": alternative_mask.unflatten(0, (QUESTIONS, CHOICES)),
    }


def _expected_logits(model: MicoForMultipleChoice, questions: dict[str, torch.Tensor]) -> torch.Tensor:
    logits = torch.full((QUESTIONS, CHOICES), float("-inf"))
    premises = model.mico(questions["input_ids"], questions["attention_mask"]).embeddings
    for row in range(QUESTIONS):
        for place in range(CHOICES):
            mask = questions["alternative_attention_mask"][row, place]
            if mask.any():
                text = questions["alternative_input_ids"][row, place][: mask.sum()]
                alternative = model.mico(text.unsqueeze(0)).embeddings[0]
                cosine = torch.cosine_similarity(premises[row], alternative, dim=0)
                logits[row, place] = cosine.item() / TEMPERATURE
    return logits


def test_logits_are_cosines_over_the_temperature(
    model: MicoForMultipleChoice, questions: dict[str, torch.Tensor]
) -> None:
    output = model(**questions)
    expected = _expected_logits(model, questions)
    assert expected.isinf().nonzero().tolist() == [[1, CHOICES - 1]]
    torch.testing.assert_close(output.logits, expected, rtol=1e-5, atol=1e-5)
    assert output.loss is None
    premises = model.mico(questions["input_ids"], questions["attention_mask"]).embeddings
    torch.testing.assert_close(output.embeddings, premises, rtol=1e-5, atol=1e-5)


def test_labels_give_a_loss(model: MicoForMultipleChoice, questions: dict[str, torch.Tensor]) -> None:
    labels = torch.tensor([3, 0, 1])
    output = model(**questions, labels=labels)
    shares = _expected_logits(model, questions).softmax(dim=1)[torch.arange(QUESTIONS), labels]
    torch.testing.assert_close(output.loss, -shares.log().mean(), rtol=1e-4, atol=1e-5)
    output.loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    values = model(**questions, labels=labels, return_dict=False)
    assert isinstance(values, tuple)
    torch.testing.assert_close(values[0], output.loss)


def test_masks_may_be_left_out_where_nothing_is_padded(model: MicoForMultipleChoice) -> None:
    ids, _ = random_texts(QUESTIONS * (1 + CHOICES), 5, 100, seed=3)
    premises, alternatives = ids[:QUESTIONS], ids[QUESTIONS:].unflatten(0, (QUESTIONS, CHOICES))
    torch.testing.assert_close(
        model(premises, alternative_input_ids=alternatives).logits,
        model(premises, torch.ones_like(premises), alternatives, torch.ones_like(alternatives)).logits,
    )


def test_without_alternatives_it_embeds(
    model: MicoForMultipleChoice, questions: dict[str, torch.Tensor]
) -> None:
    texts = questions["input_ids"], questions["attention_mask"]
    output = model(*texts)
    assert output.logits is None
    torch.testing.assert_close(output.embeddings, model.mico(*texts).embeddings)
    assert isinstance(model(*texts, return_dict=False), tuple)


def test_half_precision_chooses_in_full(
    model: MicoForMultipleChoice, questions: dict[str, torch.Tensor]
) -> None:
    expected = model(**questions).logits
    logits = model.to(torch.bfloat16)(**questions).logits
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits, expected, rtol=0.05, atol=0.05)


def test_a_trained_head_answers(
    tiny_encoder: Path, questions: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    """What belongs to the training alone is left out, silently; nothing else may be."""
    head = MicoForPreTraining.from_encoder(str(tiny_encoder), contrastive_temperature=TEMPERATURE)
    head(**mico_inputs(100))
    head.eval().save_pretrained(tmp_path)
    loaded, report = AutoModelForMultipleChoice.from_pretrained(tmp_path, output_loading_info=True)
    assert type(loaded) is MicoForMultipleChoice
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    texts = questions["input_ids"], questions["attention_mask"]
    torch.testing.assert_close(loaded(*texts).embeddings, head.mico(*texts).embeddings)
    torch.testing.assert_close(
        loaded(**questions).logits, _expected_logits(loaded, questions), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("scenario", ["package_last", "remote_code"])
def test_choice_in_a_fresh_process(
    scenario: str,
    model: MicoForMultipleChoice,
    questions: dict[str, torch.Tensor],
    tiny_encoder: Path,
    tmp_path: Path,
) -> None:
    """Also from what a training head, and the encoder alone, have saved."""
    with torch.inference_mode():
        expected = model(**questions)
    head = MicoForPreTraining(model.config)
    head.mico.load_state_dict(model.mico.state_dict())
    saved: dict[str, MicoForMultipleChoice | MicoForPreTraining | MicoModel] = {
        "choice": model,
        "head": head,
        "encoder": model.mico,
    }
    requests = []
    for name, each in saved.items():
        each.save_pretrained(tmp_path / name)
        AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(tmp_path / name)
        requests.append(
            {
                "name": name,
                "folder": str(tmp_path / name),
                "auto_classes": ["AutoModel", "AutoModelForMultipleChoice"],
                **{key: value.tolist() for key, value in questions.items()},
            }
        )
    home = "transformers_modules" if scenario == "remote_code" else "eventformers.models"
    for answer in run_fresh(scenario, requests, tmp_path / "process", "libraries").values():
        loaded = answer["models"]["AutoModelForMultipleChoice"]
        assert loaded["class"].startswith(home)
        assert loaded["class"].endswith("MicoForMultipleChoice")
        torch.testing.assert_close(torch.tensor(loaded["logits"]), expected.logits)
        torch.testing.assert_close(torch.tensor(loaded["embeddings"]), expected.embeddings)
        assert "logits" not in answer["models"]["AutoModel"]


def test_the_trainer_predicts_logits(
    model: MicoForMultipleChoice, questions: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    batch = {**questions, "labels": torch.tensor([3, 0, 1])}
    arguments = TrainingArguments(str(tmp_path), report_to="none", use_cpu=True, disable_tqdm=True)
    trainer = Trainer(model, arguments, data_collator=lambda rows: batch)
    predictions = trainer.predict([{}] * QUESTIONS).predictions
    expected = _expected_logits(model, questions)
    there = expected.isfinite()
    torch.testing.assert_close(torch.tensor(predictions)[there], expected[there], rtol=1e-4, atol=1e-5)
