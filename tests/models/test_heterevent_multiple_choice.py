"""HeterEvent's choice of the next event, as our code and as remote code."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from fresh_process import run_fresh
from heterevent_inputs import CHAINS, CHOICES, EVENTS, SMALL, event_inputs, heterevent_inputs
from transformers import AutoModelForMultipleChoice, AutoTokenizer

from eventformers.models.modeling_heterevent import (
    HeterEventForMultipleChoice,
    HeterEventForPreTraining,
    HeterEventModel,
)

TEMPERATURE = 0.2


@pytest.fixture
def model(tiny_encoder: Path) -> HeterEventForMultipleChoice:
    torch.manual_seed(0)
    return HeterEventForMultipleChoice.from_encoder(
        str(tiny_encoder), **SMALL, contrast_temperature=TEMPERATURE
    ).eval()


@pytest.fixture
def questions() -> dict[str, torch.Tensor]:
    """Questions of different lengths, of which the second has one choice less and the third only one."""
    draw = torch.Generator().manual_seed(1)
    choices = torch.randint(EVENTS, (CHAINS, CHOICES), generator=draw)
    choices[1, -1:], choices[2, 1:] = -1, -1
    return {**event_inputs(100), "chains": heterevent_inputs(100)["chains"], "choices": choices}


def _expected_logits(model: HeterEventForMultipleChoice, questions: dict[str, torch.Tensor]) -> torch.Tensor:
    """Each question alone: the context as a chain of the encoder, each choice as a chain of its own."""
    logits = torch.full((CHAINS, CHOICES), float("-inf"))
    events = {name: value for name, value in questions.items() if name not in ("chains", "choices")}
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


def test_logits_are_mean_cosines_over_the_temperature(
    model: HeterEventForMultipleChoice, questions: dict[str, torch.Tensor]
) -> None:
    output = model(**questions)
    expected = _expected_logits(model, questions)
    assert expected.isinf().sum() == CHOICES
    torch.testing.assert_close(output.logits, expected, rtol=1e-5, atol=1e-5)
    assert output.loss is None


def test_labels_give_a_loss(model: HeterEventForMultipleChoice, questions: dict[str, torch.Tensor]) -> None:
    labels = torch.tensor([3, 0, 0, 1])
    output = model(**questions, labels=labels)
    shares = _expected_logits(model, questions).softmax(dim=1)[torch.arange(CHAINS), labels]
    torch.testing.assert_close(output.loss, -shares.log().mean(), rtol=1e-4, atol=1e-5)
    output.loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    values = model(**questions, labels=labels, return_dict=False)
    assert isinstance(values, tuple)
    torch.testing.assert_close(values[0], output.loss)


def test_one_choice_is_certain(
    model: HeterEventForMultipleChoice, questions: dict[str, torch.Tensor]
) -> None:
    alone = {**questions, "chains": questions["chains"][2:3], "choices": questions["choices"][2:3]}
    assert model(**alone, labels=torch.tensor([0])).loss == 0


def test_a_context_without_events_prefers_nothing(
    model: HeterEventForMultipleChoice, questions: dict[str, torch.Tensor]
) -> None:
    nothing = {**questions, "chains": torch.full_like(questions["chains"], -1)}
    logits = model(**nothing).logits
    assert (logits[questions["choices"] >= 0] == 0).all()


@pytest.mark.parametrize("name", ["chains", "choices"])
def test_missing_input_is_named(
    model: HeterEventForMultipleChoice, questions: dict[str, torch.Tensor], name: str
) -> None:
    del questions[name]
    with pytest.raises(ValueError, match=f"missing: {name}"):
        model(**questions)


def test_without_chains_it_embeds(
    model: HeterEventForMultipleChoice, questions: dict[str, torch.Tensor]
) -> None:
    events = {name: value for name, value in questions.items() if name not in ("chains", "choices")}
    output = model(**events)
    assert output.logits is None
    torch.testing.assert_close(output.embeddings, model.heterevent(**events).embeddings)
    assert isinstance(model(**events, return_dict=False), tuple)


def test_half_precision_chooses_in_full(
    model: HeterEventForMultipleChoice, questions: dict[str, torch.Tensor]
) -> None:
    expected = model(**questions).logits
    logits = model.to(torch.bfloat16)(**questions).logits
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits, expected, rtol=0.1, atol=0.1)


def test_a_trained_head_answers(
    tiny_encoder: Path, questions: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    """What belongs to the training alone is left out, silently; nothing else may be."""
    head = HeterEventForPreTraining.from_encoder(
        str(tiny_encoder), **SMALL, contrast_temperature=TEMPERATURE, predict_from="neighbours"
    )
    head.save_pretrained(tmp_path)
    for model_class in (HeterEventModel, HeterEventForMultipleChoice):
        loaded, report = model_class.from_pretrained(tmp_path, output_loading_info=True)
        assert not report["missing_keys"]
        assert not report["unexpected_keys"]
    torch.testing.assert_close(loaded(**questions).logits, _expected_logits(loaded, questions))


def test_as_remote_code(
    model: HeterEventForMultipleChoice,
    questions: dict[str, torch.Tensor],
    tiny_encoder: Path,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "model"
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(folder)
    assert isinstance(AutoModelForMultipleChoice.from_pretrained(folder), HeterEventForMultipleChoice)
    request = {
        "name": "heterevent",
        "folder": str(folder),
        "auto_classes": ["AutoModelForMultipleChoice"],
        "requires": ["torch_geometric"],
        **{name: value.tolist() for name, value in questions.items()},
    }
    answer = run_fresh("remote_code", [request], tmp_path / "fresh", "libraries")["heterevent"]
    found = answer["models"]["AutoModelForMultipleChoice"]
    assert found["class"].startswith("transformers_modules")
    torch.testing.assert_close(torch.tensor(found["logits"]), model(**questions).logits)
