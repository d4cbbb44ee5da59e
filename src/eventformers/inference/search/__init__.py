"""Vector search, and ranks of correct answers."""

import importlib
import os
from types import ModuleType


def import_bm25s(module: str = "") -> ModuleType:
    """Import bm25s, or one of its modules by its name there.

    Importing it starts JAX where that is installed, and JAX takes three quarters of a GPU's free memory from
    all other work unless the environment says otherwise.
    """
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    return importlib.import_module(f"bm25s.{module}" if module else "bm25s")
