"""Type and range checks of settings: strict dataclasses, sections of recipes, training arguments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from huggingface_hub.dataclasses import strict

from eventformers.errors import EventformersError, UnknownNameError, shown

Settings = TypeVar("Settings", bound="StrictSettings")

LARGEST = 2**32 - 1
"""The largest whole number that a setting accepts, which is the largest seed."""


@dataclass(frozen=True)
class Range:
    """Range of accepted numbers, as metadata of `Annotated`; None means no bound. `above` and `below` are
    exclusive."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None

    def __contains__(self, value: float) -> bool:
        return (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        upper = f"to {self.most}" if self.most is not None else f"to below {self.below}"
        if self.most is not None or self.below is not None:
            return f"from {self.least} {upper}" if self.above is None else f"above {self.above} {upper}"
        return f"of {self.least} or more" if self.above is None else f"above {self.above}"


Count = Annotated[int, Range(least=1)]
"""A whole number of 1 or more."""
Number = Annotated[int, Range(least=0)]
"""A whole number of 0 or more."""
TextLength = Annotated[int, Range(least=3)]
"""A number of tokens in a text, including the special tokens at both ends."""
Positive = Annotated[float, Range(above=0)]
"""A number above 0."""
NotNegative = Annotated[float, Range(least=0)]
"""A number of 0 or more."""
Share = Annotated[float, Range(least=0, most=1)]
"""A share of a whole."""
ShareBelowOne = Annotated[float, Range(least=0, below=1)]
"""A share below 1."""


class StrictSettings:
    """Base of frozen dataclasses with `strict_settings`.

    Each value is checked against the type of its field, as in `check_types`, and by the test of `setting`.
    The methods `validate_*` then check combinations of values. Whole numbers become floats in float fields.

    Raises:
        UnknownNameError: a text is not one of the names that its field accepts.
        EventformersError: a value is not accepted.
    """

    _types: dict[str, Any]

    def __post_init__(self) -> None:
        for entry in fields(self):  # type: ignore[arg-type]
            value, annotation = getattr(self, entry.name), self._types[entry.name]
            _check(entry.name, value, annotation, **entry.metadata)
            if type(value) is int and float in (parts := _alternatives(annotation)) and int not in parts:
                object.__setattr__(self, entry.name, float(value))


def strict_settings(cls: type[Settings]) -> type[Settings]:
    """Make a frozen dataclass of settings strict; put this above `@dataclass(frozen=True)`."""
    cls._types = get_type_hints(cls, include_extras=True)
    # `strict` runs the methods `validate_*`.
    return strict(cls)


def setting(default: Any, test: Callable[[Any], bool], accepted: str) -> Any:
    """Define a field whose values, other than None, must pass a test; `accepted` describes them for the
    error."""
    return field(default=default, metadata={"test": test, "accepted": accepted})


def count(default: int | None, least: int = 1) -> Any:
    """Define a field that accepts whole numbers of `least` or more."""
    return setting(default, lambda number: number >= least, f"{least} or more")


def check_types(values: Mapping[str, Any], types: Mapping[str, Any]) -> None:
    """Check the types and ranges of settings.

    Floats must be finite, and absolute values of whole numbers at most `LARGEST`, for every annotation.

    Args:
        types: the annotation of each setting: a plain type, a union, a literal, a list or a mapping, and
            `Annotated` with a `Range`. Other annotations accept any value.

    Raises:
        UnknownNameError: a text is not one of the names that its setting accepts.
        EventformersError: a value is not accepted.
    """
    for key, value in values.items():
        limits = "" if _is_usable(value) else f", finite and at most {LARGEST}"
        _check(f"setting {key}", value, types.get(key, object), limits=limits)


def _check(
    name: str,
    value: Any,
    annotation: Any,
    test: Callable[[Any], bool] | None = None,
    accepted: str | None = None,
    limits: str = "",
) -> None:
    if not limits and _is_of(value, annotation) and (value is None or test is None or test(value)):
        return
    kinds = _alternatives(annotation)
    literals = [one for kind in kinds if get_origin(kind) is Literal for one in get_args(kind)]
    names = [one for one in literals if isinstance(one, str)]
    if isinstance(value, str) and names:
        raise UnknownNameError(name, value, names)
    raise EventformersError(
        f"{name}: found {shown(value)}; accepted: {accepted or described(annotation)}{limits}"
    )


_NAMES: dict[object, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    dict: "a mapping",
    list: "a list",
    type(None): "null",
    object: "a value",
}


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _is_of(value: Any, annotation: Any) -> bool:
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return any(_is_of(value, part) for part in parts)
    if origin is Annotated:
        return _is_of(value, parts[0]) and all(value in part for part in parts[1:] if isinstance(part, Range))
    if origin is Literal:
        return any(type(value) is type(part) and value == part for part in parts)
    if origin is list:
        return isinstance(value, list) and all(_is_of(one, parts[0]) for one in value)
    if origin is dict:
        return isinstance(value, dict) and all(_is_of(one, parts[1]) for one in value.values())
    kind = annotation if isinstance(annotation, type) else origin if isinstance(origin, type) else object
    if isinstance(value, bool):
        return kind in (bool, object)
    if isinstance(value, str) and issubclass(kind, Enum):
        return True
    return isinstance(value, (int, float) if kind is float else kind)


def _is_usable(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(_is_usable, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_usable, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or abs(value) <= LARGEST


def described(annotation: Any) -> str:
    """Describe the values that a type accepts."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        names = dict.fromkeys(described(part) for part in parts if not (part is int and float in parts))
        return (", or " if any(" or " in name or ", " in name for name in names) else " or ").join(names)
    if origin is Annotated:
        return " ".join([described(parts[0]), *(str(part) for part in parts[1:] if isinstance(part, Range))])
    if origin is Literal:
        return " or ".join(map(str, parts))
    if origin is list and parts[0] is not Any:
        return f"a list, each {described(parts[0])}"
    if origin is dict and parts[1] is not Any:
        return f"a mapping, each value {described(parts[1])}"
    kind = annotation if isinstance(annotation, type) else origin
    return _NAMES.get(kind, getattr(kind, "__name__", str(kind)))


def several(names: str | Iterable[str]) -> tuple[str, ...]:
    """Return names as a tuple; a text alone is one name, not its letters."""
    return (names,) if isinstance(names, str) else tuple(names)
