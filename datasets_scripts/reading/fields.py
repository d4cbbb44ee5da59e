"""Keys, texts and events of the objects and rows of raw files; errors name file and line."""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
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
    named = _ignored.setdefault(path, set())
    # R and Excel write columns without a name.
    new = [key for key in unknown if key not in named and str(key).strip()]
    if new and len(named) < _NAMED_KEYS:
        named.update(new)
        listed = ", ".join(shown(key) for key in new[:_NAMED_KEYS])
        where = "the rows" if path == Path() else path
        warnings.warn(f"{where}: ignored the {what}{'s' if len(new) > 1 else ''} {listed}", stacklevel=3)


_ignored: dict[Path, set[str]] = {}
"""The ignored keys that were named, by file."""
_NAMED_KEYS = 50


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


class Record(dict[str, Any]):
    """A JSON object or a row of a table, with its place for errors.

    Args:
        values: its values by key or column.
        line: its line, from 1; of Parquet its row.
    """

    def __init__(self, values: Mapping[str, Any], path: Path, line: int) -> None:
        super().__init__(values)
        self.path, self.line = path, line

    def fault(self, found: str, accepted: str) -> DataFormatError:
        """Return an error that names the file and the line."""
        return DataFormatError(self.path, self.line, found, accepted)

    def text(self, *names: str) -> str:
        """Read the text under one of several names; "" if each is absent, null, or NaN, which tables use for
        missing values; see `text_field`.

        Raises:
            DataFormatError: two of them have different texts, or one has another type.
        """
        present = [name for name in names if self.get(name) == self.get(name)]
        texts = {name: text for name in present if (text := text_field(self, name, self.path, self.line))}
        if len(set(texts.values())) > 1:
            found = " and ".join(f'"{name}"' for name in texts)
            raise self.fault(f"{found} that differ", "one of them")
        return next(iter(texts.values()), "")

    def texts(self, name: str, accepted: str, owner: str = "") -> list[str]:
        """Read a list of texts; empty if it is absent or null.

        Args:
            accepted: the accepted content, for errors.
            owner: what the texts belong to, for errors, such as " of a frame".

        Raises:
            DataFormatError: it is something else, or one of them has no word.
        """
        value = self.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(one, str) and one.strip() for one in value):
            raise self.fault(f"the {name} {shown(value)}{owner}", accepted)
        return value


def checked_record(
    value: object,
    known: Iterable[str],
    path: Path,
    line: int,
    accepted: str,
    same: Iterable[Collection[str]] = (),
) -> Record:
    """Check that a JSON value is an object without misspelt keys; see `check_keys`.

    Raises:
        DataFormatError: it is not an object, or one of its keys may be misspelt.
    """
    if not isinstance(value, dict):
        raise DataFormatError(path, line, f"JSON of type {type(value).__name__}", accepted)
    check_keys(value, known, path, line, same=same)
    return Record(value, path, line)


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
    try:
        str(value).encode("utf-8")
    except UnicodeEncodeError as error:
        found = f'half of a surrogate pair in "{name}"'
        raise DataFormatError(path, line, found, "whole characters") from error
    return str(value)


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
