"""SWCC's stage for vectors of sentences, and stages whose changes of the weights are added."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig
from short_runs import assert_equal_weights, kill_after, short_run
from training_case import adapted_model
from transformers import AutoModel, AutoTokenizer

import eventformers
from eventformers.errors import EventformersError
from eventformers.loading.encoders import resolve_encoder
from eventformers.models.modeling_swcc import SwccModel
from eventformers.trainers.adapters import ADAPTER_FOLDER
from eventformers.trainers.run import TrainingRun
from eventformers.trainers.stages import RUN_FILE
from eventformers.trainers.swcc import SENTENCES, sentence_vectors
from eventformers.training import train

EVENTS = [
    {"subject": "police", "predicate": "arrest", "object": "thief"},
    {"subject": "storm", "predicate": "destroy", "object": "house of cards"},
]
SETTINGS = (
    *("views.min_role_frequency=1", "views.sentence_rows=40", "data.predicate_form=surface"),
    *("training.max_steps=2", "training.per_device_train_batch_size=8", "training.warmup_steps=0"),
    "training.learning_rate=1e-3",
)


def _run(encoder: Path, output: Path, *settings: str, **options: Any) -> TrainingRun:
    settings = (*SETTINGS, *settings)
    return short_run("swcc", encoder, output, *settings, recipe="minilm-verbs", seed=3, **options)


def test_vectors_of_sentences(tiny_encoder: Path, tmp_path: Path) -> None:
    """The first sentence counts twice, after the prompt and without dropout."""
    model = SwccModel.from_encoder(str(tiny_encoder), pooling="mean", prompts={"event": "the "}).train()
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    found = sentence_vectors(EVENTS, SENTENCES, model, tokenizer)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    can, they = (
        eventformers.encode(tmp_path, texts)
        for texts in (
            ["a police that can arrest a thief", "a storm that can destroy a house of cards"],
            ["they arrest the thief", "they destroy the house of cards"],
        )
    )
    unit_can, unit_they = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (can, they))
    np.testing.assert_allclose(found, 2 * unit_can + unit_they, atol=1e-5)
    assert model.training


@pytest.mark.parametrize(
    "sentence", ["hello", "a {actor}", "a {}", "a {subject", "{subject.words}", "{object!r}", "{object:{x}}"]
)
def test_a_sentence_needs_roles_alone(tiny_encoder: Path, sentence: str) -> None:
    model, tokenizer = SwccModel.from_encoder(str(tiny_encoder)), AutoTokenizer.from_pretrained(tiny_encoder)
    with pytest.raises(EventformersError, match=r"setting sentences: found .*; accepted: texts with {subj"):
        sentence_vectors(EVENTS, [sentence], model, tokenizer)


def test_a_run_without_sentences(tiny_encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match=r"setting sentences: found \[\]; accepted: texts with"):
        _run(tiny_encoder, tmp_path, "views.sentences=[]")


def test_the_stage_takes_as_many_rows_as_it_is_told(tiny_encoder: Path, tmp_path: Path) -> None:
    run = _run(tiny_encoder, tmp_path, "stages=[sentences]", "sentence_rows=12")
    assert run.data["rows"] == 12
    skipped = run.data["skipped"]
    assert skipped["event_without_words_in_every_role"] > 0
    assert skipped["event_beyond_sentence_rows"] > 0


@pytest.mark.parametrize("lora", [False, True], ids=["whole", "lora"])
def test_changes_of_stages_that_start_from_the_encoder_are_added(
    tiny_encoder: Path, tmp_path: Path, lora: bool
) -> None:
    """Each change is scaled by its own stage, and both are those of the stage alone."""
    start = AutoModel.from_pretrained(resolve_encoder(str(tiny_encoder))).state_dict()
    both, sentences, contrast = (
        _run(tiny_encoder, tmp_path / name, *settings, lora=lora)
        for name, settings in (
            ("both", ()),
            ("sentences", ("stages=[sentences]",)),
            ("contrast", ("stages=[contrast]",)),
        )
    )
    parts = [run.model.base_model.encoder.state_dict() for run in (both, sentences, contrast)]
    for name, value in parts[0].items():
        added = parts[1][name] + parts[2][name] - start[name]
        torch.testing.assert_close(value, added, msg=name, rtol=1e-4, atol=1e-5)
    assert any(not torch.equal(parts[1][name], start[name]) for name in parts[1])
    assert any(not torch.equal(parts[2][name], start[name]) for name in parts[2])
    if lora:
        assert both.adapter is not None
        both.adapter.save(tmp_path / "both" / ADAPTER_FOLDER)
        again = adapted_model(tmp_path / "both", tiny_encoder, "tiny").merge_and_unload().base_model.encoder
        for name, value in again.state_dict().items():
            torch.testing.assert_close(value, parts[0][name], msg=name, rtol=1e-4, atol=1e-5)


def test_weights_trained_without_matrices_have_no_sum(
    tiny_encoder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    peft = LoraConfig(modules_to_save=["LayerNorm"])
    run = short_run("swcc", tiny_encoder, tmp_path, *SETTINGS, recipe="minilm-verbs", seed=3, peft=peft)
    assert run.adapter is None
    assert "adapters of several stages have no sum" in caplog.text


def test_a_later_stage_resumes_with_the_earlier_change(tiny_encoder: Path, tmp_path: Path) -> None:
    """Heads of stages may differ: only the encoder of the earlier one counts."""
    settings = ("training.save_steps=1", "sentences.mlm_weight=0")
    whole = _run(tiny_encoder, tmp_path / "whole", *settings)
    killed = kill_after(tmp_path / "whole", 1, tmp_path / "killed")
    shutil.copytree(tmp_path / "whole" / "stages", killed / "stages")
    resumed = _run(tiny_encoder, killed, *settings, resume=True)
    assert resumed.resumed
    assert_equal_weights(resumed, whole)


def test_a_damaged_earlier_stage_is_told_before_the_later_one_trains(
    tiny_encoder: Path, tmp_path: Path
) -> None:
    _run(tiny_encoder, tmp_path / "whole")
    killed = tmp_path / "killed"
    shutil.copytree(tmp_path / "whole" / "stages", killed / "stages")
    shutil.copy(tmp_path / "whole" / RUN_FILE, killed)
    (killed / "stages" / "1-sentences" / "model.safetensors").write_bytes(b"")
    with pytest.raises(EventformersError, match="1-sentences is damaged"):
        _run(tiny_encoder, killed, resume=True)
    assert not list(killed.glob("checkpoint-*"))


def test_the_card_tells_of_the_stages(tiny_encoder: Path, tmp_path: Path) -> None:
    trained = {
        "recipe": "minilm-verbs",
        "seed": 3,
        "device": "cpu",
        "tasks": (),
        "encoder": str(tiny_encoder),
    }
    train("swcc", tmp_path / "both", settings=SETTINGS, **trained)
    train("swcc", tmp_path / "one", settings=[*SETTINGS, "stages=[contrast]"], **trained)
    both, one = ((tmp_path / name / "README.md").read_text(encoding="utf-8") for name in ("both", "one"))
    assert re.search(r"\| `sentences` \| the encoder \| 2 \| .* \| 1\.3 \|", both)
    assert re.search(r"\| `contrast` \| the encoder \| 2 \| .* \| 1\.03 \|", both)
    assert "a {subject} that can {predicate} a {object}, they {predicate} the {object}" in both
    assert "**Vectors of sentences**" in both
    assert "Vectors of sentences" not in one
