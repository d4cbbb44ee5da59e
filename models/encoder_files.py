"""Settings that sentence-transformers writes beside an encoder: pooling and prompts."""

import json
import warnings
from pathlib import Path
from typing import Any

from transformers.utils import cached_file

from .pooling import POOLINGS

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
