"""Rows of JSON lines, CSV, tab-separated and Parquet files by documented columns."""

from __future__ import annotations

import csv
import datetime
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import dropwhile, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, cast

import pyarrow as pa
import pyarrow.parquet as pq

from eventformers.datasets_scripts.events import EVENT_ORDERS
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.reading.fields import Record, check_keys, checked_record
from eventformers.datasets_scripts.reading.lines import (
    MAX_LINE_BYTES_VARIABLE,
    file_stem,
    format_suffix,
    is_json_lines,
    max_line_bytes,
    parse_json,
    read_json_values,
    read_lines,
)
from eventformers.errors import DataFormatError, EventformersError, counted, first_line, nearest_name, shown
from eventformers.files import packaged_yaml

Row = TypeVar("Row")

Header: TypeAlias = Callable[[Sequence[str], Path], Collection[str]]
"""Checks the names of columns, and returns those to read."""

NumberedRow: TypeAlias = tuple[int, dict[str, object]]
"""The line of a row in a CSV file, or its number from 1 in a Parquet file; and its values by column."""

BLOCK_ROWS = 8_192
"""Number of rows of a Parquet file read at a time."""

_MOST_EXPANDED = 100
"""Texts do not decompress to as many times their size."""


def rows_of(columns: Mapping[str, Sequence[object]]) -> Iterator[dict[str, object]]:
    """Yield the rows of columns."""
    return (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))


def listed(array: pa.Array, path: Path, line: int | None) -> list[object]:
    """Return the values of an Arrow array.

    Raises:
        DataFormatError: a value cannot be read.
    """
    try:
        return cast("list[object]", array.to_pylist())
    except (pa.ArrowException, ValueError, OverflowError) as error:
        # For example text that is not UTF-8, or a struct with a repeated name.
        raise DataFormatError(path, line, f"values that cannot be read ({error})", "strings") from error


def table_kind(path: Path) -> Literal["csv", "tsv", "parquet"] | None:
    """Determine the format of a table from its name, of CSV also with `.gz` or `.bz2`; None for no table."""
    if path.suffix.lower() == ".parquet":
        return "parquet"
    suffix = format_suffix(path)
    return "csv" if suffix == ".csv" else "tsv" if suffix == ".tsv" else None


def table_columns(path: Path) -> list[str]:
    """Return the names of the columns of a table.

    Raises:
        DataFormatError: the file cannot be read.
        EventformersError: the file cannot be opened.
    """
    if table_kind(path) == "parquet":
        with _parquet_faults(path):
            return list(pq.read_schema(path).names)
    try:
        rows = csv.reader([_header(path)], delimiter=_delimiter(path))
        return [name.strip() for name in next(rows, [])]
    except csv.Error as error:
        raise DataFormatError(path, None, f"broken CSV ({error})", "a header of CSV") from error


def _header(path: Path) -> str:
    """Return the first line that is not blank; an error if it is not UTF-8, also where other such lines are
    skipped."""
    return next((text for _, text in read_lines(path) if text.strip()), "")


def _delimiter(path: Path) -> str:
    """Return the character between two fields: of `.csv`, that of the header.

    Spreadsheets write a semicolon where a comma is the decimal mark.
    """
    if table_kind(path) == "tsv":
        return "\t"
    header = _header(path)
    return next((mark for mark in ",;\t" if mark in header), ",")


class _Records:
    """The records of CSV lines; after a broken record, reading goes on at its second line.

    A quote that is not closed would otherwise swallow the lines up to the next quote.

    Args:
        lines: its lines with their numbers, from the header on.
        longest_field: maximum number of characters of a field.

    Attributes:
        line: the last line of the latest record.
    """

    def __init__(
        self,
        path: Path,
        lines: Iterator[tuple[int, str]],
        longest_field: int,
        row_is_line: bool,
        quotes: bool,
    ) -> None:
        self.line = 0
        self._most = 1 if row_is_line else None
        self._lines, self._limit = dropwhile(lambda item: not item[1].strip(), lines), longest_field
        self._again = deque[tuple[int, str]]()
        self._delimiter, self._quotes = _delimiter(path), quotes
        self._taken: list[tuple[int, str]] = []

    def next(self) -> list[str] | None:
        """Read a record; None at the end.

        Raises:
            csv.Error: the record is broken.
        """
        self._taken = []
        if not self._quotes:
            # A carriage return inside a line ends no record.
            text = next(self._texts(), None)
            return None if text is None else text[:-1].split(self._delimiter) if text.strip() else []
        # The limit is a global setting of Python, which other readers may rely on.
        own = csv.field_size_limit(self._limit)
        try:
            texts = islice(self._texts(), self._most)
            return next(csv.reader(texts, delimiter=self._delimiter, strict=True), None)
        finally:
            csv.field_size_limit(own)

    def give_back(self) -> int:
        """Read the lines of the latest record again, except its first one, whose number is returned."""
        (first, _), *rest = self._taken
        self._again.extendleft(reversed(rest))
        return first

    def _texts(self) -> Iterator[str]:
        size, longest = 0, 4 * max_line_bytes()
        while (item := self._again.popleft() if self._again else next(self._lines, None)) is not None:
            self._taken.append(item)
            self.line = item[0]
            # A line in memory takes a hundred bytes and its text.
            size += 100 + len(item[1])
            if size > longest:
                raise csv.Error(f"a row of more than {len(self._taken) - 1:,} lines")
            yield f"{item[1]}\n"


def needed(*names: str) -> Header:
    """Make the check of a table that needs these columns, of which no others are read."""

    def header(found: Sequence[str], path: Path) -> Collection[str]:
        if missing := [name for name in names if name not in found]:
            accepted = f"the columns {', '.join(names)}"
            raise DataFormatError(path, 1, f"no column {', '.join(missing)}", accepted)
        return names

    return header


def csv_file_rows(
    path: Path,
    skipped: SkippedRows,
    header: Header,
    *,
    row: str,
    longest_field: int | None = None,
    row_is_line: bool = False,
    quotes: bool = True,
) -> Iterator[NumberedRow]:
    """Read the rows of a CSV or tab-separated file with a header. A quoted field may have several lines.

    The fields of `.csv` are separated by what the header has: a comma, or else a semicolon or a tab. Of a
    malformed row, only the first line is skipped: the next one may begin another row.

    Args:
        skipped: count of blank lines, and policy for malformed rows.
        header: checks the columns, and chooses those to read.
        row: name of a row, for errors, such as "event".
        longest_field: maximum number of characters of a field; None uses the limit of Python.
        row_is_line: a row is one line, so that a quote that is not closed never joins rows.
        quotes: False if quotes have no special meaning.

    Raises:
        DataFormatError: the file is empty, is not UTF-8, has no row, is not CSV, or `header` rejects its
            columns.
    """
    limit = csv.field_size_limit() if longest_field is None else longest_field
    records = _Records(path, read_lines(path, skipped), limit, row_is_line, quotes)
    accepted = f"CSV with quotes closed and fields of at most {limit:,} characters"
    try:
        # All rows were skipped, so there is no line to name.
        names = [name.strip() for name in records.next() or []]
    except csv.Error as error:
        raise DataFormatError(path, records.line, f"broken CSV ({error})", accepted) from error
    wanted = header(names, path)
    malformed_before = skipped.num_malformed
    empty = True
    while True:
        try:
            cells = records.next()
        except csv.Error as error:
            fault = DataFormatError(path, records.give_back(), f"broken CSV ({error})", accepted)
            skipped.leave_out(fault, "row")
            continue
        if cells is None:
            break
        if len(names) > 1 and (not cells or (len(cells) == 1 and cells[0].isspace())):
            skipped["blank_line"] += 1
        elif len(cells) != len(names):
            found = counted(len(cells), "column")
            expected = f"{len(names)} columns, as in the header"
            fault = DataFormatError(path, records.give_back(), found, expected)
            skipped.leave_out(fault, "row")
        else:
            empty = False
            yield (
                records.line,
                {name: cell for name, cell in zip(names, cells, strict=True) if name in wanted},
            )
    if empty:
        are_malformed = skipped.num_malformed > malformed_before
        found = "malformed rows alone" if are_malformed else "a header without rows"
        raise DataFormatError(path, None, found, f"at least one {row}")


def parquet_file_rows(
    path: Path, header: Header, *, row: str, skipped: SkippedRows | None = None
) -> Iterator[NumberedRow]:
    """Read the rows of a Parquet file in blocks.

    Args:
        header: checks the columns, and chooses those to read.
        row: name of a row, for errors, such as "event".
        skipped: policy for damaged row groups; None raises an error for the first one.

    Raises:
        DataFormatError: the file is not Parquet, has no row or unreadable values, or `header` rejects its
            columns.
    """
    with _parquet_faults(path), pq.ParquetFile(path) as file:
        names = list(file.schema_arrow.names)
        chosen = header(names, path)
        if not file.metadata.num_rows:
            raise DataFormatError(path, None, "no rows", f"at least one {row}")
        wanted = [name for name in names if name in chosen]
        first = 1
        for group in range(file.num_row_groups):
            last = first + file.metadata.row_group(group).num_rows - 1
            read = first
            rows = _block_rows(path, file.metadata.row_group(group), wanted)
            try:
                for batch in file.iter_batches(batch_size=rows, row_groups=[group], columns=wanted):
                    of_batch = {
                        name: listed(column, path, read)
                        for name, column in zip(batch.schema.names, batch.columns, strict=True)
                    }
                    yield from enumerate(rows_of(of_batch), start=read)
                    read += len(batch)
            except (pa.ArrowException, OSError, DataFormatError) as error:
                if skipped is None:
                    raise
                if isinstance(error, DataFormatError):
                    reason = error.found
                else:
                    reason = f"damaged Parquet ({first_line(error)})"
                found = f"{reason} in the rows to row {last:,}"
                skipped.leave_out(DataFormatError(path, read, found, "a Parquet file"), "row group")
            first = last + 1


def _block_rows(path: Path, group: pq.RowGroupMetaData, wanted: Collection[str]) -> int:
    """Return how many rows of a row group to read at a time.

    A few bytes of a file may stand for one long value, for many rows with the same value, or for a list of
    many equal items.

    Raises:
        DataFormatError: a column decompresses to too many bytes, or has too many items.
    """
    limit, rows = max_line_bytes(), BLOCK_ROWS
    for number in range(group.num_columns):
        column = group.column(number)
        if column.path_in_schema.partition(".")[0] not in wanted:
            continue
        stored = max(1, column.total_compressed_size)
        size, items = column.total_uncompressed_size, column.num_values - group.num_rows
        for number_of, kind, most in ((size, "bytes", limit), (items, "items", limit // 16)):
            if number_of <= _MOST_EXPANDED * stored:
                continue
            if number_of > most:
                found = (
                    f"{number_of:,} {kind} of the column {shown(column.path_in_schema)} in {stored:,} bytes"
                )
                accepted = f"at most {most:,}, or a higher limit in {MAX_LINE_BYTES_VARIABLE}"
                raise DataFormatError(path, None, found, accepted)
            rows = min(rows, most // number_of)
    return max(1, rows)


def read_parquet(path: Path, columns: Collection[str] | None = None) -> pa.Table:
    """Read a whole Parquet file that a command of ours wrote, or some of its columns.

    Raises:
        DataFormatError: the file does not exist, is damaged, or lacks a column.
    """
    with _parquet_faults(path):
        table = pq.read_table(path, columns=None if columns is None else list(columns))
        table.validate(full=True)
    missing = [name for name in columns or () if name not in table.column_names]
    if missing:
        raise DataFormatError(path, None, f"no column {missing[0]}", "the table as it was written")
    return table


@contextmanager
def _parquet_faults(path: Path) -> Iterator[None]:
    """Turn a fault of a Parquet file into an error that names the file."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        size = path.stat().st_size if path.is_file() else None
        empty = "no file" if size is None else "an empty file"
        found = f"no Parquet ({first_line(error)})" if size else empty
        raise DataFormatError(path, None, found, "a Parquet file") from error


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


@cache
def columns_of(table: str) -> tuple[Column, ...]:
    """The columns of a kind of table, which are also the keys of JSON lines, by a key of `columns.yaml`."""
    listed = packaged_yaml(__file__, "../columns.yaml")[table]
    return tuple(Column(**{**one, "other_names": tuple(one.get("other_names", ()))}) for one in listed)


def ignored_keys(table: str) -> frozenset[str]:
    """The columns and keys of published files that a reader accepts without use, from `columns.yaml`."""
    return frozenset(packaged_yaml(__file__, "../columns.yaml")["ignored"][table])


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
    try:
        if is_table(path):
            return dict.fromkeys(table_columns(path))
        return next((value for _, value in read_json_values(path, SkippedRows("skip"), "JSON")), None)
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
    parse: Callable[[Record], Row],
    *,
    ignored: Collection[str] = (),
    whole: str = "row",
    row_is_line: bool = False,
) -> Iterator[Row]:
    """Read a file of records: JSON lines, CSV, TSV or Parquet.

    Args:
        skipped: count of blank lines, and policy for malformed lines and rows.
        columns: the columns of a table, and the keys of JSON objects.
        accepted: the accepted content of a line of JSON, for errors.
        parse: converts a record; of a table with the values of its row by the names in the file, None for an
            empty cell.
        ignored: columns and keys that may be present and are not read.
        whole: the unit of a record, for the counts.
        row_is_line: a row of CSV is one line: a quote that is not closed never joins rows.

    Raises:
        DataFormatError: a line is no JSON object, a table or an object has a misspelt key, a table has a
            repeated column or lacks a required one, a cell has another type, `parse` raises it, or the file
            cannot be read.
    """
    same = [column.names for column in columns]
    known = {name for column in columns for name in (column.name, *column.other_names)}.union(ignored)

    def record(line: int, value: object) -> Row:
        return parse(checked_record(value, known, path, line, accepted, same))

    if not is_table(path):
        return skipped.parsed_rows(read_json_values(path, skipped, accepted), record, whole)
    # A table has values as in JSON, and events in the columns of their roles.
    kinds = {name: column.kind for column in columns for name in column.names}
    events = [column.name for column in columns if column.kind == "event"]
    kinds |= {f"{name}_{role}": "text" for name in events for role in _ROLES}

    def header(names: Sequence[str], path: Path) -> Collection[str]:
        check_keys(dict.fromkeys(names), {*kinds, *ignored}, path, 1, what="column", same=same)
        if repeated := sorted({name for name in names if name in kinds and names.count(name) > 1}):
            raise DataFormatError(path, 1, f"the column {shown(repeated[0])} twice", "each column once")
        for column in columns:
            if column.required and set(names).isdisjoint(column.names):
                found = f"the columns {shown(', '.join(names))}"
                raise DataFormatError(path, 1, found, f"a column {' or '.join(column.names)}")
        return kinds.keys()

    def row(line: int, cells: dict[str, object]) -> NumberedRow:
        values = {name: _value(cell, kinds[name], name, path, line) for name, cell in cells.items()}
        for name in events:
            if name not in values:
                values[name] = {role: values.pop(f"{name}_{role}", None) for role in _ROLES}
        return line, values

    if table_kind(path) == "parquet":
        rows = parquet_file_rows(path, header, row="row", skipped=skipped)
    else:
        rows = csv_file_rows(path, skipped, header, row="row", row_is_line=row_is_line)
    values = skipped.parsed_rows(rows, row)
    return skipped.parsed_rows(values, lambda line, value: parse(Record(value, path, line)), whole)


def _value(cell: object, kind: Kind, name: str, path: Path, line: int) -> object:
    """Convert a value of a table to that of JSON."""
    if cell is None or cell == "":
        return None
    if kind == "text":
        return cell.isoformat() if isinstance(cell, datetime.date) else cell
    if isinstance(cell, str):
        if kind not in _PARSERS:
            return parse_json(cell, path, line, f"JSON in the column {name}")
        parse, accepted = _PARSERS[kind]
        try:
            return parse(cell.strip())
        except (KeyError, ValueError, OverflowError) as error:
            raise DataFormatError(path, line, f"{shown(cell)} in the column {name}", accepted) from error
    if isinstance(cell, float) and math.isnan(cell):
        return None
    if kind == "flag" and cell not in (0, 1):
        raise DataFormatError(path, line, f"{shown(cell)} in the column {name}", ", ".join(_FLAGS))
    return int(cell) if kind == "integer" and isinstance(cell, float) and cell.is_integer() else cell


_PARSERS: dict[str, tuple[Callable[[str], object], str]] = {
    # Tables write a column of integers with an empty cell as floats.
    "integer": (lambda text: int(text.removesuffix(".0")), "a whole number"),
    "number": (float, "a number"),
    "flag": (lambda text: _FLAGS[text.lower()], ", ".join(_FLAGS)),
}
"""Parser of a cell of CSV by kind, and what it accepts."""
