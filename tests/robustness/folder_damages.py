"""Damages of model folders: of any file's bytes, and of what configuration, tokenizer and weights say."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import torch
from safetensors.torch import load_file, save_file

Damage = Callable[[Path, Random], bool]
"""Changes a folder; true if a result that differs from that of the undamaged folder is a finding."""


def _file(folder: Path, random: Random) -> Path:
    return random.choice(sorted(path for path in folder.iterdir() if path.suffix != ".py"))


def flip_bits(folder: Path, random: Random) -> bool:
    """Flip bits of one file; of weights in the header, which is what can be known."""
    path = _file(folder, random)
    data = bytearray(path.read_bytes())
    end = len(data)
    if path.suffix == ".safetensors":
        end = 8 + int.from_bytes(data[:8], "little")
    for _ in range(random.randint(1, 8)):
        data[random.randrange(end)] ^= 1 << random.randrange(8)
    path.write_bytes(data)
    return False


def truncate(folder: Path, random: Random) -> bool:
    """Keep the beginning of one file."""
    path = _file(folder, random)
    data = path.read_bytes()
    path.write_bytes(data[: random.choice((0, 1, random.randrange(len(data)), len(data) - 1))])
    return False


def replace_file(folder: Path, random: Random) -> bool:
    """Replace one file by other bytes, a folder, a link or nothing."""
    path = _file(folder, random)
    path.unlink()
    kind = random.choice(("nothing", "folder", "link", "bytes", "null", "list", "pickle"))
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(folder / "nowhere")
    elif kind != "nothing":
        content = {"bytes": random.randbytes(300), "null": b"null", "list": b"[]", "pickle": b"\x80\x02}."}
        path.write_bytes(content[kind])
    # Without its settings a tokenizer may still be the same.
    return path.name not in ("tokenizer_config.json", "README.md")


_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 10**6, 10**12, 0.5, -0.5, 1e30, float("nan"), "", "x", "../x"),
    *("cls", "float99", "bert", [], ["x"], [1, 2], {}, {"a": {}}, {"a": None}, {"model_type": "t5"}),
)


def set_entry(folder: Path, random: Random) -> bool:
    """Set one entry of a JSON file, wherever it stands, to a value of any kind."""
    path = random.choice([folder / name for name in ("config.json", "config.json", "tokenizer_config.json")])
    content = json.loads(path.read_text(encoding="utf-8"))
    places = [content, *(value for value in content.values() if isinstance(value, dict))]
    place = random.choice(places)
    keys = [*place, "dtype", "torch_dtype", "auto_map", "model_type", "text_config", "vocab_size"]
    place[random.choice(keys)] = random.choice(_VALUES)
    path.write_text(json.dumps(content), encoding="utf-8")
    return False


def set_tokenizer_entry(folder: Path, random: Random) -> bool:
    """Set or remove one entry of the tokenizer, at its top or within one part."""
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    place = random.choice([content, *(value for value in content.values() if isinstance(value, dict))])
    key = random.choice(sorted(place))
    if random.random() < 0.3:
        del place[key]
    else:
        place[key] = random.choice(_VALUES)
    path.write_text(json.dumps(content), encoding="utf-8")
    return False


def other_vocabulary(folder: Path, random: Random) -> bool:
    """Remove the words, most words or the file, or add words beyond the embeddings."""
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    words: dict[str, int] = content["model"]["vocab"]
    kind = random.choice(("none", "few", "more", "file"))
    if kind == "file":
        path.unlink()
        return True
    if kind == "more":
        words.update({f"word{number}": len(words) + number for number in range(random.choice((1, 9_000)))})
    else:
        keep = 5 if kind == "none" else random.randrange(6, len(words) * 8 // 10)
        content["model"]["vocab"] = {word: code for word, code in words.items() if code < keep}
    # Markers that a method added stand behind the words, and stay.
    path.write_text(json.dumps(content), encoding="utf-8")
    return True


def change_weights(folder: Path, random: Random) -> bool:
    """Remove, add, recast, reshape or fill tensors."""
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
    elif kind == "foreign":
        weights = {"weight": torch.zeros(3, 3)}
    elif kind == "head":
        weights = {f"other.{key}": value for key, value in weights.items()}
    else:
        weights = {}
    save_file(weights, path, metadata={"format": "pt"})
    return True


def shard(folder: Path, random: Random) -> bool:
    """Move the weights into a file that an index names: in the folder, outside of it, or nowhere."""
    path = folder / "model.safetensors"
    names = list(load_file(path))
    file = random.choice(("part.safetensors", "../outside.safetensors", "/etc/passwd", "a/b.safetensors", 7))
    outside = folder.with_name("outside.safetensors")
    outside.unlink(missing_ok=True)
    if file == "part.safetensors":
        path.rename(folder / file)
    else:
        path.rename(outside)
    index: Any = {"metadata": {}, "weight_map": dict.fromkeys(names, file)}
    if random.random() < 0.2:
        index = random.choice((None, [], {}, {"weight_map": None}, {"weight_map": {"a": None}}))
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    return True


def nest(folder: Path, random: Random) -> bool:
    """Nest a JSON file deeper than any reader goes."""
    path = random.choice(sorted(folder.glob("*.json")))
    depth = random.choice((2_000, 100_000))
    path.write_text('{"a":' * depth + "1" + "}" * depth, encoding="utf-8")
    return path.name != "tokenizer_config.json"


def name_adapters(folder: Path, random: Random) -> bool:
    """Add adapters whose base model is elsewhere."""
    base = random.choice(("../encoder", str(folder.with_name("other")), "", None))
    (folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": base}))
    return True


def fewer_layers(folder: Path, random: Random) -> bool:
    """Let the configuration have other layers than the weights."""
    path = folder / "config.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content.get("text_config", content)["num_hidden_layers"] = random.choice((0, 1, 3, -1, 10**6))
    path.write_text(json.dumps(content), encoding="utf-8")
    return True


DAMAGES: tuple[Damage, ...] = (
    *(flip_bits, truncate, replace_file, set_entry, set_entry, set_tokenizer_entry, other_vocabulary),
    *(change_weights, change_weights, shard, nest, name_adapters, fewer_layers),
)


DAMAGES_OF_LOADING = (change_weights, shard, name_adapters, fewer_layers)
"""Damages that only the code that loads a model can know."""
