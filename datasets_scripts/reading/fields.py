"""Keys, texts and events of the objects and rows of raw files; errors name file and line."""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from eventformers.datasets_scripts.events import Event
from eventformers.errors import DataFormatError, lookalike, nearest_name, shown

ACCEPTED_EVENT = "a subject, a predicate and an object, at least one of them with a word"

_ROLES = ("subject", "predicate", "object")


def check_keys(
    record: Mapping[str, object],
    known: Iterable[str],
    path: Path,
    line: int | None,
    *,
    what: str = "key",
    same: Iterable[Collection[str]] = (),
    complete: bool = False,
) -> None:
    """Reject a key or column that may be a misspelt known one which is missing; ignore others, and name each
    once.

    Args:
        record: a JSON object or a row.
        known: the keys of the format, including documented keys that are ignored.
        path: the file, for errors.
        line: the line, for errors.
        what: name of the keys in the error, such as "column".
        same: groups of keys that mean the same, so that one of them stands for all.
        complete: while a known key is missing, any other key may be meant for it.

    Raises:
        DataFormatError: a key may be a misspelt one; names the nearest known key.
    """
    accepted = known if isinstance(known, (set, frozenset, dict)) else set(known)
    if not (unknown := [key for key in record if key not in accepted]):
        return
    missing = {name for name in accepted if name not in record}
    missing -= {name for group in same if any(key in record for key in group) for name in group}
    for key in map(str, unknown):
        nearest = nearest_name(key, missing) if complete else _resembled(key, missing)
        if nearest or (complete and missing):
            hint = f" (did you mean {nearest!r}?)" if nearest else ""
            raise DataFormatError(
                path, line, f"the {what} {shown(key)}{hint}", f"the {what}s {', '.join(sorted(accepted))}"
            )
    _name_ignored(unknown, path, what)


_ignored: dict[Path, set[str]] = {}
"""The ignored keys that were named, by file."""
_NAMED_KEYS = 50


def _name_ignored(keys: Iterable[str], path: Path, what: str) -> None:
    named = _ignored.setdefault(path, set())
    # R and Excel write columns without a name.
    new = [key for key in keys if key not in named and str(key).strip()]
    if new and len(named) < _NAMED_KEYS:
        named.update(new)
        listed = ", ".join(shown(key) for key in new[:_NAMED_KEYS])
        where = "the rows" if path == Path() else path
        warnings.warn(f"{where}: ignored the {what}{'s' if len(new) > 1 else ''} {listed}", stacklevel=4)


def _resembled(key: str, names: Collection[str]) -> str | None:
    """Find the name that a key is up to case, separators, plural, abbreviation and slips of the pen; else
    None. A name with more or fewer words is another one: `sentence_id` is not `sentence`."""
    if (same := lookalike(key, names)) is not None:
        return same
    words = _words_of(key)
    near = [name for name in sorted(names) if _are_alike(words, _words_of(name))]
    return max(near, key=lambda name: SequenceMatcher(None, key, name).ratio(), default=None)


def _words_of(name: str) -> list[str]:
    words = re.findall(r"[^\W_]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).casefold())
    return [word.removesuffix("s") for word in words]


def _are_alike(words: Sequence[str], others: Sequence[str]) -> bool:
    if "".join(words) == "".join(others):
        return True
    return len(words) == len(others) and all(
        sorted(one) == sorted(other)
        or (min(len(one), len(other)) >= 3 and (one.startswith(other) or other.startswith(one)))
        or SequenceMatcher(None, one, other).ratio() >= _NEAR
        for one, other in zip(words, others, strict=True)
    )


_NEAR = 0.8


def json_object(
    value: object,
    known: Iterable[str],
    path: Path,
    line: int | None,
    accepted: str,
    same: Iterable[Collection[str]] = (),
) -> dict[str, Any]:
    """Check that a JSON value is an object without misspelt keys, and return it.

    Args:
        value: the value.
        known: see `check_keys`.
        path: the file, for errors.
        line: the line, for errors.
        accepted: the accepted content if the value is not an object.
        same: see `check_keys`.

    Raises:
        DataFormatError: it is not an object, or one of its keys may be misspelt.
    """
    if not isinstance(value, dict):
        raise DataFormatError(path, line, f"JSON of type {type(value).__name__}", accepted)
    check_keys(value, known, path, line, same=same)
    return value


def text_field(record: Mapping[str, object], name: str, path: Path, line: int) -> str:
    """Read a text of a JSON object, "" if it is absent or null; integers become texts.

    Raises:
        DataFormatError: it has another type, or is a text that UTF-8 cannot represent.
    """
    value = record.get(name)
    if value is None:
        return ""
    if isinstance(value, str) and value.isascii():
        return value
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise DataFormatError(path, line, f'"{name}" of type {type(value).__name__}', "a text")
    return check_characters(str(value), f'"{name}"', path, line)


def check_characters(text: str, where: str, path: Path, line: int | None) -> str:
    """Return a text, or raise `DataFormatError` if it has half of a surrogate pair, which UTF-8 cannot
    represent.
    """
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            found = f"half of a surrogate pair in {where}"
            raise DataFormatError(path, line, found, "whole characters") from error
    return text


def text_of_either(
    record: Mapping[str, object],
    names: Sequence[str],
    path: Path,
    line: int,
    read: Callable[[Mapping[str, object], str, Path, int], str] = text_field,
) -> str:
    """Read a text of a JSON object under one of several names, with `read`; "" if there is none.

    Raises:
        DataFormatError: two of them have different texts; or see `text_field`.
    """
    texts = {name: text for name in names if (text := read(record, name, path, line))}
    if len(set(texts.values())) > 1:
        found = " and ".join(f'"{name}"' for name in texts)
        raise DataFormatError(path, line, f"{found} that differ", "one of them")
    return next(iter(texts.values()), "")


def is_blank(text: str) -> bool:
    """True if a text has no visible character, only white space, control characters and joiners."""
    return all(char.isspace() or unicodedata.category(char) in ("Cc", "Cf") for char in text)


def checked_event(subject: str, predicate: str, object_: str, path: Path, line: int) -> Event:
    """Create an event with normalised white space in its roles.

    Raises:
        DataFormatError: all roles are empty.
    """
    event: Event = {
        "subject": " ".join(subject.split()),
        "predicate": " ".join(predicate.split()),
        "object": " ".join(object_.split()),
    }
    if not (event["subject"] or event["predicate"] or event["object"]):
        raise DataFormatError(path, line, "an event without any word", ACCEPTED_EVENT)
    return event


def event_of(value: object, path: Path, line: int, accepted: str = ACCEPTED_EVENT) -> Event:
    """Read an event: an object with the roles, where roles may be absent, or a list of the three.

    Args:
        value: the event; null is an absent role.
        path: the file, for errors.
        line: the line, for errors.
        accepted: the accepted content, for errors.

    Raises:
        DataFormatError: it is something else, or all roles are empty.
    """
    if isinstance(value, dict):
        check_keys(value, _ROLES, path, line, what="role", complete=True)
        fields = [value.get(role) for role in _ROLES]
    elif isinstance(value, list) and len(value) == len(_ROLES):
        fields = value
    else:
        found = f"an event of {len(value)} fields" if isinstance(value, list) else f"the event {shown(value)}"
        raise DataFormatError(path, line, found, accepted)
    subject, predicate, object_ = (role_of(field, path, line) for field in fields)
    return checked_event(subject, predicate, object_, path, line)


def role_of(field: object, path: Path, line: int) -> str:
    """Read a role of an event; "" for null.

    Raises:
        DataFormatError: it is no text.
    """
    if field is None:
        return ""
    if not isinstance(field, str):
        found = f"a role of type {type(field).__name__}"
        raise DataFormatError(path, line, found, "a text, or null where the event has none")
    return field


def has_word(event: Event) -> bool:
    """True if a role has a letter or a digit; an extractor's "^" or "--" does not count."""
    return any(map(str.isalnum, event["subject"] + event["predicate"] + event["object"]))
