"""Errors: what is repeated of a received value, and the chain of causes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from sources import parsed

from eventformers.errors import SHOWN_CHARACTERS, UnknownNameError, causes, nearest_name, shown
from eventformers.files import full_disk

REPOSITORY = Path(__file__).resolve().parents[1]


def test_a_long_value_is_truncated() -> None:
    text = shown("x" * 100_000)
    assert len(text) < SHOWN_CHARACTERS + 40
    assert "100,002 characters" in text


def test_a_value_that_cannot_be_printed_is_named_by_its_type() -> None:
    assert shown(10**10_000) == "a int that cannot be printed"


def test_of_a_container_parts_are_printed() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert shown(deep) == "[[[[[...]]]]]"
    # As YAML's references build it: 2 to the power of 60 leaves.
    wide: list[object] = ["leaf"]
    for _ in range(60):
        wide = [wide, wide]
    assert len(shown(wide)) < SHOWN_CHARACTERS + 40
    assert shown({"a": 1, "b": ["c"]}) == "{'a': 1, 'b': ['c']}"


def test_half_of_a_surrogate_pair_can_be_written() -> None:
    shown("\ud800").encode("utf-8")


def test_causes_that_form_a_cycle_end() -> None:
    first, second = ValueError("first"), OSError("second")
    first.__cause__, second.__context__ = second, first
    assert list(causes(first)) == [first, second]
    assert full_disk(first) is None


def test_lookalike_letters_are_near() -> None:
    names = ["subject", "predicate", "object"]
    assert nearest_name("prеdicate", names) == "predicate"  # with a Cyrillic letter
    assert nearest_name("Ｏbject", names) == "object"  # with a full-width letter
    assert nearest_name("zzz", names) is None
    assert "Did you mean" not in str(UnknownNameError("row", "", names))
    label = "PPMI (Lee and Goldwasser, 2019)"
    assert f"Did you mean {label!r}?" in str(UnknownNameError("row", "ppmi", [*names, label]))


@pytest.mark.parametrize("folder", ["src", "trainers", "model_cards"])
def test_errors_truncate_the_values_that_they_repeat(folder: str) -> None:
    """A `!r` in an error repeats a value whole, however long it is; `shown` truncates it."""
    whole = [
        f"{path.relative_to(REPOSITORY)}, line {part.lineno}"
        for path in sorted((REPOSITORY / folder).rglob("*.py"))
        if "!r" in path.read_text(encoding="utf-8")
        for fault in ast.walk(parsed(path))
        # The attribute that a module lacks is a name in a program.
        if isinstance(fault, ast.Raise) and "AttributeError" not in ast.dump(fault)
        for part in ast.walk(fault)
        if isinstance(part, ast.FormattedValue) and part.conversion == ord("r")
    ]
    assert not whole
