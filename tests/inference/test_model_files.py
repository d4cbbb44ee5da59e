"""What is checked of a model's files: each damage that a library reads without a word, and its one line."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from tiny import save_tiny_encoder

from eventformers import SwccForPreTraining
from eventformers.errors import EventformersError
from eventformers.inference.encode import load_encoder
from eventformers.loading.models import start_from_encoder

Damage = Callable[[Path], object]


@pytest.fixture
def encoder(tiny_encoder: Path, tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(tiny_encoder, tmp_path / "encoder"))
    (folder / "vocab.txt").unlink()
    return folder


@pytest.fixture(scope="module")
def saved(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    SwccForPreTraining.from_encoder(tiny_encoder, projection_dim=16).save_pretrained(folder)
    for file in tiny_encoder.glob("tokenizer*"):
        shutil.copy(file, folder)
    return folder


@pytest.fixture
def trained(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "trained"))


def configure(**entries: object) -> Damage:
    """Set entries of the encoder's configuration."""

    def damage(folder: Path) -> None:
        path = folder / "config.json"
        content = json.loads(path.read_text())
        content.get("text_config", content).update(entries)
        path.write_text(json.dumps(content))

    return damage


def configuration(text: str) -> Damage:
    return lambda folder: (folder / "config.json").write_text(text)


def reweigh(change: Callable[[dict[str, torch.Tensor]], object]) -> Damage:
    """Change the tensors of the file of weights."""

    def damage(folder: Path) -> None:
        path = folder / "model.safetensors"
        weights = load_file(path)
        change(weights)
        save_file(weights, path, metadata={"format": "pt"})

    return damage


def table(weights: dict[str, torch.Tensor]) -> str:
    return next(name for name in weights if name.endswith("word_embeddings.weight"))


def fill(value: float) -> Damage:
    return reweigh(lambda weights: weights[table(weights)][3, :2].fill_(value))


def recast(dtype: torch.dtype) -> Damage:
    return reweigh(lambda weights: weights.update({table(weights): weights[table(weights)].to(dtype)}))


def shard(file: str) -> Damage:
    """Move the weights to another file, of which an index tells."""

    def damage(folder: Path) -> None:
        path = folder / "model.safetensors"
        names = dict.fromkeys(load_file(path), file)
        path.rename(folder / file)
        (folder / "model.safetensors.index.json").write_text(
            json.dumps({"metadata": {}, "weight_map": names})
        )

    return damage


def replace_by(kind: str, name: str) -> Damage:
    def damage(folder: Path) -> None:
        path = folder / name
        path.unlink()
        if kind == "folder":
            path.mkdir()
        elif kind == "fifo":
            os.mkfifo(path)
        else:
            path.symlink_to(folder / "nowhere")

    return damage


def other_tokenizer(keep: Callable[[str, int], bool]) -> Damage:
    """Keep some tokens of the vocabulary."""

    def damage(folder: Path) -> None:
        path = folder / "tokenizer.json"
        content = json.loads(path.read_text())
        vocabulary = content["model"]["vocab"]
        content["model"]["vocab"] = {word: code for word, code in vocabulary.items() if keep(word, code)}
        path.write_text(json.dumps(content))

    return damage


def rewrite_tokenizer(**entries: object) -> Damage:
    def damage(folder: Path) -> None:
        path = folder / "tokenizer_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))

    return damage


DAMAGES: dict[str, tuple[Damage, str]] = {
    "null": (configuration("null"), r"config\.json: found None; accepted: a JSON object"),
    "nested": (configuration("[" * 100_000), r"config\.json: found JSON that is nested too deeply"),
    "type": (configure(model_type=["swcc"]), r"config\.json: found .*model_type \['swcc'\]; accepted: a str"),
    "map": (configure(auto_map=None), r"config\.json: found .*auto_map None; accepted: an object"),
    "dtype": (configure(dtype="float99"), r"config\.json: found .*dtype 'float99'; accepted: one of float64"),
    "int8": (configure(dtype="int8"), r"config\.json: found .*dtype 'int8'; accepted: one of float64"),
    "torch_dtype": (configure(torch_dtype=7), r"config\.json: found .*torch_dtype 7; accepted: one of"),
    "size 0": (configure(hidden_size=0), r"config\.json: found .*hidden_size 0; accepted: a positive"),
    "heads 0": (configure(num_attention_heads=0), r"found .*num_attention_heads 0; accepted: a positive"),
    "fewer layers": (configure(num_hidden_layers=1), r"model\.safetensors: has .*encoder\.layer\.1\."),
    "no layers": (configure(num_hidden_layers=-1), r"found .*num_hidden_layers -1; accepted: a positive"),
    "many layers": (
        configure(num_hidden_layers=10**6),
        r"num_hidden_layers 1000000; accepted: at most \d",
    ),
    "width": (configure(projection_dim=10**12), r"projection_dim 1000000000000; accepted: at most"),
    "activation": (configure(hidden_act="x"), r"cannot load .*config\.json and weights do not fit"),
    "no subconfig": (
        configuration('{"model_type": "swcc", "text_config": 5}'),
        r"config\.json: found text_config 5; accepted: an object",
    ),
    "NaN": (fill(float("nan")), r"2 numbers in .*word_embeddings\.weight are NaN or infinite"),
    "infinity": (fill(float("inf")), r"2 numbers in .*word_embeddings\.weight are NaN or infinite"),
    "integers": (recast(torch.int32), r"model\.safetensors: .*word_embeddings\.weight has the dtype I32"),
    "booleans": (recast(torch.bool), r"model\.safetensors: .*word_embeddings\.weight has the dtype BOOL"),
    "complex": (recast(torch.complex64), r"safetensors: .*word_embeddings\.weight has the dtype C64"),
    "folder": (replace_by("folder", "model.safetensors"), r"model\.safetensors: found a folder; accepted: a"),
    "fifo": (replace_by("fifo", "tokenizer.json"), r"tokenizer\.json: found a device; accepted: a regular"),
    "link": (replace_by("link", "model.safetensors"), r"model\.safetensors: found a link to nothing"),
    "escape": (shard("../outside.safetensors"), r"index\.json: found the file '\.\./outside\.safetensors'"),
    "no shard": (
        lambda folder: (shard("a.safetensors")(folder), (folder / "a.safetensors").unlink()),
        r"index\.json: names 'a\.safetensors', which does not exist",
    ),
    "no vocabulary": (
        lambda folder: (folder / "tokenizer.json").unlink(),
        r"of .*: found no tokenizer\.json and no vocab\.txt; the tokenizer has no vocabulary and reads",
    ),
    "no words": (
        other_tokenizer(lambda word, code: word.startswith("[")),
        "has no vocabulary and reads every word",
    ),
    "few words": (
        other_tokenizer(lambda word, code: code < 120),
        "not the model's: it has 120 tokens, and the model has embeddings for 144",
    ),
    "token beyond": (
        rewrite_tokenizer(mask_token="[NEW]"),  # noqa: S106, no password
        r"not the model's: its token '\[NEW\]' has the id 144, and the model has embeddings for 144 tokens",
    ),
    "limit": (
        rewrite_tokenizer(model_max_length="x"),
        r"has the model_max_length 'x'; accepted: a number of",
    ),
    "adapters": (
        lambda folder: (folder / "adapter_config.json").write_text('{"base_model_name_or_path": "../x"}'),
        r"adapter_config\.json: found adapters, which name the folder of their base model",
    ),
}


@pytest.mark.parametrize("which", ["encoder", "trained"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damage_is_named_in_one_line(which: str, damage: str, request: pytest.FixtureRequest) -> None:
    folder = request.getfixturevalue(which)
    change, message = DAMAGES[damage]
    load_encoder(folder, device="cpu")
    change(folder)
    with pytest.raises(EventformersError, match=message) as raised:
        load_encoder(folder, device="cpu")
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 700


def test_a_model_in_several_files_loads(encoder: Path) -> None:
    expected = load_encoder(encoder, device="cpu").encode(["storm flooded city"])
    shard("part.safetensors")(encoder)
    assert np.array_equal(load_encoder(encoder, device="cpu").encode(["storm flooded city"]), expected)


def test_weights_of_a_tower_without_place_are_refused(trained: Path) -> None:
    reweigh(lambda weights: weights.update({"swcc.other.weight": torch.zeros(2, 2)}))(trained)
    with pytest.raises(EventformersError, match=r"has swcc\.other\.weight and 0 more weights for which"):
        load_encoder(trained, device="cpu")


def test_a_trained_model_is_a_start_of_another(trained: Path) -> None:
    """Only its encoder is taken: the other weights need no place."""
    assert start_from_encoder(SwccForPreTraining, str(trained)).swcc.projection is None


def test_a_start_without_all_weights_of_its_encoder_is_refused(trained: Path) -> None:
    reweigh(lambda weights: weights.pop(table(weights)))(trained)
    with pytest.raises(ValueError, match=r"does not hold all weights.*word_embeddings\.weight"):
        start_from_encoder(SwccForPreTraining, str(trained))


@pytest.mark.parametrize("damage", ["NaN", "infinity", "no vocabulary", "few words", "no words"])
def test_a_pipeline_refuses_what_transformers_loads(trained: Path, damage: str) -> None:
    assert len(transformers.pipeline("event-embedding", model=str(trained), device="cpu")("storm")) == 16
    DAMAGES[damage][0](trained)
    with pytest.raises(ValueError, match=r"are NaN or infinite|has no vocabulary|is not the model's"):
        transformers.pipeline("event-embedding", model=str(trained), device="cpu")


def test_integers_beside_weights_are_no_weights(encoder: Path) -> None:
    """Checkpoints of older releases hold the positions."""
    reweigh(lambda weights: weights.update({"embeddings.position_ids": torch.arange(64)[None]}))(encoder)
    assert load_encoder(encoder, device="cpu").encode("storm").shape == (32,)


def test_the_vocabulary_of_another_script_is_one(tmp_path: Path) -> None:
    folder = save_tiny_encoder(tmp_path / "encoder")
    lines = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    words = ["буря", "затопила", "город"]
    # Nothing but words of one language, and as many tokens as before.
    filled = [*lines[:5], *words, *(f"слово{number}" for number in range(len(lines) - 5 - len(words)))]
    (folder / "vocab.txt").write_text("\n".join(filled) + "\n", encoding="utf-8")
    (folder / "tokenizer.json").unlink()
    assert load_encoder(folder, device="cpu").encode("буря затопила город").shape == (32,)
