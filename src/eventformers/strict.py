"""Settings that refuse values that are not accepted, as the configurations of the models do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, fields
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from huggingface_hub.dataclasses import strict, validated_field

from eventformers.errors import EventformersError, UnknownNameError, shown

Settings = TypeVar("Settings", bound="StrictSettings")

_ACCEPTED = {bool: "true or false", str: "text", int: "a whole number", float: "a number"}


class StrictSettings:
    """Base of frozen dataclasses under `strict_settings`.

    Each value is checked against the type of its field and by the test of `setting`; then the methods
    `validate_*` check how values go together. A whole number becomes a float where the field is a float.

    Raises:
        UnknownNameError: a value is none of the names of its field.
        EventformersError: a value is not accepted; the message says what is.
    """

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            given = value = getattr(self, field.name)
            types = _alternatives(field.type)
            if type(given) is int and float in types and int not in types:
                value = float(given)
                object.__setattr__(self, field.name, value)
            try:
                for validate in type(self).__validators__[field.name]:  # type: ignore[attr-defined]
                    validate(value)
            except (TypeError, ValueError) as error:
                raise _refusal(field, given, types) from error


def strict_settings(cls: type[Settings]) -> type[Settings]:
    """Make a frozen dataclass of settings strict; stands above `@dataclass(frozen=True)`."""
    hints = get_type_hints(cls)
    for field in fields(cls):  # type: ignore[arg-type]
        # The check of types skips annotations that are text.
        field.type = hints[field.name]
    return strict(cls)


def setting(default: Any, test: Callable[[Any], bool], accepted: str) -> Any:
    """A field whose values must pass a test.

    Args:
        default: the default.
        test: receives a value of the field's type other than None; returns whether it is accepted.
        accepted: what is accepted, for the message.
    """

    def validate(value: Any) -> None:
        if value is not None and not test(value):
            raise ValueError(accepted)

    return validated_field(validate, default=default, metadata={"accepted": accepted})


def count(default: int | None) -> Any:
    """A field that is a whole number of 1 or more."""
    return setting(default, lambda number: number >= 1, "1 or more")


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _refusal(field: Field[Any], value: object, types: tuple[Any, ...]) -> EventformersError:
    names = [name for one in types if get_origin(one) is Literal for name in get_args(one)]
    if names:
        return UnknownNameError(field.name, str(value), names)
    by_type = " or ".join(_ACCEPTED.get(one, str(one)) for one in types if one is not NoneType)
    accepted = field.metadata.get("accepted", by_type)
    return EventformersError(f"{field.name}: found {shown(value)}; accepted: {accepted}")
