"""Test files whose cases other tests use."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TypeVar

TESTS = Path(__file__).parents[1]

Case = TypeVar("Case")


def load_test_file(path: Path) -> ModuleType:
    """Import a test file, once, by a name of its own: pytest's copy is another module."""
    name = f"cases_of_{path.parent.name}_{path.stem}"
    if name not in sys.modules:
        specification = importlib.util.spec_from_file_location(name, path)
        assert specification is not None
        assert specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        # A dataclass looks its module up while it is defined.
        sys.modules[name] = module
        specification.loader.exec_module(module)
    return sys.modules[name]


def subclasses_in(path: Path, base: type[Case]) -> list[type[Case]]:
    """The subclasses of a common case in a test file."""
    values = vars(load_test_file(path)).values()
    return [
        value for value in values if isinstance(value, type) and issubclass(value, base) and value is not base
    ]
