"""The trained models that come with the package, each as a small change to the packaged encoder.

A model is a folder in `pretrained_models/`: its card, its configuration, the facts in `pretrained.json`, and
`change.safetensors`. There the change of a matrix of the encoder is a product of two matrices of low rank in
whole numbers of four bits, two to a byte, with a scale for each of its rows and columns. Sums of integers do
not depend on their order, so the weights that are built from them are the same bytes on every machine.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import constants
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModel, AutoTokenizer
from transformers.dynamic_module_utils import get_relative_import_files

from eventformers import models
from eventformers.datasets_scripts.reading.lines import read_json_object
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.files import file_digest, files_digest, staged_folder, write_text
from eventformers.locks import one_writer
from eventformers.methods import all_methods
from eventformers.models.sentence_transformers_files import write_sentence_transformers_files

MODELS = Path(__file__).with_name("pretrained_models")
FACTS_FILE = "pretrained.json"
CHANGE_FILE = "change.safetensors"
WEIGHTS_FILE = "model.safetensors"
ADAPTER_FOLDER = "adapter"
_BUILT_FILE = "built.json"
LEFT, RIGHT, LEFT_SCALE, RIGHT_SCALE, SCALE = ".left", ".right", ".left_scale", ".right_scale", ".scale"
ADDED = ".added"
"""Endings of the parts of a weight: factors of low rank, with a row for each of its rows and columns, and
their scales; the scale of a whole matrix; the rows of added tokens."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PretrainedScore:
    """A score of a packaged model.

    Attributes:
        task: the task.
        metric: its main metric.
        rows: number of rows, with their split.
        value: of the packaged model.
        trained: of the model that it was made from, with all of its weights.
        untrained: of the encoder before training.
    """

    task: str
    metric: str
    rows: str
    value: float
    trained: float | None
    untrained: float | None


@dataclass(frozen=True)
class PretrainedModel:
    """A trained model of the package.

    Attributes:
        name: its name, for `pretrained` and wherever a model is named.
        title: what it is for.
        method: its `model_type`; None for one that is no model of transformers.
        licenses: licences of its training data.
        scores: its scores; those of development rows that settings were chosen on are development scores.
        num_bytes: size of its weights in the package.
        card: its card.
    """

    name: str
    title: str
    method: str | None
    licenses: tuple[str, ...]
    scores: tuple[PretrainedScore, ...]
    num_bytes: int
    card: Path


def list_pretrained() -> list[PretrainedModel]:
    """List the trained models that come with the package, with their scores, sizes and licences."""
    read = {path.parent: read_json_object(path) for path in sorted(MODELS.glob(f"*/{FACTS_FILE}"))}
    return [
        PretrainedModel(
            folder.name,
            facts["title"],
            facts.get("method"),
            tuple(facts["licenses"]),
            tuple(PretrainedScore(**score) for score in facts["scores"]),
            (folder / facts.get("weights", CHANGE_FILE)).resolve().stat().st_size,
            (folder / facts.get("card", "README.md")).resolve(),
        )
        for folder, facts in read.items()
    ]


def is_pretrained(name: str) -> bool:
    """True if a name is that of a model of the package."""
    return any(path.parent.name == _model_of(name) for path in MODELS.glob(f"*/{FACTS_FILE}"))


def _model_of(name: str) -> str:
    """The method that `reproduce` calls by a name, such as `grounding`; any other name unchanged."""
    return next((one.name for one in all_methods().values() if one.paper == name), name)


def pretrained(name: str) -> str:
    """The folder of a trained model of the package, built from the packaged encoder at its first use.

    `AutoModel.from_pretrained`, `SentenceTransformer` and every command load the folder; its subfolder
    `adapter` is for `AutoPeftModel.from_pretrained`, which loads the encoder with adapters. It is in the
    cache of the Hub's client, `HF_HOME/eventformers/pretrained`.

    Args:
        name: a name of `list_pretrained`, or that of its paper in `reproduce`, such as `grounding`.

    Raises:
        UnknownNameError: there is no such model.
        EventformersError: the packaged encoder is absent, a file of the package is damaged, or the model is
            not one of transformers.
    """
    name = _model_of(name)
    source = MODELS / name
    known = [one.name for one in list_pretrained() if one.method]
    if name not in known:
        if is_pretrained(name):
            raise EventformersError(
                f"{name} is no model of transformers: {read_json_object(source / FACTS_FILE)['loaded_by']} "
                f"loads it; accepted: {', '.join(known)}"
            )
        raise UnknownNameError("pretrained model", name, known)
    cache = Path(constants.HF_HOME).expanduser() / "eventformers" / "pretrained"
    folder = cache / files_digest(source)[:16] / name
    if not _is_built(folder):
        with one_writer(folder, wait=True):
            # Another process may have built it meanwhile.
            if not _is_built(folder):
                with staged_folder(folder, replaced=("[!.]*",)) as staging:
                    build(source, staging)
    return str(folder)


def _is_built(folder: Path) -> bool:
    try:
        digests = read_json_object(folder / _BUILT_FILE)["sha256"]
        names = {"config.json", WEIGHTS_FILE}
        return names <= {*digests} and all(file_digest(folder / name) == digests[name] for name in digests)
    except (EventformersError, OSError, KeyError, TypeError):
        return False


def build(source: Path, output: Path, *, base_model: str | None = None) -> None:
    """Build a model's folder from the packaged encoder and the change of its weights.

    Args:
        source: the folder of the model in the package.
        base_model: name of the encoder in the settings of the adapters; None for the packaged one's folder.

    Raises:
        EventformersError: the packaged encoder is absent, or a file is damaged.
    """
    # It resolves names by this module.
    from eventformers.loading.encoders import resolve_encoder

    encoder = Path(resolve_encoder())
    facts = read_json_object(source / FACTS_FILE)
    found = file_digest(source / CHANGE_FILE)
    if found != facts["sha256"]:
        raise EventformersError(
            f"{source / CHANGE_FILE}: found SHA-256 {found}; accepted: {facts['sha256']}; reinstall "
            "eventformers"
        )
    try:
        change = load_file(source / CHANGE_FILE)
        weights = changed_weights(facts, load_file(encoder / WEIGHTS_FILE), change)
    except (SafetensorError, KeyError) as error:
        raise EventformersError(
            f"{source / CHANGE_FILE}: damaged ({error}); reinstall eventformers"
        ) from error
    shutil.copytree(
        source, output, dirs_exist_ok=True, ignore=shutil.ignore_patterns(FACTS_FILE, CHANGE_FILE)
    )
    save_file(weights, output / WEIGHTS_FILE, metadata={"format": "pt"})
    content = {**read_json_object(encoder / "tokenizer.json"), **facts["tokenizer"]}
    write_text(output / "tokenizer.json", json.dumps(content, ensure_ascii=False))
    _write_adapter(facts, weights, change, output / ADAPTER_FOLDER, base_model or str(encoder))
    # The code that the configuration names makes the folder a complete repository.
    home, config = Path(models.__file__).parent, read_json_object(output / "config.json")
    pipelines = [entry["impl"] for entry in config.get("custom_pipelines", {}).values()]
    for module in {f"{path.split('.')[0]}.py" for path in (*config["auto_map"].values(), *pipelines)}:
        for file in (home / module, *map(Path, get_relative_import_files(home / module))):
            shutil.copyfile(file, output / file.name)
    tokenizer = AutoTokenizer.from_pretrained(output)
    write_sentence_transformers_files(AutoModel.from_pretrained(output), output, tokenizer)
    files = sorted(path for path in output.rglob("*") if path.is_file())
    digests = {path.relative_to(output).as_posix(): file_digest(path) for path in files}
    write_text(output / _BUILT_FILE, json.dumps({"sha256": digests}))


def changed_weights(
    facts: Mapping[str, Any], encoder: Mapping[str, Tensor], change: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The weights of a model by name: those of the encoder with their changes, and those of its heads."""
    weights = {
        f"{prefix}{name}": value.clone()
        for prefix in facts["prefixes"]
        for name, value in encoder.items()
        if name not in facts["left_out"]
    }
    for name, value in change.items():
        if name.endswith(LEFT):
            weights[name.removesuffix(LEFT)] += low_rank_change(change, name.removesuffix(LEFT))
        elif f"{name}{SCALE}" in change:
            weights[name] = value.float() * change[f"{name}{SCALE}"]
        elif not name.endswith((RIGHT, LEFT_SCALE, RIGHT_SCALE, SCALE, ADDED)):
            weights[name] = weights.get(name, 0) + value.float()
    for name in (name.removesuffix(ADDED) for name in change if name.endswith(ADDED)):
        weights[name] = torch.cat([weights[name], change[f"{name}{ADDED}"].float()])
    return weights


def low_rank_change(change: Mapping[str, Tensor], name: str) -> Tensor:
    """The change of a matrix: the product of its factors, exact in float32, times its scales."""
    product = _unpacked(change[f"{name}{LEFT}"]) @ _unpacked(change[f"{name}{RIGHT}"]).T
    return product * change[f"{name}{LEFT_SCALE}"] * change[f"{name}{RIGHT_SCALE}"].T


def packed(whole: Tensor) -> Tensor:
    """Pack whole numbers from -7 to 7 of an even number of columns, two to a byte."""
    low, high = (whole + 8).to(torch.uint8).unflatten(1, (-1, 2)).unbind(2)
    return (low | high << 4).contiguous()


def _unpacked(pairs: Tensor) -> Tensor:
    return torch.stack((pairs & 15, pairs >> 4), 2).flatten(1).float() - 8


def _write_adapter(
    facts: Mapping[str, Any],
    weights: Mapping[str, Tensor],
    change: Mapping[str, Tensor],
    folder: Path,
    base_model: str,
) -> None:
    """Write the change of the encoder in the format of PEFT, for a model with one encoder that changed."""
    inside = {
        name: f"base_model.model.{name.removeprefix(prefix)}"
        for prefix in facts["prefixes"]
        for name in (name.removesuffix(ADDED) for name in change)
        if name.startswith(prefix)
    }
    modules = {
        name: path.removesuffix(f".weight{LEFT}") for name, path in inside.items() if path.endswith(LEFT)
    }
    if len(facts["prefixes"]) != 1 or not modules:
        return
    adapter: dict[str, Tensor] = {}
    for name, module in modules.items():
        whole = name.removesuffix(LEFT)
        left = _unpacked(change[name]) * change[f"{whole}{LEFT_SCALE}"]
        right = _unpacked(change[f"{whole}{RIGHT}"]) * change[f"{whole}{RIGHT_SCALE}"]
        adapter[f"{module}.lora_A.weight"] = right.T.contiguous()
        adapter[f"{module}.lora_B.weight"] = left
    # Biases, normalisations and embeddings with added rows are whole; PEFT moves the bias of a layer with an
    # adapter.
    for name, path in inside.items():
        module, _, kind = path.rpartition(".")
        if name in weights and kind in ("weight", "bias"):
            adapter[f"{module}.base_layer.{kind}" if module in modules.values() else path] = weights[name]
    folder.mkdir()
    save_file(adapter, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    settings = {
        "peft_type": "LORA",
        "r": facts["rank"],
        # PEFT scales the product by lora_alpha / r.
        "lora_alpha": facts["rank"],
        "target_modules": sorted(module.removeprefix("base_model.model.") for module in modules.values()),
        "base_model_name_or_path": base_model,
        "auto_mapping": {"base_model_class": "AutoModel", "parent_library": "transformers"},
        "inference_mode": True,
    }
    write_text(folder / "adapter_config.json", json.dumps(settings, indent=2) + "\n")
    # By the tokenizer, PEFT adds the rows of added tokens.
    for file in folder.parent.glob("tokenizer*.json"):
        shutil.copyfile(file, folder / file.name)
