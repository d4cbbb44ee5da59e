"""Files beside a saved model that let sentence-transformers load it, with the same vectors as `encode`.

A model of one text encoder loads as a whole, with pooling and projection. A model with two towers is written
as two encoders, each in its own folder, because sentence-transformers asks a model for one vector per text;
the folder of the model routes queries to the mention tower and documents to the event tower.
"""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from .configuration_base import EventConfig
from .event_tokens import longest_input
from .text_prompts import TEXT_KINDS, clear_call_settings, prompt_of, prompt_tokens

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
        folder: the folder of the saved model.
        tokenizer: its tokenizer. Without one, the limit is that of the saved tokenizer and the encoder, and
            a model with two towers loads as one module, since each tower needs its own tokenizer.
    """
    folder = Path(folder)
    if tokenizer is None and _is_saved_by_sentence_transformers(folder):
        return
    limit = None if tokenizer is None else longest_input(tokenizer, model.config.encoder_config)
    settings = _own_settings(model.config)
    has_towers = hasattr(model, "tower")
    if has_towers and tokenizer is not None:
        _write_towers(model, tokenizer, settings, folder)
        return
    if has_towers:
        _write_modules(folder, {"": _TRANSFORMER}, settings, similarity="dot", arguments=("task",))
        limits = {} if settings["prompts"] else {"document_length": model.config.event_tokens}
        _write_transformer(folder, "embeddings", "sentence_embedding", None, "embed_for_task", **limits)
        return
    if _only_pools(model):
        _write_modules(folder, {"": _TRANSFORMER, _POOLING_FOLDER: _POOLING}, settings, similarity="cosine")
        _write_pooling(model.config, folder)
        _write_transformer(folder, "last_hidden_state", "token_embeddings", limit)
        return
    method = "forward" if model.config.reads_text_alone else "embed_text_alone"
    _write_modules(folder, {"": _TRANSFORMER}, settings, similarity="cosine")
    _write_transformer(folder, "embeddings", "sentence_embedding", limit, method)


def _is_saved_by_sentence_transformers(folder: Path) -> bool:
    """True while `SentenceTransformer.save` runs: it writes settings with a version first, modules last."""
    path, modules = folder / _SETTINGS_FILE, folder / _MODULES_FILE
    if not path.is_file() or "__version__" not in json.loads(path.read_text(encoding="utf-8")):
        return False
    return not modules.is_file() or modules.stat().st_mtime_ns < path.stat().st_mtime_ns


def _only_pools(model: Any) -> bool:
    """True if the vector of a text is the pooled vectors of its tokens, which are then available, too."""
    from .modeling_base import EventEncoderModel

    return (
        type(model).forward is EventEncoderModel.forward
        and model.projection is None
        and model.config.truncate_dim is None
        and model.config.reads_text_alone
    )


def _write_pooling(config: EventConfig, folder: Path) -> None:
    settings = {"embedding_dimension": config.encoder_config.hidden_size, "pooling_mode": config.pooling}
    _write_json(folder / _POOLING_FOLDER / "config.json", {**settings, "include_prompt": True})


def _own_settings(config: EventConfig) -> dict[str, object]:
    """Return the prompts and the size of the vectors, as sentence-transformers has them."""
    settings: dict[str, object] = {"prompts": {}, "default_prompt_name": None}
    if config.prompts:
        # Without a prompt of their own, sentence-transformers gives queries and documents none.
        settings["prompts"] = {kind: prompt_of(config.prompts, kind) for kind in TEXT_KINDS}
        settings["default_prompt_name"] = "event"
    return settings if config.truncate_dim is None else {**settings, "truncate_dim": config.truncate_dim}


def _write_towers(
    model: Any,
    tokenizer: Any,
    settings: Mapping[str, object],
    folder: Path,
) -> None:
    # `encode` reads a mention up to the encoder's limit, but an event only up to its own limit.
    of_prompt = len(prompt_tokens(tokenizer, prompt_of(model.config.prompts, "document")))
    limit = longest_input(tokenizer, model.config.encoder_config)
    limits = {"mention": limit, "event": min(limit, model.config.event_tokens + of_prompt)}
    modules = {
        side: _write_tower(model, side, tokenizer, limits[side], settings, folder / side)
        for side in _ROUTES.values()
    }
    if model.event_tower is None:
        _share(folder / "mention" / "model.safetensors", folder / "event" / "model.safetensors")
    _write_modules(folder, {"": _ROUTER}, settings, similarity="dot")
    paths = {
        side: {"/".join(filter(None, (side, path))): kind for path, kind in of_side.items()}
        for side, of_side in modules.items()
    }
    _write_json(
        folder / _ROUTER_FILE,
        {
            "types": {path: kind for of_side in paths.values() for path, kind in of_side.items()},
            "structure": {task: list(paths[side]) for task, side in _ROUTES.items()},
            "parameters": {"default_route": "query", "allow_empty_key": True, "route_mappings": {}},
        },
    )


def _write_tower(
    model: Any,
    side: str,
    tokenizer: Any,
    limit: int,
    settings: Mapping[str, object],
    folder: Path,
) -> dict[str, str]:
    """Write one tower as a pretrained encoder with its pooling; return the class of each module by its
    folder."""
    from .modeling_base import encoder_arguments

    tower = model.tower(side)
    tower.encoder.save_pretrained(folder)
    clear_call_settings(tokenizer)
    tokenizer.save_pretrained(folder)
    modules = {"": _TRANSFORMER, _POOLING_FOLDER: _POOLING}
    config = model.config
    _write_pooling(config, folder)
    if tower.projection is not None or config.truncate_dim is not None:
        modules["2_Dense"] = _DENSE
        _write_dense(_output_layer(tower), folder / "2_Dense")
    if config.normalise or config.truncate_dim is not None:
        path = f"{len(modules)}_Normalize"
        modules[path] = _NORMALIZE
        _write_json(folder / path / "config.json", _features())
    # Each side is used alone, so its prompt is the default.
    kind = next(task for task, routed in _ROUTES.items() if routed == side)
    default = kind if settings["prompts"] else None
    _write_modules(folder, modules, {**settings, "default_prompt_name": default}, similarity="dot")
    _write_transformer(
        folder,
        "last_hidden_state",
        "token_embeddings",
        limit,
        model_kwargs=encoder_arguments(tower.encoder.config),
    )
    return modules


def _output_layer(tower: Any) -> nn.Linear:
    """Return the projection of a tower with its first `truncate_dim` rows; the identity's without one."""
    size, kept = tower.config.encoder_config.hidden_size, tower.config.embedding_dim
    layer = nn.Linear(size, kept, dtype=tower.dtype)
    weight, bias = torch.eye(size), torch.zeros(size)
    if tower.projection is not None:
        weight, bias = tower.projection.weight, tower.projection.bias
    layer.load_state_dict({"weight": weight[:kept], "bias": bias[:kept]})
    return layer


def _write_dense(projection: nn.Linear, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    state = {
        f"linear.{name}": tensor.detach().contiguous() for name, tensor in projection.state_dict().items()
    }
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    _write_json(
        folder / "config.json",
        {
            "in_features": projection.in_features,
            "out_features": projection.out_features,
            "bias": True,
            "activation_function": "torch.nn.modules.linear.Identity",
            **_features(),
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


def _features() -> dict[str, str]:
    return {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}


def _share(source: Path, target: Path) -> None:
    """Let two equal files share disk space, if the file system supports it."""
    target.unlink()
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _write_json(path: Path, content: Mapping[str, object] | Sequence[object]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
