"""The trained models of the package: their folders, scores and faults."""

from __future__ import annotations

import json
import logging
import os
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
from forked import run_together
from huggingface_hub import constants
from peft import AutoPeftModel
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

import eventformers
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.loading import pretrained as module
from eventformers.loading.encoders import resolve_encoder
from eventformers.loading.pretrained import CHANGE_FILE, FACTS_FILE, MODELS, list_pretrained, pretrained
from eventformers.methods import all_methods

REPOSITORY = Path(__file__).resolve().parents[2]
NAMES = [one.name for one in list_pretrained() if one.method]
TEXTS = ["police arrested thief", "the storm flooded the city"]


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "HF_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def test_list() -> None:
    models = list_pretrained()
    assert {*all_methods(), "event_nouns", "same_events"} <= {one.name for one in models}
    assert sum(one.num_bytes for one in models) <= 12_000_000
    for one in models:
        assert one.licenses
        assert one.card.is_file()
        for score in one.scores:
            assert score.untrained is None or score.value >= score.untrained


def test_the_wheel_has_the_files() -> None:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = settings["package-data"]["eventformers.loading"]
    packaged = {path for pattern in patterns for path in MODELS.parent.glob(pattern) if path.is_file()}
    assert packaged == {path for path in MODELS.rglob("*") if path.is_file()}
    assert {MODELS / name / file for name in NAMES for file in (CHANGE_FILE, "README.md")} <= packaged


@pytest.mark.parametrize("name", NAMES)
def test_scores_on_the_samples(name: str) -> None:
    facts = json.loads((MODELS / name / FACTS_FILE).read_text())
    model, settings = facts.get("retriever", name), None
    if model != name:
        weight = json.loads((MODELS / name / "config.json").read_text())["retriever_weight"]
        settings = {"reranker": name, "retriever_weight": weight}
    for task, value in list(facts["sample_scores"].items())[:3]:
        result = eventformers.evaluate(model, task, settings=settings, baseline=False)
        assert result.main_value == pytest.approx(value, abs=0.5 if abs(value) > 1 else 0.01)
        assert result.model == model


def test_adapters_with_added_tokens() -> None:
    folder = pretrained("event_grounding")
    inputs = AutoTokenizer.from_pretrained(folder)(
        "Storms hit [ENT_START] town [ENT_END]", return_tensors="pt"
    )
    with torch.inference_mode():
        own = AutoModel.from_pretrained(folder).encoder(**inputs).last_hidden_state
        adapted = AutoPeftModel.from_pretrained(f"{folder}/adapter")(**inputs).last_hidden_state
    assert inputs["input_ids"].max() > 30_521
    torch.testing.assert_close(adapted, own, atol=1e-4, rtol=0)


def test_every_library_gives_the_same_vectors() -> None:
    folder = pretrained("swcc")
    vectors = eventformers.encode("swcc", TEXTS)
    np.testing.assert_allclose(SentenceTransformer(folder).encode(TEXTS), vectors, atol=1e-5)
    inputs = AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, return_tensors="pt")
    mask = inputs["attention_mask"][..., None]
    with torch.inference_mode():
        own = AutoModel.from_pretrained(folder)(**inputs).embeddings
        states = AutoPeftModel.from_pretrained(f"{folder}/adapter")(**inputs).last_hidden_state
    np.testing.assert_allclose(own, vectors, atol=1e-5)
    np.testing.assert_allclose((states * mask).sum(1) / mask.sum(1), vectors, atol=1e-5)
    assert np.abs(eventformers.encode(None, TEXTS) - vectors).max() > 0.1


def test_a_name_is_a_name_and_a_folder_a_path(tmp_path: Path, monkeypatch, caplog) -> None:
    (tmp_path / "swcc").mkdir()
    (tmp_path / "swcc" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert resolve_encoder("swcc") == pretrained("swcc")
    assert "swcc: the model of the package; the folder of this name is ./swcc" in caplog.text
    assert resolve_encoder("./swcc") == "swcc"
    assert resolve_encoder(Path("swcc")) == "swcc"
    assert resolve_encoder("owner/swcc") == "owner/swcc"
    assert resolve_encoder("grounding") == pretrained("event_grounding")


def test_unknown_names() -> None:
    with pytest.raises(UnknownNameError, match="swcc"):
        pretrained("swc")
    with pytest.raises(
        EventformersError, match="event_nouns is no model of transformers: extract or explore"
    ):
        pretrained("event_nouns")
    with pytest.raises(
        EventformersError, match=r"or evaluate .* --set pair_scorer=true without a model, load"
    ):
        pretrained("same_events")


@pytest.mark.parametrize(
    ("name", "near"),
    [("SWCC", "swcc"), ("swc", "swcc"), ("groundin", "grounding"), ("same_event", "same_events")],
)
def test_a_name_close_to_that_of_a_model_of_the_package(name: str, near: str) -> None:
    with pytest.raises(EventformersError, match=f"{name}: no model; accepted: {near}, which comes with"):
        resolve_encoder(name)


def test_names_that_the_hub_may_have() -> None:
    names = ["bert-base-uncased", "gpt2", "owner/swc", "a/swcc"]
    assert [resolve_encoder(name) for name in names] == names


def test_a_damaged_package(tmp_path: Path, monkeypatch) -> None:
    shutil.copytree(MODELS / "swcc", tmp_path / "swcc")
    monkeypatch.setattr(module, "MODELS", tmp_path)
    data = bytearray((tmp_path / "swcc" / CHANGE_FILE).read_bytes())
    data[-1] ^= 1
    (tmp_path / "swcc" / CHANGE_FILE).write_bytes(data)
    with pytest.raises(EventformersError, match=rf"{CHANGE_FILE}: found SHA-256 .*; reinstall"):
        pretrained("swcc")


def test_a_damaged_cache_is_built_again() -> None:
    weights = Path(pretrained("swcc"), "model.safetensors")
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])
    assert Path(pretrained("swcc"), "model.safetensors").read_bytes() == whole
    Path(pretrained("swcc"), "config.json").unlink()
    assert Path(pretrained("swcc"), "config.json").is_file()


@pytest.mark.parametrize("content", ['{"sha256": []}', '{"sha256": null}', '{"sha256": {}}'])
def test_a_damaged_list_of_built_files_is_built_again(content: str) -> None:
    built = Path(pretrained("swcc"), "built.json")
    before = built.read_bytes()
    built.write_text(content, encoding="utf-8")
    assert pretrained("swcc") == str(built.parent)
    assert built.read_bytes() == before


def test_two_processes_at_once(tmp_path: Path) -> None:
    code = "import eventformers; print(eventformers.pretrained('swcc'))"
    call = (["-c", code], {**os.environ, "HF_HOME": str(tmp_path)})
    both = run_together([call, call], cwd=tmp_path, timeout=250, server="fresh")
    folders = {Path(one.stdout.splitlines()[-1]) for one in both if one.returncode == 0}
    assert [one.returncode for one in both] == [0, 0]
    assert len(folders) == 1
    whole = Path(pretrained("swcc"), "model.safetensors").read_bytes()
    assert (folders.pop() / "model.safetensors").read_bytes() == whole
