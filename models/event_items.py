"""The reader of one text or event in any form, and checks of raw inputs."""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, Literal

Role = Literal["subject", "predicate", "object"]

ROLES: tuple[Role, ...] = ("subject", "predicate", "object")
"""The order of the roles in `role_masks`, independent of their order in the text."""

ORDERS: dict[str, tuple[Role, ...]] = {
    "subject_predicate_object": ROLES,
    "predicate_first": ("predicate", "subject", "object"),
}
"""The order of the roles in the text, by the configuration's `event_order`."""

ACCEPTED_ITEM = (
    "a text; an event with subject, predicate and object; a tuple or list of these three strings; or a row "
    "with text or event"
)
ACCEPTED_ROLES = "an object with subject, predicate and object, or a list of these three strings"
_ROLES = frozenset(ROLES)
_ROW_NAMES = _ROLES | {"id", "text", "event"}


class ItemError(ValueError):
    """An input that is not a text or event."""

    def __init__(self, found: str, accepted: str) -> None:
        super().__init__(f"found {found}; accepted: {accepted}")
        self.found, self.accepted = found, accepted


def shown(value: object) -> str:
    """Format a received value for an error message: its `repr`, truncated to 200 characters."""
    try:
        text = repr(value).encode("utf-8", "backslashreplace").decode("utf-8")
    except (RecursionError, ValueError):
        return f"a {type(value).__name__} that cannot be printed"
    return text if len(text) <= 200 else f"{text[:200]}… ({len(text):,} characters)"


def checked_text(value: object, name: str, *, may_be_empty: bool = False) -> str:
    """Check a text, called `name` in the error message, and return it.

    Args:
        may_be_empty: accept a text without a word, and None as the empty text.
    """
    if may_be_empty and value is None:
        return ""
    if not isinstance(value, str) or not (may_be_empty or value.strip()):
        accepted = "a text" if may_be_empty else "a text with at least one word"
        raise ValueError(f"found {shown(value)} as {name}; accepted: {accepted}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"found half of a surrogate pair in {name} {shown(value)}; accepted: whole characters"
        ) from error
    return value


def as_list(value: Any) -> Any:
    """Return a column of `datasets`, an array or a series as a list, and anything else unchanged."""
    if hasattr(value, "tolist"):
        return value.tolist()
    is_column = isinstance(value, Sequence) and not isinstance(value, (str, bytes, list, tuple))
    return list(value) if is_column else value


def checked_list(value: object, name: str, of: str) -> list[Any]:
    """Check a non-empty list, tuple, column, array or series and return it as a list; `name` and `of`, what
    it contains, are for the error message."""
    values = as_list(value)
    if not isinstance(values, (list, tuple)) or not values:
        raise ValueError(f"found {shown(value)} as {name}; accepted: a list of at least one {of}")
    return list(values)


def checked_mapping(value: object, accepted: str) -> Mapping[str, Any]:
    """Check a mapping and return it; `accepted` is what it contains, for the error message."""
    if not isinstance(value, Mapping):
        raise ValueError(f"found {shown(value)}, a {type(value).__name__}; accepted: {accepted}")
    return value


def read_item(value: object) -> str | dict[str, str]:
    """Read a text or an event.

    Args:
        value: a text; a tuple or list of three strings: subject, predicate and object; or a row. A row has
            `text`, or `event` with the three roles, or `predicate` with `subject` and `object`; null and an
            absent subject or object are the empty string. In a row with several of these, the first counts.
            Other names beside `text`, `event` or all three roles are ignored.

    Returns:
        The text, or the event with all of its roles.

    Raises:
        ItemError: the value is something else, or contains no word.
    """
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (tuple, list)):
        return _triple(value)
    if not isinstance(value, Mapping):
        raise ItemError(type(value).__name__, ACCEPTED_ITEM)
    if "text" in value:
        return _text(value["text"])
    roles = value.get("event", value)
    if isinstance(roles, (tuple, list)):
        return _triple(roles)
    if not isinstance(roles, Mapping):
        raise ItemError(f"the event {shown(roles)}", ACCEPTED_ROLES)
    if roles is value:
        is_complete = "predicate" in roles and roles.keys() <= _ROW_NAMES
        is_misread = not is_complete and not roles.keys() >= _ROLES
    else:
        is_misread = not roles.keys() <= _ROLES
    if is_misread:
        raise ItemError(f"the keys {shown(list(roles))}", ACCEPTED_ITEM)
    return _event([roles.get(role) for role in ROLES])


def is_triple(value: Sequence[object]) -> bool:
    """True if a tuple or list is an event: three strings."""
    return len(value) == len(ROLES) and all(isinstance(part, str) for part in value)


def _triple(value: Sequence[object]) -> dict[str, str]:
    if not is_triple(value):
        raise ItemError(f"a {type(value).__name__} of {len(value)}: {shown(value)}", ACCEPTED_ITEM)
    return _event(value)


def _event(values: Sequence[object]) -> dict[str, str]:
    named = zip(ROLES, values, strict=True)
    roles = ["" if value is None else _encodable(value, role) for role, value in named]
    if all(map(_is_blank, roles)):
        raise ItemError("an event without any word", "at least one word")
    return dict(zip(ROLES, roles, strict=True))


def _text(value: object) -> str:
    text = _encodable(value, "text")
    if _is_blank(text):
        raise ItemError("a text without any word", "at least one word")
    return text


def _encodable(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise ItemError(f"the {name} {shown(value)}", "a string")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ItemError(f"half of a surrogate pair in the {name}", "whole characters") from error
    return value


def _is_blank(text: str) -> bool:
    return all(char.isspace() or unicodedata.category(char) in ("Cc", "Cf") for char in text)


def items_of(inputs: object) -> list[Any]:
    """Return the items of a list, or one text, mapping or tuple of three strings as a list.

    Raises:
        ItemError: it is something else, or an empty list.
    """
    if isinstance(inputs, (str, Mapping)) or (isinstance(inputs, tuple) and is_triple(inputs)):
        return [inputs]
    return checked_list(inputs, "input", "item")


def text_of(item: str | Mapping[str, str], order: str) -> str:
    """The text of an item of `read_item`: a text as it is, or an event's roles joined by one blank.

    Args:
        item: a text, or an event with all of its roles, "" for an absent one.
        order: a key of `ORDERS`.
    """
    return item if isinstance(item, str) else " ".join(item[role] for role in ORDERS[order] if item[role])
