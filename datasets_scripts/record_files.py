"""Records of raw files by documented columns: JSON lines, CSV and Parquet."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from eventformers.datasets_scripts.events import EVENT_ORDERS
from eventformers.datasets_scripts.file_names import file_stem, is_json_lines
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.raw_files import (
    check_keys,
    first_json_value,
    parse_json,
    read_json_values,
)
from eventformers.datasets_scripts.table_files import (
    NumberedRow,
    csv_file_rows,
    parquet_file_rows,
    table_columns,
    table_kind,
)
from eventformers.errors import DataFormatError, EventformersError, nearest_name, shown

Kind = Literal["text", "integer", "number", "flag", "event", "list of texts", "list of events", "object"]
"""Type of the values of a column. In CSV, a list and an object are JSON."""

_ROLES = EVENT_ORDERS["subject_predicate_object"]
_FLAGS = {"0": False, "1": True, "false": False, "true": True}


class Column(NamedTuple):
    """A column of a table, and key of a JSON object.

    Args:
        name: its name. An event is one column with its three roles, or three columns: the name with
            `_subject`, `_predicate` and `_object`.
        kind: type of its values.
        meaning: its content, for the documentation.
        required: True if a table without the column is an error.
        other_names: names that mean the same.
    """

    name: str
    kind: Kind
    meaning: str
    required: bool = False
    other_names: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Every name of the column in a table."""
        roles = tuple(f"{self.name}_{role}" for role in _ROLES) if self.kind == "event" else ()
        return (self.name, *self.other_names, *roles)


def is_table(path: Path) -> bool:
    """True for a CSV, TSV or Parquet file by its name."""
    return table_kind(path) is not None


def has_records(path: Path) -> bool:
    """True if a file holds records by its name: JSON lines or a table."""
    return is_json_lines(path) or is_table(path)


def table_names(name: str) -> list[str]:
    """Return the names of the tables that may replace a file, such as `hard.csv` for `hard.txt`."""
    stem = Path(name).stem
    return [f"{stem}{suffix}" for suffix in (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")]


def first_record(path: Path) -> Any:
    """Return the first readable value of a file of records, for a table its columns without values; None if
    there is none."""
    if not is_table(path):
        return first_json_value(path)
    try:
        return dict.fromkeys(table_columns(path))
    except EventformersError:
        return None


def may_hold(table: Path, columns: Iterable[str]) -> bool:
    """False for a table of other data, with none of the columns; True if it cannot be read, so that its
    reader reports the fault."""
    found = first_record(table)
    return found is None or any(name in found for name in columns)


def table_fault(table: Path, known: Collection[str]) -> str:
    """Describe why a table may not be what was meant: its first unknown column, all its columns if they are
    known, or the fault of its header.

    Args:
        table: the table.
        known: the accepted columns.
    """
    try:
        columns = table_columns(table)
    except EventformersError as error:
        return str(error)
    for name in columns:
        if name not in known:
            nearest = nearest_name(name, known)
            hint = f" (did you mean {nearest!r}?)" if nearest else ""
            return f"{table.name}: found the column {shown(name)}{hint}"
    return f"{table.name}: found the columns {', '.join(columns)}"


def check_one_format(paths: Iterable[Path]) -> None:
    """Raise `EventformersError` if a folder has a file and a table of the same name: they may be the same
    data."""
    by_name: dict[Path, Path] = {}
    for path in paths:
        # Without compression and format: `mentions.train.csv` and `mentions.test.csv` are two files.
        other = by_name.setdefault(path.with_name(file_stem(path)), path)
        if other != path and (is_table(path) or is_table(other)):
            raise EventformersError(
                f"found {other} and {path.name}, which have one name in two formats; accepted: one of them, "
                "or other names if they are different data"
            )


def read_records(
    path: Path,
    skipped: SkippedRows,
    columns: Sequence[Column],
    accepted: str,
    *,
    ignored: Collection[str] = (),
    whole_characters: bool = True,
    row_is_line: bool = False,
) -> Iterator[tuple[int, Any]]:
    """Read a file of records, with line numbers; for Parquet, numbers of rows from 1.

    Args:
        path: JSON lines, CSV, TSV or Parquet.
        skipped: count of blank lines, and policy for malformed lines and rows.
        columns: the columns of a table.
        accepted: the accepted content of a line of JSON, for errors.
        ignored: columns that may be present and are not read.
        whole_characters: see `parse_json`.
        row_is_line: a row of CSV is one line: a quote that is not closed never joins rows.

    Returns:
        An iterator over line and value: any JSON value of a line; for a table, a dict with the values of the
        row by the names in the file, None for an empty cell. The caller checks texts.

    Raises:
        DataFormatError: a table has a misspelt or repeated column or lacks a required one, a cell has another
            type, or the file cannot be read.
    """
    if not is_table(path):
        return read_json_values(path, skipped, accepted, whole_characters=whole_characters)
    kinds = {name: column.kind for column in columns for name in column.names}
    kinds |= {
        f"{column.name}_{role}": "text" for column in columns if column.kind == "event" for role in _ROLES
    }

    def header(names: Sequence[str], path: Path) -> Collection[str]:
        check_keys(dict.fromkeys(names), {*kinds, *ignored}, path, 1, what="column", same=same_names(columns))
        if repeated := sorted({name for name in names if name in kinds and names.count(name) > 1}):
            raise DataFormatError(path, 1, f"the column {shown(repeated[0])} twice", "each column once")
        for column in columns:
            if column.required and set(names).isdisjoint(column.names):
                found = f"the columns {shown(', '.join(names))}"
                raise DataFormatError(path, 1, found, f"a column {' or '.join(column.names)}")
        return kinds.keys()

    def record(row: NumberedRow) -> tuple[int, dict[str, Any]]:
        line, cells = row
        values = {name: _value(cell, kinds[name], name, path, line) for name, cell in cells.items()}
        for column in columns:
            if column.kind == "event" and column.name not in values:
                roles = {role: values.pop(f"{column.name}_{role}", None) for role in _ROLES}
                values[column.name] = roles
        return line, values

    rows: Iterator[NumberedRow]
    if table_kind(path) == "parquet":
        rows = parquet_file_rows(path, header, row="row", skipped=skipped)
    else:
        rows = csv_file_rows(path, skipped, header, row="row", row_is_line=row_is_line)
    return skipped.parsed(rows, record)


def known_names(columns: Iterable[Column]) -> frozenset[str]:
    """Return all names of columns, as keys of JSON objects."""
    return frozenset(name for column in columns for name in (column.name, *column.other_names))


def same_names(columns: Iterable[Column]) -> list[tuple[str, ...]]:
    """Return the names of each column, as groups of keys that mean the same."""
    return [column.names for column in columns]


def _value(cell: object, kind: Kind, name: str, path: Path, line: int) -> object:
    """Convert a value of a table to that of JSON."""
    if cell is None or cell == "":
        return None
    if kind == "text":
        return cell.isoformat() if isinstance(cell, datetime.date) else cell
    if isinstance(cell, str):
        return _of_text(cell, kind, name, path, line)
    if isinstance(cell, float) and math.isnan(cell):
        return None
    if kind == "flag" and cell not in (0, 1):
        raise DataFormatError(path, line, f"{shown(cell)} in the column {name}", ", ".join(_FLAGS))
    return int(cell) if kind == "integer" and isinstance(cell, float) and cell.is_integer() else cell


def _of_text(cell: str, kind: Kind, name: str, path: Path, line: int) -> object:
    if kind not in _PARSERS:
        return parse_json(cell, path, line, f"JSON in the column {name}")
    parse, accepted = _PARSERS[kind]
    try:
        return parse(cell.strip())
    except (KeyError, ValueError, OverflowError) as error:
        raise DataFormatError(path, line, f"{shown(cell)} in the column {name}", accepted) from error


def _whole_number(text: str) -> int:
    # Tables write a column of integers with an empty cell as floats.
    return int(text.removesuffix(".0"))


_PARSERS: dict[str, tuple[Callable[[str], object], str]] = {
    "integer": (_whole_number, "a whole number"),
    "number": (float, "a number"),
    "flag": (lambda text: _FLAGS[text.lower()], ", ".join(_FLAGS)),
}
"""Parser of a cell of CSV by kind, and what it accepts."""
