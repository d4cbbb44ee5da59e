"""Files beside a saved model that let sentence-transformers load it, with the same vectors as `encode`.

A model of one text encoder loads as a whole, with pooling and projection. A model with two towers is written
as two encoders, each in its own folder, because sentence-transformers asks a model for one vector per text;
the folder of the model routes queries to the mention tower and documents to the event tower.
"""

import json
import os
import shutil
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers.utils import cached_file

from .configuration_base import EventConfig
from .pooling import POOLINGS
from .text_prompts import TEXT_KINDS, clear_call_settings, longest_input, prompt_of, prompt_tokens

_MODULES_FILE = "modules.json"
_SETTINGS_FILE = "config_sentence_transformers.json"
_TRANSFORMER_FILE = "sentence_bert_config.json"
_ROUTER_FILE = "router_config.json"
_POOLING_FOLDER = "1_Pooling"

_TRANSFORMER = "sentence_transformers.base.modules.transformer.Transformer"
_ROUTER = "sentence_transformers.base.modules.router.Router"
_POOLING = "sentence_transformers.sentence_transformer.modules.pooling.Pooling"
_DENSE = "sentence_transformers.base.modules.dense.Dense"
_NORMALIZE = "sentence_transformers.base.modules.normalize.Normalize"

_FEATURES = {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}
_ROUTES = {"query": "mention", "document": "event"}
"""The tower for each task of sentence-transformers, for a model with two towers."""

TOWER_FOLDERS = tuple(_ROUTES.values())
SENTENCE_TRANSFORMERS_FILES = (
    *(_MODULES_FILE, _SETTINGS_FILE, _TRANSFORMER_FILE, _ROUTER_FILE, _POOLING_FOLDER),
    *TOWER_FOLDERS,
)
"""Files and folders that this module writes."""


def write_sentence_transformers_files(model: Any, folder: str | Path, tokenizer: Any = None) -> None:
    """Write the files for sentence-transformers; for a model that it cannot use, files that reject its texts.

    Without any files it would pool the model's token vectors, which differ from the vectors of `encode`. If
    it saves the model itself, its own files stay, which have the user's prompts.

    Args:
        model: the model without its head.
        tokenizer: its tokenizer. Without one, the limit is that of the saved tokenizer and the encoder, and
            a model with two towers loads as one module, since each tower needs its own tokenizer.
    """
    from .modeling_base import EventEncoderModel

    folder, config = Path(folder), model.config
    path, modules = folder / _SETTINGS_FILE, folder / _MODULES_FILE
    if tokenizer is None and path.is_file() and "__version__" in json.loads(path.read_text("utf-8")):
        # While `SentenceTransformer.save` runs: it writes settings with a version first, modules last.
        is_running = not modules.is_file() or modules.stat().st_mtime_ns < path.stat().st_mtime_ns
        if is_running:
            return
    limit = None if tokenizer is None else longest_input(tokenizer, config.encoder_config)
    settings: dict[str, Any] = {"prompts": {}, "default_prompt_name": None}
    if config.prompts:
        # Without a prompt of their own, sentence-transformers gives queries and documents none.
        settings["prompts"] = {kind: prompt_of(config.prompts, kind) for kind in TEXT_KINDS}
        settings["default_prompt_name"] = "event"
    if config.truncate_dim is not None:
        settings["truncate_dim"] = config.truncate_dim
    if hasattr(model, "tower"):
        if tokenizer is not None:
            _write_towers(model, tokenizer, settings, folder)
            return
        _write_modules(folder, {"": _TRANSFORMER}, settings, similarity="dot", arguments=("task",))
        limits = {} if settings["prompts"] else {"document_length": config.event_tokens}
        _write_transformer(folder, "embeddings", "sentence_embedding", None, "embed_for_task", **limits)
        return
    # The vector of a text is the pooled vectors of its tokens, which are then available, too.
    only_pools = type(model).forward is EventEncoderModel.forward and model.projection is None
    if only_pools and config.truncate_dim is None and config.reads_text_alone:
        _write_modules(folder, {"": _TRANSFORMER, _POOLING_FOLDER: _POOLING}, settings, similarity="cosine")
        _write_pooling(config, folder)
        _write_transformer(folder, "last_hidden_state", "token_embeddings", limit)
        return
    method = "forward" if config.reads_text_alone else "embed_text_alone"
    _write_modules(folder, {"": _TRANSFORMER}, settings, similarity="cosine")
    _write_transformer(folder, "embeddings", "sentence_embedding", limit, method)


def _write_pooling(config: EventConfig, folder: Path) -> None:
    settings = {"embedding_dimension": config.encoder_config.hidden_size, "pooling_mode": config.pooling}
    _write_json(folder / _POOLING_FOLDER / "config.json", {**settings, "include_prompt": True})


def _write_towers(model: Any, tokenizer: Any, settings: Mapping[str, Any], folder: Path) -> None:
    """Write each tower as a pretrained encoder with its pooling, and the routes to them."""
    from .modeling_base import encoder_arguments

    config = model.config
    # `encode` reads a mention up to the encoder's limit, but an event only up to its own limit.
    of_prompt = len(prompt_tokens(tokenizer, prompt_of(config.prompts, "document")))
    limit = longest_input(tokenizer, config.encoder_config)
    limits = {"mention": limit, "event": min(limit, config.event_tokens + of_prompt)}
    types: dict[str, str] = {}
    structure: dict[str, list[str]] = {}
    for task, side in _ROUTES.items():
        tower, home = model.tower(side), folder / side
        tower.encoder.save_pretrained(home)
        clear_call_settings(tokenizer)
        tokenizer.save_pretrained(home)
        _write_pooling(config, home)
        modules = {"": _TRANSFORMER, _POOLING_FOLDER: _POOLING}
        if tower.projection is not None or config.truncate_dim is not None:
            modules["2_Dense"] = _DENSE
            _write_dense(tower, home / "2_Dense")
        if config.normalise or config.truncate_dim is not None:
            path = f"{len(modules)}_Normalize"
            modules[path] = _NORMALIZE
            _write_json(home / path / "config.json", _FEATURES)
        # Each side is used alone, so its prompt is the default.
        default = task if settings["prompts"] else None
        _write_modules(home, modules, {**settings, "default_prompt_name": default}, similarity="dot")
        _write_transformer(
            home,
            "last_hidden_state",
            "token_embeddings",
            limits[side],
            model_kwargs=encoder_arguments(tower.encoder.config),
        )
        paths = {"/".join(filter(None, (side, path))): kind for path, kind in modules.items()}
        types.update(paths)
        structure[task] = list(paths)
    if model.event_tower is None:
        # Equal files share disk space, if the file system supports it.
        source, target = (folder / side / "model.safetensors" for side in TOWER_FOLDERS)
        target.unlink()
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)
    _write_modules(folder, {"": _ROUTER}, settings, similarity="dot")
    parameters = {"default_route": "query", "allow_empty_key": True, "route_mappings": {}}
    _write_json(folder / _ROUTER_FILE, {"types": types, "structure": structure, "parameters": parameters})


def _write_dense(tower: Any, folder: Path) -> None:
    """Write the projection of a tower with its first `truncate_dim` rows; the identity's without one."""
    size, kept = tower.config.encoder_config.hidden_size, tower.config.embedding_dim
    weight, bias = torch.eye(size, dtype=tower.dtype), torch.zeros(size, dtype=tower.dtype)
    if tower.projection is not None:
        weight, bias = tower.projection.weight.detach(), tower.projection.bias.detach()
    state = {"linear.weight": weight[:kept].contiguous(), "linear.bias": bias[:kept].contiguous()}
    folder.mkdir(exist_ok=True)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    _write_json(
        folder / "config.json",
        {
            "in_features": size,
            "out_features": kept,
            "bias": True,
            "activation_function": "torch.nn.modules.linear.Identity",
            **_FEATURES,
        },
    )


def _write_modules(
    folder: Path,
    modules: Mapping[str, str],
    settings: Mapping[str, object],
    similarity: str,
    arguments: Sequence[str] = (),
) -> None:
    """Write the modules, with the arguments of `encode` that each of them takes."""
    listed = [
        {"idx": place, "name": str(place), "path": path, "type": kind, "kwargs": [*arguments]}
        for place, (path, kind) in enumerate(modules.items())
    ]
    _write_json(folder / _MODULES_FILE, listed)
    _write_json(
        folder / _SETTINGS_FILE,
        {"model_type": "SentenceTransformer", **settings, "similarity_fn_name": similarity},
    )


def _write_transformer(
    folder: Path,
    field: str,
    feature: str,
    limit: int | None,
    method: str = "forward",
    **further: object,
) -> None:
    """Write the mapping from fields of a method's output to features, and the token limit if known."""
    settings: dict[str, object] = {
        "transformer_task": "feature-extraction",
        "modality_config": {"text": {"method": method, "method_output_name": field}},
        "module_output_name": feature,
        **further,
    }
    if limit is not None:
        settings["processor_kwargs"] = {"model_max_length": limit}
    _write_json(folder / _TRANSFORMER_FILE, settings)


def _write_json(path: Path, content: Mapping[str, object] | Sequence[object]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


_USED_MODULES = {"Transformer", "Pooling", "Normalize"}
"""Modules of sentence-transformers that `from_encoder` reads, or that change no direction of a vector."""


def read_encoder_settings(name_or_path: str | Path) -> dict[str, Any]:
    """Read the settings that the files beside an encoder have; warns of what this suite does not have.

    Returns:
        `pooling`, a key of `POOLINGS`, and `prompts`, those for queries and documents, and for any text under
        `event`.
    """
    found: dict[str, Any] = {}
    modules = _read(name_or_path, "modules.json") or []
    kinds = {str(module["type"]).rpartition(".")[2]: str(module["path"]) for module in modules}
    if unused := sorted(kinds.keys() - _USED_MODULES):
        warnings.warn(
            f"{name_or_path} has the modules {' and '.join(unused)} after its pooling, which are not used; "
            "vectors are those of the pooling",
            stacklevel=3,
        )
    if pooling := _read(name_or_path, f"{kinds.get('Pooling') or '1_Pooling'}/config.json"):
        # Older files have one switch for each mode, newer ones the mode's name.
        older = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
        on = [name for name, value in pooling.items() if name.startswith("pooling_mode_") and value is True]
        named = pooling.get("pooling_mode")
        if named is None:
            named = [older.get(name, name.removeprefix("pooling_mode_")) for name in on]
        modes = [named] if isinstance(named, str) else list(map(str, named))
        if len(modes) == 1 and modes[0] in POOLINGS:
            found["pooling"] = modes[0]
        else:
            warnings.warn(
                f"the encoder's own pooling is {' and '.join(modes) or 'not stated'}, which this suite does "
                "not have; the default of the model is used",
                stacklevel=3,
            )
    settings = _read(name_or_path, "config_sentence_transformers.json") or {}
    prompts = settings.get("prompts") or {}
    own = {kind: prompts[kind] for kind in ("query", "document") if prompts.get(kind)}
    if default := prompts.get(settings.get("default_prompt_name")):
        # A text with an empty prompt of its own has no prompt; without one, it has the default.
        own = {kind: prompts.get(kind) or "" for kind in ("query", "document")} | {"event": default}
    return {**found, "prompts": own} if own else found


def _read(name_or_path: str | Path, file: str) -> Any:
    """Read a JSON file beside an encoder; None if it does not exist."""
    found = cached_file(
        str(name_or_path),
        file,
        _raise_exceptions_for_gated_repo=False,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return None if found is None else json.loads(Path(found).read_text(encoding="utf-8"))
