"""Parsed source files, which several tests search."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a Python file, which nobody changes."""
    return ast.parse(path.read_text(encoding="utf-8"))
