"""Columns of texts: which column of a table, or key of a JSON line, holds text, id, title and so on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import lru_cache
from pathlib import Path
from typing import Any

from eventformers.datasets_scripts.reading.fields import check_keys
from eventformers.errors import DataFormatError, EventformersError, lookalike, shown

_USUAL = {
    "text": ("text",),
    "id": ("id", "document_id"),
    "title": ("title",),
    "date": ("date",),
    "source": ("source",),
    "license": ("license", "licence"),
}
"""The columns of each part of a text. If a row has two of them, they must be equal."""

_UNUSED = (
    *("added", "created", "dump", "file_path", "language", "language_score", "media", "metadata"),
    *("timestamp", "token_count", "url", "version"),
)
"""Further columns in published web corpora and in datatrove's output."""

_KNOWN = frozenset(_UNUSED).union(*_USUAL.values())

ACCEPTED_DATE = "a date in ISO 8601, such as 2024-05-31, 2024-05, 2024 or 2024-05-31T14:30:00+02:00"
_YEAR_OR_MONTH = re.compile(r"[0-9]{4}(-(0[1-9]|1[0-2]))?")


@dataclass(frozen=True)
class TextColumns:
    """Columns of texts in tables, or keys in JSON lines.

    A named column must exist. None takes the usual one: `text`, which must exist; `id` or `document_id`,
    `title` and `date`, if they exist. `source`, and `license` or `licence`, are always read if they exist.
    Values of a title, date, source or licence that are of another type count as unknown, unless their column
    is named. Case does not matter if only one column matches.

    Args:
        text: column of the text.
        id: column of the id.
        title: column of the title.
        date: column of the date. Its values must be dates in ISO 8601.
        others: True ignores other columns. False accepts only those of published web corpora; it has no
            effect if a column is named.
    """

    text: str | None = None
    id: str | None = None
    title: str | None = None
    date: str | None = None
    others: bool = False

    def named(self) -> dict[str, str]:
        """The columns that are named, by part.

        Raises:
            EventformersError: a name is empty, or two parts have the same column.
        """
        parts = {"text": self.text, "id": self.id, "title": self.title, "date": self.date}
        named = {part: name for part, name in parts.items() if name is not None}
        for part, name in named.items():
            if not name or list(named.values()).count(name) > 1:
                found = "an empty name" if not name else f"{shown(name)} for two columns"
                raise EventformersError(
                    f"--{part}-column: found {found}; accepted: the name of a column of its own"
                )
        return named

    def of_header(self, names: Sequence[str], path: Path) -> set[str]:
        """Check the columns of a table, and return those to read.

        Raises:
            DataFormatError: a column is absent, unknown, or occurs twice.
        """
        for name in names:
            if names.count(name) > 1:
                raise DataFormatError(path, 1, f"the column {shown(name)} twice", "each column once")
        return {name for part in self.of_names(names, path, 1).values() for name in part}

    def of_names(
        self, names: Sequence[str], path: Path, line: int | None, what: str = "column"
    ) -> Mapping[str, tuple[str, ...]]:
        """Return the columns of each part that a row with these names has.

        Args:
            names: the columns of the row.
            path: the file, for errors.
            line: the line, for errors.
            what: name of a column, for errors.

        Raises:
            DataFormatError: a named column, or the text, is absent; or there is an unknown column.
        """
        named = self.named()
        if not named and not self.others:
            check_keys(dict.fromkeys(names), _KNOWN, path, line, what=what)
        found = _columns(self, tuple(names))
        for part in ("text", *named):
            if not found[part]:
                wanted = named.get(part, part)
                raise DataFormatError(
                    path,
                    line,
                    f"the {what}s {shown(', '.join(names))[1:-1] or 'none'}",
                    f"a {what} {wanted}; --{part}-column names another one",
                )
        return found


USUAL_COLUMNS = TextColumns()
"""The usual columns, without others."""


@lru_cache(maxsize=1024)
def _columns(columns: TextColumns, names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    named = columns.named()
    found = {}
    for part, usual in _USUAL.items():
        wanted = (named[part],) if part in named else usual
        exact = tuple(name for name in wanted if name in names)
        near = () if exact else tuple(name for name in names if lookalike(name, wanted))
        found[part] = exact or (near if len(near) == 1 else ())
    return found


def part_of(record: Mapping[str, Any], names: Sequence[str], path: Path, line: int | None) -> object:
    """Return the value of a part of a text; None if it is absent.

    Raises:
        DataFormatError: the row has two different values for it.
    """
    given = [record[name] for name in names if record.get(name) is not None]
    if any(value != given[0] for value in given):
        found = " and ".join(f'"{name}"' for name in names)
        raise DataFormatError(path, line, f"{found} that differ", "one of them")
    return given[0] if given else None


def iso_date(value: object, path: Path, line: int | None) -> str:
    """Return a date in ISO 8601, without a time if it is midnight of an unknown zone; "" if unknown.

    Args:
        value: a text in ISO 8601, a whole number such as 2024 or 20240531, a date, a time stamp, or None. A
            year, or a month of a year, is a date, too.
        path: the file, for errors.
        line: the line, for errors.

    Raises:
        DataFormatError: the value is not a date.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str) and _YEAR_OR_MONTH.fullmatch(value.strip()):
        return value.strip()
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value.strip())
        elif isinstance(value, date) and not isinstance(value, datetime):
            return value.isoformat()
        if isinstance(value, datetime):
            if value.timetz() == time():
                return value.date().isoformat()
            return value.isoformat()
    except ValueError:
        pass
    raise DataFormatError(path, line, f"the date {shown(value)}", ACCEPTED_DATE)
