"""Texts outside the graph, and the vectors of the untrained encoder for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset
from datasets import config as datasets_config
from transformers import AutoTokenizer

import eventformers
from eventformers.datasets_scripts.base import SAMPLES
from eventformers.errors import DataFormatError, EventformersError
from eventformers.methods import load_method
from eventformers.models.modeling_mico import MicoModel
from eventformers.trainers import mico_rows
from eventformers.trainers.mico import MicoCollator, PremiseRows
from eventformers.trainers.mico_rows import NO_TEXT, SENTENCES, DistillationTexts, distillation_texts
from eventformers.trainers.run import resolve_recipe, train_head

QUICK = Path(__file__).with_name("quick_mico.yaml")
LINES = ("The police closed the bridge.", "A storm hit the city.", "The judge met the doctor of the bank.")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets_config, "HF_DATASETS_CACHE", tmp_path / "cache")


def _read(encoder: Path, source: str | None, longest: int = 32, **fields: object) -> DistillationTexts:
    model = MicoModel.from_encoder(str(encoder), **fields).train()
    found = distillation_texts(source, 0.5, model, AutoTokenizer.from_pretrained(encoder), longest)
    assert model.training
    return found


def test_vectors_are_those_of_the_encoder(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without dropout, of each distinct line once, after the prompt, whatever the size of a block."""
    file = tmp_path / "texts.txt"
    file.write_text("\n".join([LINES[0], "", *LINES, f" {LINES[1]} "]) + "\n", encoding="utf-8")
    fields = {"pooling": "mean", "prompts": {"event": "the "}}
    read = _read(tiny_encoder, str(file), **fields)
    assert read.texts == list(LINES)
    MicoModel.from_encoder(str(tiny_encoder), **fields).save_pretrained(tmp_path / "model")
    AutoTokenizer.from_pretrained(tiny_encoder).save_pretrained(tmp_path / "model")
    expected = eventformers.encode(tmp_path / "model", list(LINES))
    np.testing.assert_allclose(read.vectors, expected, atol=1e-5)
    for size, longest in ((2, 32), (256, 5)):
        monkeypatch.setattr(mico_rows, "_BLOCK", size)
        again = _read(tiny_encoder, str(file), longest, **fields)
        assert np.allclose(again.vectors, expected, atol=1e-5) == (longest == 32)


def test_encoded_once(tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = _read(tiny_encoder, None)
    monkeypatch.setattr(mico_rows, "_vectors", lambda *_: pytest.fail("encoded again"))
    np.testing.assert_array_equal(_read(tiny_encoder, None).vectors, first.vectors)


def test_bundled_sentences_are_those_of_other_samples() -> None:
    """They are sentences of the mentions and of the articles; none is part of a question or of a graph."""
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(set(lines)) == 648
    mentions, articles = (
        [json.loads(line) for line in (SAMPLES / name).read_text(encoding="utf-8").splitlines()]
        for name in ("event_types/mentions.jsonl", "texts/news.jsonl")
    )
    known = {row["sentence"] for row in mentions}
    news = " ".join(row["text"] for row in articles)
    assert all(line in known or line in news for line in lines)


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"\n \n", EventformersError, "setting distillation_texts: .*: no text; accepted: a file of plain"),
        (b"", DataFormatError, "an empty file"),
        (b"a storm\n\xff\n", DataFormatError, "line 2.*accepted: UTF-8"),
        (None, EventformersError, "setting distillation_texts: .*: no file; accepted: a file of plain text"),
    ],
)
def test_bad_files(
    tiny_encoder: Path, tmp_path: Path, content: bytes | None, error: type[Exception], message: str
) -> None:
    file = tmp_path / "texts.txt"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(error, match=message):
        _read(tiny_encoder, str(file))


@pytest.mark.parametrize(("name", "found"), [("folder", "a folder"), ("rows.jsonl.gz", "not plain text")])
def test_other_kinds_of_files(tiny_encoder: Path, tmp_path: Path, name: str, found: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "rows.jsonl.gz").write_bytes(b"{}")
    with pytest.raises(EventformersError, match=f"setting distillation_texts: .*{name}: {found}; accepted"):
        _read(tiny_encoder, str(tmp_path / name))


def test_draws(tiny_encoder: Path) -> None:
    """Rows draw by themselves; those without a text do not count, and their other draws stay as they are."""
    texts = DistillationTexts(
        list(LINES), np.arange(6, dtype=np.float32).reshape(3, 2), share=0.25, report={}
    )
    pairs = {"premise": ["p"] * 400, "alternative": [f"a{number}" for number in range(400)]}
    rows = PremiseRows(Dataset.from_dict({**pairs, "direction": ["forward"] * 400}))
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    collator = MicoCollator(tokenizer, rows.alternatives, seed=3, distillation=texts)
    items = [rows[index] for index in range(400)]
    batch = collator(items)
    counts = batch["distillation_mask"].float().mean()
    assert 0.17 < counts < 0.33
    read = tokenizer.batch_decode(batch["distillation_input_ids"], skip_special_tokens=True)
    drawn = set()
    for text, vector, kept in zip(
        read, batch["distillation_vectors"].tolist(), batch["distillation_mask"].tolist(), strict=True
    ):
        place = texts.vectors.tolist().index(vector)
        assert text == tokenizer.decode(tokenizer(LINES[place])["input_ids"], skip_special_tokens=True)
        assert kept or place == 0
        drawn.add(place)
    assert drawn == {0, 1, 2}
    halves = [collator(items[:150]), collator(items[150:])]
    for name in ("distillation_mask", "distillation_vectors"):
        assert torch.equal(torch.cat([half[name] for half in halves]), batch[name])
    collator.distillation = None
    plain = collator(items)
    assert not any(name.startswith("distillation") for name in plain)
    assert torch.equal(plain["alternative_ids"], batch["alternative_ids"])


def test_share() -> None:
    for share, expected in ((0.0, {NO_TEXT}), (1.0, {0, 1, 2})):
        texts = DistillationTexts(list(LINES), np.zeros((3, 2), dtype=np.float32), share, {})
        assert {texts.draw(np.random.default_rng(seed)) for seed in range(50)} == expected


def test_a_resume_needs_the_same_texts(tiny_encoder: Path, tmp_path: Path) -> None:
    """Also if only the file beside the graph has changed."""
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(LINES), encoding="utf-8")
    settings = [f"distillation_texts={file}", "distillation_weight=1", "max_steps=2", "save_steps=1"]
    recipe = resolve_recipe(load_method("mico"), str(QUICK), settings, seed=1)
    options: dict[str, Any] = {
        "encoder": str(tiny_encoder),
        "encoder_name": "tiny",
        "output": tmp_path / "run",
        "device": "cpu",
    }
    run = train_head(recipe, **options)
    assert run.data["sources"]["texts.txt"] == {"license": "unspecified"}
    assert "texts.txt" in {entry["name"] for entry in run.data["raw_files"]}
    file.write_text(LINES[0], encoding="utf-8")
    with pytest.raises(EventformersError, match=r"was trained on other rows \(fingerprint"):
        train_head(recipe, resume=True, **options)
    file.write_text("\n".join(LINES), encoding="utf-8")
    assert train_head(recipe, resume=True, **options).steps == 2


def test_texts_need_a_weight(tiny_encoder: Path, tmp_path: Path) -> None:
    settings = ["distillation_texts=texts.txt", "distillation_weight=0"]
    recipe = resolve_recipe(load_method("mico"), str(QUICK), settings, seed=1)
    with pytest.raises(EventformersError, match=r"distillation_texts=texts.txt is used only with"):
        train_head(recipe, encoder=str(tiny_encoder), encoder_name="tiny", output=tmp_path / "run")
