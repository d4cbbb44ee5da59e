"""Damages of model folders: of any file's bytes, and of what configuration, tokenizer and weights say.

A damage changes a folder; it returns True if a result that differs from that of the undamaged folder is a
fault, and False if no one can know.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import torch
from safetensors.torch import load_file, save_file

Damage = Callable[[Path, Random], bool]
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 10**6, 10**12, 0.5, -0.5, 1e30, float("nan"), "", "x", "../x"),
    *("cls", "float99", "bert", [], ["x"], [1, 2], {}, {"a": {}}, {"a": None}, {"model_type": "t5"}),
)


@contextmanager
def changed_json(path: Path) -> Iterator[Any]:
    content = json.loads(path.read_text(encoding="utf-8"))
    yield content
    path.write_text(json.dumps(content), encoding="utf-8")


def _file(folder: Path, random: Random) -> Path:
    return random.choice(sorted(path for path in folder.iterdir() if path.suffix != ".py"))


def change_bytes(folder: Path, random: Random) -> bool:
    """Flip bits of one file, of weights in the header, which is what can be known; or keep its beginning."""
    path = _file(folder, random)
    data = bytearray(path.read_bytes())
    if random.random() < 0.5:
        path.write_bytes(data[: random.choice((0, 1, random.randrange(len(data)), len(data) - 1))])
        return False
    end = 8 + int.from_bytes(data[:8], "little") if path.suffix == ".safetensors" else len(data)
    for _ in range(random.randint(1, 8)):
        data[random.randrange(end)] ^= 1 << random.randrange(8)
    path.write_bytes(data)
    return False


def replace_file(folder: Path, random: Random) -> bool:
    """Replace one file by other bytes, deep JSON, a folder, a link or nothing."""
    path = _file(folder, random)
    path.unlink()
    kind = random.choice(("nothing", "folder", "link", "bytes", "null", "list", "pickle", "deep"))
    depth = random.choice((2_000, 100_000))
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(folder / "nowhere")
    elif kind != "nothing":
        content = {"null": b"null", "list": b"[]", "pickle": b"\x80\x02}.", "bytes": random.randbytes(300)}
        path.write_bytes({**content, "deep": b'{"a":' * depth + b"1" + b"}" * depth}[kind])
    # Without its settings a tokenizer may still be the same.
    return path.name not in ("tokenizer_config.json", "README.md")


def set_entry(folder: Path, random: Random) -> bool:
    """Set or remove one entry of a JSON file, wherever it stands."""
    name = random.choice(("config.json", "config.json", "tokenizer_config.json", "tokenizer.json"))
    with changed_json(folder / name) as content:
        place = random.choice([content, *(value for value in content.values() if isinstance(value, dict))])
        new = ["dtype", "torch_dtype", "auto_map", "model_type", "text_config", "vocab_size"]
        key = random.choice([*place, *(new if name != "tokenizer.json" else ())] or new)
        place[key] = random.choice(_VALUES)
        if name == "tokenizer.json" and random.random() < 0.3:
            del place[key]
    return False


def change_vocabulary(folder: Path, random: Random) -> bool:
    """Remove the words, most words or the file, or add words beyond the embeddings."""
    kind = random.choice(("none", "few", "more", "file"))
    with changed_json(folder / "tokenizer.json") as content:
        words: dict[str, int] = content["model"]["vocab"]
        size = len(words)
        if kind == "more":
            words.update({f"word{number}": size + number for number in range(random.choice((1, 9_000)))})
        else:
            # Markers that a method added stand behind the words, and stay.
            keep = 5 if kind == "none" else random.randrange(6, size * 8 // 10)
            content["model"]["vocab"] = {word: code for word, code in words.items() if code < keep}
    if kind == "file":
        (folder / "tokenizer.json").unlink()
    return True


def change_weights(folder: Path, random: Random) -> bool:
    """Remove, add, recast, reshape, fill or rename tensors."""
    path = folder / "model.safetensors"
    weights = load_file(path)
    name = random.choice(sorted(weights))
    one = weights[name]
    kind = random.choice(("remove", "add", "recast", "reshape", "fill", "foreign", "head", "none"))
    if kind == "remove":
        del weights[name]
    elif kind == "add":
        weights[f"extra.{name}"] = one.clone()
    elif kind == "recast":
        weights[name] = one.to(random.choice((torch.int8, torch.int64, torch.bool, torch.complex64)))
    elif kind == "reshape":
        weights[name] = one.flatten()[: random.choice((0, 1, one.numel() - 1))].clone()
    elif kind == "fill":
        one.view(-1)[random.randrange(one.numel())] = random.choice((float("nan"), float("inf")))
    elif kind == "head":
        weights = {f"other.{key}": value for key, value in weights.items()}
    else:
        weights = {"weight": torch.zeros(3, 3)} if kind == "foreign" else {}
    save_file(weights, path, metadata={"format": "pt"})
    return True


def shard(folder: Path, random: Random) -> bool:
    """Move the weights into a file that an index names: in the folder, outside of it, or nowhere."""
    path = folder / "model.safetensors"
    names = list(load_file(path))
    file = random.choice(("part.safetensors", "../outside.safetensors", "/etc/passwd", "a/b.safetensors", 7))
    path.rename(folder / ("part.safetensors" if file == "part.safetensors" else "../outside.safetensors"))
    index: Any = {"metadata": {}, "weight_map": dict.fromkeys(names, file)}
    if random.random() < 0.2:
        index = random.choice((None, [], {}, {"weight_map": None}, {"weight_map": {"a": None}}))
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return True


def name_adapters(folder: Path, random: Random) -> bool:
    """Add adapters whose base model is elsewhere."""
    base = random.choice(("../encoder", str(folder.with_name("other")), "", None))
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": base}))
    return True


def change_layers(folder: Path, random: Random) -> bool:
    """Let the configuration have other layers than the weights."""
    with changed_json(folder / "config.json") as content:
        content.get("text_config", content)["num_hidden_layers"] = random.choice((0, 1, 3, -1, 10**6))
    return True


DAMAGES: tuple[Damage, ...] = (change_bytes, replace_file, set_entry, change_vocabulary)
DAMAGES_OF_LOADING: tuple[Damage, ...] = (change_weights, shard, name_adapters, change_layers)
"""Damages that only the code that loads a model can know."""
