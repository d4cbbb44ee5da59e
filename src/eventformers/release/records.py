"""Records of the finished steps of a release, so that a second run reuses them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eventformers.files import write_text

STATE_FOLDER = ".release"
"""Folder inside a release with the record of each step."""


def read_record(folder: Path, name: str, made_of: Mapping[str, Any]) -> dict[str, Any] | None:
    """Read the record of a step.

    Args:
        folder: the folder of the release.
        name: the step.
        made_of: everything that decides the step's output, as JSON values.

    Returns:
        The facts about the step; None if it has not begun, was made of something else, or is damaged.
    """
    try:
        content = json.loads(_path(folder, name).read_text(encoding="utf-8"))
        return dict(content["facts"]) if content["made_of"] == _plain(made_of) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_record(folder: Path, name: str, made_of: Mapping[str, Any], **facts: Any) -> None:
    """Write the record of a step atomically; arguments as in `read_record`."""
    write_text(_path(folder, name), json.dumps({"made_of": _plain(made_of), "facts": facts}, indent=2) + "\n")


def _path(folder: Path, name: str) -> Path:
    return folder / STATE_FOLDER / f"{name}.json"


def _plain(made_of: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(made_of, default=str))
