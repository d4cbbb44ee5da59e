"""Habits of users of other libraries, with the classes of those libraries; see docs/neighbours.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import evaluate
import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import (
    AutoModelForMultipleChoice,
    AutoTokenizer,
    DataCollatorForMultipleChoice,
    Trainer,
    TrainingArguments,
    pipeline,
)

import eventformers
from eventformers.models.sentence_transformers_files import write_sentence_transformers_files

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "neighbours.md").read_text(encoding="utf-8")
TEXTS = ["company fires worker", "storm floods city"]


@pytest.fixture(scope="module")
def folder(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model of the page."""
    place = tmp_path_factory.mktemp("neighbours")
    model = eventformers.SwccModel.from_encoder(str(tiny_encoder))
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    model.save_pretrained(place / "my-events")
    tokenizer.save_pretrained(place / "my-events")
    write_sentence_transformers_files(model, place / "my-events", tokenizer)
    return place


def snippet(heading: str) -> str:
    """The first Python block under a heading of the page."""
    found = re.search(rf"^##+ {heading}$.*?^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.mark.process
def test_the_trainer_of_sentence_transformers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(snippet("Fine-tuning"), names)  # noqa: S102
    tuned = names["SentenceTransformer"]("my-tuned-events").encode(TEXTS)
    np.testing.assert_allclose(tuned, names["model"].encode(TEXTS), atol=1e-6)
    np.testing.assert_allclose(tuned, eventformers.encode("my-tuned-events", TEXTS), atol=1e-5)
    assert np.abs(tuned - eventformers.encode("my-events", TEXTS)).max() > 1e-6


@pytest.mark.process
def test_setfit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("setfit")
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(snippet("SetFit").replace("num_epochs=1", 'max_steps=1, report_to="none"'), names)  # noqa: S102
    assert {*names["model"].predict(TEXTS)} <= {"business", "disaster"}


def test_pykeen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pykeen")
    monkeypatch.chdir(tmp_path)
    eventformers.build_dataset("commonsense_graphs", "conceptnet", output="my-graph")
    names: dict[str, Any] = {}
    exec(snippet("PyKEEN").replace("epochs=100", 'epochs=1, device="cpu"'), names)  # noqa: S102
    assert 0 < names["result"].get_metric("mrr") < 1


def test_the_pipeline_of_features_gives_vectors(folder: Path) -> None:
    features = pipeline("feature-extraction", model=str(folder / "my-events"))(TEXTS)
    np.testing.assert_allclose(
        np.concatenate(features), eventformers.encode(folder / "my-events", TEXTS), atol=1e-5
    )


def test_a_metric_takes_batches() -> None:
    metric = evaluate.load(str(REPOSITORY / "evaluate_metrics" / "mcnc"))
    metric.add_batch(predictions=[[0.1, 0.9]], references=[1])
    metric.add(predictions=[0.8, 0.2], references=1)
    assert metric.compute()["accuracy"] == 50.0


def test_adapters_in_a_plain_trainer(tiny_encoder: Path, tmp_path: Path) -> None:
    eventformers.MicoForMultipleChoice.from_encoder(str(tiny_encoder)).save_pretrained(tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    premise, alternatives = "the storm hit", ["the city flooded", "a thief won"]
    rows = [{**tokenizer([premise] * 2, alternatives), "labels": label} for label in (0, 1)]
    collator = DataCollatorForMultipleChoice(tokenizer)
    model = AutoModelForMultipleChoice.from_pretrained(tmp_path / "model")
    adapters = LoraConfig(r=2, target_modules=r".*encoder\..*\.(query|value)", init_lora_weights=False)
    adapted = get_peft_model(model, adapters)
    trainer = Trainer(
        model=adapted,
        args=TrainingArguments(tmp_path, max_steps=1, report_to="none", use_cpu=True, save_strategy="no"),
        train_dataset=rows,
        data_collator=collator,
    )
    trainer.train()
    adapted.save_pretrained(tmp_path / "adapters")
    base = AutoModelForMultipleChoice.from_pretrained(tmp_path / "model")
    batch = collator(rows)
    with torch.inference_mode():
        plain = base(**batch).logits
        merged = PeftModel.from_pretrained(base, tmp_path / "adapters").merge_and_unload()(**batch).logits
        torch.testing.assert_close(merged, adapted.eval()(**batch).logits, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(plain, merged, atol=1e-4)
