"""Settings that sentence-transformers writes beside an encoder: pooling and prompts."""

import json
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from transformers.utils import cached_file

from .pooling import POOLINGS

_USED_MODULES = {"Transformer", "Pooling", "Normalize"}
"""Modules of sentence-transformers that `from_encoder` reads, or that change no direction of a vector."""


class EncoderSettings(NamedTuple):
    """Settings of an encoder in files of sentence-transformers; None for those that are absent.

    Args:
        pooling: a key of `POOLINGS`.
        prompts: the prompts for queries and documents, and for any text under `event`.
    """

    pooling: str | None = None
    prompts: dict[str, str] | None = None


def read_encoder_settings(name_or_path: str | Path) -> EncoderSettings:
    """Read the settings beside an encoder; warns of what this suite does not have.

    Args:
        name_or_path: Hub id or folder.

    Raises:
        ValueError: a file is not JSON of the expected form.
    """
    modules = _read(name_or_path, "modules.json") or []
    kinds = {str(module["type"]).rpartition(".")[2]: str(module["path"]) for module in modules}
    if unused := sorted(kinds.keys() - _USED_MODULES):
        warnings.warn(
            f"{name_or_path} has the modules {' and '.join(unused)} after its pooling, which are not used; "
            "vectors are those of the pooling",
            stacklevel=3,
        )
    folder = kinds.get("Pooling") or "1_Pooling"
    settings = _read(name_or_path, "config_sentence_transformers.json") or {}
    return EncoderSettings(
        _pooling_of(_read(name_or_path, f"{folder}/config.json") or {}),
        _prompts_of(settings),
    )


def _prompts_of(settings: dict[str, Any]) -> dict[str, str] | None:
    prompts = settings.get("prompts") or {}
    found = {kind: prompts[kind] for kind in ("query", "document") if prompts.get(kind)}
    if default := prompts.get(settings.get("default_prompt_name")):
        # A text with an empty prompt of its own has no prompt; without one, it has the default.
        found = {kind: prompts.get(kind) or "" for kind in ("query", "document")} | {"event": default}
    return found or None


def _pooling_of(settings: dict[str, Any]) -> str | None:
    if not settings:
        return None
    # Older files have one switch for each mode, newer ones the mode's name.
    older = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
    switched = [
        name for name, value in settings.items() if name.startswith("pooling_mode_") and value is True
    ]
    modes = [older.get(name, name.removeprefix("pooling_mode_")) for name in switched]
    named = settings.get("pooling_mode")
    if named is not None:
        modes = [named] if isinstance(named, str) else [str(mode) for mode in named]
    if len(modes) == 1 and modes[0] in POOLINGS:
        return modes[0]
    warnings.warn(
        f"the encoder's own pooling is {' and '.join(modes) or 'not stated'}, which this suite does not "
        "have; the default of the model is used",
        stacklevel=4,
    )
    return None


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
