"""Checks of a model's files before and after a library reads them.

Transformers loads damaged folders without an error where it can: integers become weights, an index of weights
may name a file outside its folder, a missing vocabulary makes every word unknown. Everything that this suite
loads passes these checks first. In all of them `source` is a folder or a Hub id.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import nn
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME, cached_file

from eventformers.datasets_scripts.reading.lines import read_json_object
from eventformers.errors import EventformersError, first_line, shown
from eventformers.models.loaded_files import check_finite_weights

CONFIG_FILE = "config.json"
ADAPTER_FILE = "adapter_config.json"

_ACCEPTED_DTYPES = ("F64", "F32", "F16", "BF16")
_CONFIG_DTYPES = ("float64", "float32", "float16", "bfloat16")
_READ_BY_LIBRARIES = (".json", ".txt", ".model", ".safetensors", ".jinja")
_POSITIVE = ("hidden_size", "num_hidden_layers", "num_attention_heads")
_SIZE = re.compile(r"(?:^|_)(?:size|dim|layers|heads|embeddings|rank|positions|prototypes)$")
_LAYER = re.compile(r"\.\d+\.")
_SIZE_LIMIT = 100
"""Maximum ratio of a size in a configuration to the largest dimension of the weights: far above that of any
model, and far below what would exhaust memory."""
_OLDER_NAMES = ("gamma", "beta")
"""Names in checkpoints of older releases for the weight and the bias of a normalisation."""


@dataclass(frozen=True)
class WeightFiles:
    """The tensors of a model's weights, from the headers of its files.

    Attributes:
        file: the file of weights, or their index, as named in errors.
        dtypes: dtype of each tensor, as safetensors names it.
    """

    file: str
    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, str]


def check_folder(source: str) -> None:
    """Reject a folder with an entry that a library would read but that is not a readable file.

    A folder or a FIFO under the name of a file would end in a traceback or block forever.

    Args:
        source: folder or Hub id; Hub ids are not checked.
    """
    folder = Path(source)
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if not path.name.endswith(_READ_BY_LIBRARIES):
            continue
        if not path.is_file():
            kind = "a folder" if path.is_dir() else "a link to nothing" if path.is_symlink() else "a device"
            raise EventformersError(f"{path}: found {kind}; accepted: a regular file")
        if not os.access(path, os.R_OK):
            raise EventformersError(f"{path}: cannot be read; accepted: a file with permission to read it")
    if (folder / ADAPTER_FILE).is_file():
        raise EventformersError(
            f"{folder / ADAPTER_FILE}: found adapters, which name the folder of their base model; "
            "accepted: a whole model, such as the folder above the adapters, which has them merged"
        )


def read_object(source: str, file: str, revision: str | None = None) -> dict[str, Any]:
    """Read a JSON object beside a model; empty if the file does not exist.

    Args:
        revision: commit of a Hub id; None uses the latest.

    Raises:
        EventformersError: the file is not a JSON object.
    """
    path = find_file(source, file, revision)
    if path is None:
        return {}
    return read_json_object(path, whole_characters=False)


def check_config(source: str, revision: str | None = None) -> None:
    """Reject a configuration with an entry of a wrong type, which a library would ignore or fail on.

    Args:
        revision: commit of a Hub id; None uses the latest.
    """
    content = read_object(source, CONFIG_FILE, revision)
    for place, settings in (("", content), ("text_config.", content.get("text_config"))):
        if settings is None:
            continue
        if not isinstance(settings, dict):
            raise _refused(source, "text_config", settings, "an object")
        for name, kind, accepted in (
            ("model_type", str, "a string"),
            ("auto_map", dict, "an object"),
            ("custom_pipelines", dict, "an object"),
        ):
            if name in settings and not isinstance(settings[name], kind):
                raise _refused(source, f"{place}{name}", settings[name], accepted)
        for name in ("dtype", "torch_dtype"):
            value = settings.get(name)
            if value is not None and str(value).removeprefix("torch.") not in _CONFIG_DTYPES:
                raise _refused(source, f"{place}{name}", value, f"one of {', '.join(_CONFIG_DTYPES)}")
        for name in _POSITIVE:
            value = settings.get(name)
            if isinstance(value, int) and value < 1:
                raise _refused(source, f"{place}{name}", value, "a positive integer")


def read_weight_files(source: str, revision: str | None = None) -> WeightFiles | None:
    """Read the list of tensors in a model's weight files, from their headers only.

    Args:
        revision: commit of a Hub id; None uses the latest.

    Returns:
        The tensors; None for a Hub id without safetensors.

    Raises:
        EventformersError: a file is missing, truncated, not in safetensors or outside the folder, or a size
            in the configuration is far too large for the tensors.
    """
    paths = list(_weight_paths(source, revision))
    if not paths:
        if Path(source).is_dir():
            raise EventformersError(f"{source}: has no weights; accepted: a folder with {SAFE_WEIGHTS_NAME}")
        return None
    shapes: dict[str, tuple[int, ...]] = {}
    dtypes: dict[str, str] = {}
    for path in paths:
        try:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118, it is no mapping
                    tensor = file.get_slice(name)
                    shapes[name], dtypes[name] = tuple(tensor.get_shape()), tensor.get_dtype()
        except (SafetensorError, OSError, ValueError) as error:
            raise EventformersError(
                f"cannot load {source}: {path.name} is truncated or damaged ({first_line(error)}); accepted: "
                "the file as it was saved; copy or download it again"
            ) from error
    if not shapes:
        raise EventformersError(f"{paths[0]}: has no weights; accepted: the file as it was saved")
    files = WeightFiles(str(paths[0]), shapes, dtypes)
    _check_sizes(source, read_object(source, CONFIG_FILE, revision), files)
    return files


def check_weights(
    model: nn.Module, files: WeightFiles | None, source: str, *, unused: Collection[str] | None = None
) -> None:
    """Reject weights that are not numeric or not finite, or that the configuration has no place for.

    Args:
        files: the tensors of its files; None checks only the loaded weights.
        unused: the names of weights of the files that were not loaded, as transformers reports them; None
            finds them by their names, for a model that uses only the encoder of the files.
    """
    state = model.state_dict()
    if files is not None:
        kinds = {name.rpartition(".")[2] for name, _ in model.named_parameters()} | {*_OLDER_NAMES}
        for name, dtype in files.dtypes.items():
            if dtype not in _ACCEPTED_DTYPES and name.rpartition(".")[2] in kinds:
                raise EventformersError(
                    f"{files.file}: {name} has the dtype {dtype}; accepted: weights of one of "
                    f"{', '.join(_ACCEPTED_DTYPES)}"
                )
        if surplus := _weights_without_place(model, files, state, unused):
            raise EventformersError(
                f"{files.file}: has {surplus[0]} and {len(surplus) - 1} more weights for which the "
                f"{CONFIG_FILE} has no place; accepted: both as they were saved together"
            )
    try:
        check_finite_weights(model)
    except ValueError as error:
        raise EventformersError(f"cannot load {source}: {error}") from error


def _weights_without_place(
    model: nn.Module, files: WeightFiles, state: Mapping[str, Any], unused: Collection[str] | None
) -> list[str]:
    """The weights that belong to the loaded part of a model but were not loaded.

    This excludes heads that the class leaves out: for a model of this suite the weights outside its base
    model, for any other model all weights outside numbered layers.
    """
    # A class from a repository's code is not a subclass of the installed one.
    prefix = f"{getattr(model, 'base_model_prefix', '')}."
    is_ours = hasattr(model, "text_encoders") and any(name.startswith(prefix) for name in files.shapes)
    if is_ours and unused is not None:
        return sorted(name for name in unused if name.startswith(prefix) or f"{prefix}{name}" in files.shapes)
    endings = {ending for name in state for ending in _endings(name)}
    patterns = {_LAYER.sub(".#.", ending) for ending in endings if _LAYER.search(ending)}
    return [
        name
        for name in (files.shapes if unused is None else sorted(unused))
        if endings.isdisjoint(_endings(name))
        and not patterns.isdisjoint(_LAYER.sub(".#.", ending) for ending in _endings(name))
    ]


def _endings(name: str) -> Iterator[str]:
    """Suffixes of a name, up to the part before a number: heads and towers add prefixes."""
    parts = name.split(".")
    last = next((place for place, part in enumerate(parts) if part.isdigit()), 1)
    return (".".join(parts[place:]) for place in range(max(last, 1)))


def _check_sizes(source: str, config: Mapping[str, Any], files: WeightFiles) -> None:
    """Reject sizes of a model that would exhaust memory or take far too long to build."""
    limit = _SIZE_LIMIT * max((*(size for shape in files.shapes.values() for size in shape), 1))
    for place, settings in (("", config), ("text_config.", config.get("text_config"))):
        if not isinstance(settings, dict):
            continue
        # A rotary model computes its positions, so their limit is not a size of weights.
        is_rotary = any("rope" in name for name in settings)
        for name, value in settings.items():
            if not isinstance(value, int) or isinstance(value, bool) or not _SIZE.search(name):
                continue
            if is_rotary and "position" in name:
                continue
            # `max_window_layers` of Qwen bounds no number of layers from below.
            most = len(files.shapes) if name.endswith("layers") and not name.startswith("max_") else limit
            if value > most:
                raise _refused(source, f"{place}{name}", value, f"at most {most:,} with {files.file}")


def _weight_paths(source: str, revision: str | None) -> Iterator[Path]:
    """The weight files that transformers reads: a single one, or those in an index."""
    single = find_file(source, SAFE_WEIGHTS_NAME, revision)
    if single is not None:
        yield single
        return
    index = read_object(source, SAFE_WEIGHTS_INDEX_NAME, revision)
    if not index:
        return
    where = f"{source}/{SAFE_WEIGHTS_INDEX_NAME}"
    names = index.get("weight_map")
    if not isinstance(index.get("metadata"), dict):
        raise EventformersError(f"{where}: found no metadata; accepted: the index as it was saved")
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise EventformersError(
            f"{where}: found the weight_map {shown(names)}; accepted: names of files by weight"
        )
    for name in sorted(set(names.values())):
        if Path(name).name != name or "\\" in name or not name.endswith(".safetensors"):
            raise EventformersError(
                f"{where}: found the file {shown(name)}; accepted: a file of safetensors in the same folder"
            )
        path = find_file(source, name, revision)
        if path is None:
            raise EventformersError(
                f"{where}: names {shown(name)}, which does not exist; accepted: all files"
            )
        yield path


def find_file(source: str, file: str, revision: str | None) -> Path | None:
    """The path of a file beside a model; None if it does not exist."""
    if Path(source).is_dir():
        path = Path(source) / file
        return path if path.is_file() else None
    found = cached_file(
        source,
        file,
        revision=revision,
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return None if found is None else Path(found)


def _refused(source: str, name: str, value: object, accepted: str) -> EventformersError:
    return EventformersError(f"{source}/{CONFIG_FILE}: found {name} {shown(value)}; accepted: {accepted}")
