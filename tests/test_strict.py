"""Strict settings, recipes and training arguments: their types, their ranges, and what no range holds."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from eventformers.errors import EventformersError
from eventformers.methods import load_method, main_methods
from eventformers.strict import LARGEST, Count, Range, check_types, several
from eventformers.trainers.arguments import TRAINING_TYPES, EventTrainingArguments
from eventformers.trainers.recipes import load_recipe
from eventformers.trainers.run import accepted_keys, resolve_recipe

_NO_RANGE = {
    # A place in a group of processes, which the launcher sets.
    "local_rank",
}
_NUMBERS = [
    name
    for name, annotation in TRAINING_TYPES.items()
    if any(kind in str(annotation) for kind in ("int", "float")) and name not in _NO_RANGE
]


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (1, Count),
        (None, Count | None),
        (0.5, float),
        (2, float),
        (-1, Count | Literal[-1]),
        ({"a": 0.1}, dict[str, Annotated[float, Range(least=0)]]),
        (["a"], list[str] | None),
        (LARGEST, int),
        ({"anything": [1]}, object),
    ],
)
def test_accepted(value: object, annotation: Any) -> None:
    check_types({"x": value}, {"x": annotation})


@pytest.mark.parametrize(
    ("value", "annotation", "accepted"),
    [
        (0, Count, "a whole number of 1 or more"),
        (True, Count, "a whole number of 1 or more"),
        (1.0, Count, "a whole number of 1 or more"),
        (-2, Count | Literal[-1], "a whole number of 1 or more, or -1"),
        (1, Annotated[float, Range(least=0, below=1)], "a number from 0 to below 1"),
        (1.1, Annotated[float, Range(least=0, most=1)], "a number from 0 to 1"),
        (0, Annotated[float, Range(above=0)], "a number above 0"),
        ({"a": -1}, dict[str, Annotated[float, Range(least=0)]], "a mapping, each value a number of 0 or"),
        ([1], list[str], "a list, each text"),
        (float("nan"), float, f"a number, finite and at most {LARGEST}"),
        (LARGEST + 1, int, f"a whole number, finite and at most {LARGEST}"),
        ({"a": [float("inf")]}, object, f"a value, finite and at most {LARGEST}"),
    ],
)
def test_refused(value: object, annotation: Any, accepted: str) -> None:
    with pytest.raises(EventformersError) as refused:
        check_types({"x": value}, {"x": annotation})
    assert f"setting x: found {value!r}; accepted: {accepted}" in str(refused.value)


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf", "100000000000000000000"])
@pytest.mark.parametrize("method", main_methods())
def test_no_setting_of_a_recipe_takes_a_number_that_none_is(method: str, value: str, tmp_path: Path) -> None:
    loaded = load_method(method)
    # Reading the recipes that others extend takes longer than checking a setting.
    recipe = tmp_path / "short.yaml"
    recipe.write_text("description: nothing else\n", encoding="utf-8")
    for section, names in accepted_keys(loaded).items():
        # The plan of a run sets the stage itself.
        for name in names.keys() - {"stage"}:
            with pytest.raises(EventformersError, match=f"setting {name}: found"):
                resolve_recipe(loaded, str(recipe), [f"{section}.{name}={value}"])


@pytest.mark.parametrize("name", _NUMBERS)
def test_every_numeric_training_setting_has_a_range(name: str, tmp_path: Path) -> None:
    for value in (float("nan"), float("inf"), 10**20, -7, True):
        if value is True and "bool" in str(TRAINING_TYPES[name]):
            continue
        with pytest.raises(EventformersError, match=f"setting {name}: found"):
            EventTrainingArguments(output_dir=str(tmp_path), **{name: value})


def test_ranges_are_of_fields_that_there_are() -> None:
    assert set(TRAINING_TYPES) == {entry.name for entry in fields(EventTrainingArguments)}


@pytest.mark.parametrize("seed", ["-1", "1.5", "true", "100000000000000000000", ".nan"])
def test_a_seed_that_is_none_is_refused(seed: str) -> None:
    with pytest.raises(EventformersError, match="setting seed: found"):
        resolve_recipe(load_method("swcc"), "demo", [f"seed={seed}"])


def test_a_seed_is_drawn_where_none_is_given(tmp_path: Path) -> None:
    path = tmp_path / "unseeded.yaml"
    path.write_text("description: without a seed\n", encoding="utf-8")
    swcc = load_method("swcc")
    assert load_recipe("swcc", str(path)).seed is None
    drawn = {resolve_recipe(swcc, str(path)).seed for _ in range(3)}
    assert len(drawn) == 3
    assert None not in drawn
    assert resolve_recipe(swcc, str(path), seed=3).seed == 3
    assert resolve_recipe(swcc, str(path), ["seed=4"]).seed == 4


def test_a_text_alone_is_one_name() -> None:
    assert several("reporting") == ("reporting",)
    assert several(["a", "b"]) == several(iter("ab")) == ("a", "b")
