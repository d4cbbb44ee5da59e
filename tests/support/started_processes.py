"""Which tests start a process or train, read off their code and the fixtures that they ask for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from inspect import isclass, isfunction, unwrap
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

STARTING_MODULES = {"forked", "subprocess"}
TRAINING = {"EventTrainer", "Trainer", "reproduce_table", "train", "train_head"}
"""Functions and classes, of ours and of transformers, that train."""

_TESTS = str(Path(__file__).resolve().parents[1])


def starts_process(item: pytest.Item) -> bool:
    """Whether a test starts a process or trains, by itself, by a fixture, or by a function of the tests."""
    if not isinstance(item, pytest.Function):
        return False
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    functions = [item.function, *(definition.func for found in fixtures for definition in found)]
    return any(starts(getattr(function, "__func__", function), item.cls) for function in functions)


@cache
def starts(function: FunctionType, owner: type | None) -> bool:
    """Whether a function, which may be a method of a class, starts a process or trains."""
    return _search(function, owner, set())


def _search(function: FunctionType, owner: type | None, seen: set[FunctionType]) -> bool:
    if function in seen or not isfunction(function):
        return False
    seen.add(function)
    for name in _names(function.__code__):
        value = function.__globals__.get(name, getattr(owner, name, None))
        if _is_start(value, name):
            return True
        if isclass(value):
            value = value.__init__  # type: ignore[misc]
        value = getattr(value, "__func__", value)  # A class method is bound.
        if isfunction(value):
            value = unwrap(value)
            if value.__code__.co_filename.startswith(_TESTS) and _search(value, owner, seen):
                return True
    return False


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _names(value)


def _is_start(value: Any, name: str) -> bool:
    if isinstance(value, ModuleType):
        return value.__name__ in STARTING_MODULES
    return (
        name == "fork"
        or (
            getattr(value, "__name__", None) in TRAINING
            and _package(value) in ("eventformers", "transformers")
        )
        or getattr(value, "__module__", None) == "forked"
    )


def _package(value: Any) -> str:
    return str(value.__module__).partition(".")[0]
