"""Training with `transformers.Trainer`, as docs/training.md shows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoTokenizer, TrainingArguments

import eventformers
from eventformers.errors import EventformersError
from eventformers.methods import all_methods, load_object

PAGE = Path(__file__).parents[2] / "docs" / "training.md"
SECTION = PAGE.read_text(encoding="utf-8").split("\n## Your own Trainer\n")[1].split("\n## ")[0]
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", SECTION, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def names_of_page(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The names of the page after the run of its first snippet, with a few steps, and the `folder` of it."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "my-encoder").symlink_to(tiny_encoder)
    names: dict[str, Any] = {"folder": folder}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(SNIPPETS[0].replace("max_steps=100", "max_steps=3, logging_steps=1"), names)  # noqa: S102
    return names


@pytest.fixture
def trained(names_of_page: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A copy of the names, in the folder of the snippet."""
    monkeypatch.chdir(names_of_page["folder"])
    return dict(names_of_page)


@pytest.mark.process
def test_a_plain_trainer_trains_and_saves(trained: dict[str, Any], tiny_encoder: Path) -> None:
    history = trained["trainer"].state.log_history
    assert [entry["loss"] > 0 for entry in history if "loss" in entry] == [True] * 3
    before, after = (AutoModel.from_pretrained(name).state_dict() for name in (tiny_encoder, "my-model"))
    name = "embeddings.word_embeddings.weight"
    assert not torch.equal(before[name], after[f"encoder.{name}"])
    tokenizer = AutoTokenizer.from_pretrained("my-model")
    assert len(tokenizer("the storm")["input_ids"]) > 2
    assert len([line for line in SNIPPETS[0].splitlines() if line.strip()]) <= 20


@pytest.mark.process
def test_the_event_trainer(trained: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(SNIPPETS[1].replace("max_steps=100", "max_steps=2, logging_steps=1"), trained)  # noqa: S102
    assert "contrastive_loss" in trained["trainer"].state.log_history[0]
    arguments = eventformers.EventTrainingArguments("my-model")
    assert arguments.remove_unused_columns is False
    assert TrainingArguments("my-model").remove_unused_columns is True


@pytest.mark.process
def test_the_callback_passes_the_epoch(trained: dict[str, Any]) -> None:
    collator, rows = trained["data"].collator, [trained["data"].train[place] for place in range(4)]
    state = trained["trainer"].state
    draws = []
    for epoch in (0, 1, 0):
        state.epoch = epoch
        eventformers.EpochCallback(collator).on_epoch_begin(None, state, None)
        draws.append(collator(rows)["masked_positions"].tolist())
    assert draws[0] == draws[2] != draws[1]


def test_a_stage_of_a_recipe(tiny_encoder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    head = eventformers.HeterEventForPreTraining.from_encoder(str(tiny_encoder), stage="graph")
    data = eventformers.training_data(head, tokenizer, recipe="demo")
    assert "view_seeds" in data.collator([data.train[0], data.train[1]])
    with pytest.raises(EventformersError, match="num_viewz"):
        eventformers.training_data(head, tokenizer, recipe="demo", settings=["num_viewz=3"])


def test_removed_columns_name_the_cure(tiny_encoder: Path) -> None:
    """`Trainer` removes the columns that the head does not take, if `remove_unused_columns` is true."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    head = eventformers.HeterEventForPreTraining.from_encoder(str(tiny_encoder), stage="graph")
    data = eventformers.training_data(head, tokenizer, recipe="demo")
    with pytest.raises(EventformersError, match=r"TrainingArguments\(remove_unused_columns=False\)"):
        data.collator([{}, {}])
    with pytest.raises(EventformersError, match="similar length"):
        eventformers.EventTrainingArguments("out", train_sampling_strategy="group_by_length")


def test_collators_are_public() -> None:
    for method in all_methods().values():
        if method.collator is not None:
            collator = load_object(method.collator)
            assert getattr(eventformers, collator.__name__) is collator
