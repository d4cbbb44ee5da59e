"""Parsed source files, which several tests search."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a Python file, which nobody changes."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    # A million nodes that stay: each training run has the garbage collector look at all that is not frozen.
    gc.freeze()
    return tree
