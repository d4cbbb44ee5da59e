"""The rows of tables, with commas or tabs between their cells, by the names of their columns."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.raw_files import check_keys, read_rows
from eventformers.errors import DataFormatError, shown

ACCEPTED_CSV = (
    "a line of fields with commas between them, and a quote at the end of each that begins with one"
)
ACCEPTED_TABLE = "a header, and rows under it, separated by tabs"

Row = TypeVar("Row")


def parsed_rows(
    rows: Iterable[tuple[int, Any]],
    parse: Callable[[int, Any], Row],
    skipped: SkippedRows,
    whole: str = "row",
) -> Iterator[Row]:
    """What `parse` makes of each line and its value, malformed rows left out as `skipped` decides.

    Raises:
        DataFormatError: a row is malformed, and malformed parts are not to be left out.
    """
    return skipped.parsed(rows, lambda row: parse(*row), whole)


def table_rows(
    path: Path, skipped: SkippedRows, needed: Collection[str], known: Collection[str]
) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a table of tabs by its header, with their lines. Quotes are characters like any other.

    Args:
        path: the file.
        skipped: gets the number of blank lines, and decides on malformed rows.
        needed: the columns that it has to have.
        known: the columns that it may have.

    Raises:
        DataFormatError: the header lacks a column or has an unknown one, or a row has more or fewer fields.
    """
    rows = read_rows(path, skipped)
    line, text = next(rows, (None, ""))
    if line is None:
        raise DataFormatError(path, None, "blank lines alone", ACCEPTED_TABLE)
    header = text.split("\t")
    if missing := [name for name in needed if name not in header]:
        raise DataFormatError(path, line, f"the columns {shown(', '.join(header))}", f"a column {missing[0]}")
    _check_header(header, known, path, line)
    yield from parsed_rows(
        rows, lambda line, text: (line, _by_name(header, text.split("\t"), path, line)), skipped
    )


def csv_rows(
    path: Path, skipped: SkippedRows, needed: Sequence[tuple[str, ...]], known: Collection[str]
) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a CSV file by its header, with their lines. A row is one line.

    Args:
        path: the file.
        skipped: gets the number of blank lines, and decides on malformed rows.
        needed: the columns of which it has to have some together.
        known: the columns that it may have.

    Raises:
        DataFormatError: the header lacks columns or has an unknown one, a row has more or fewer fields, or a
            quote is not closed.
    """
    rows = read_rows(path, skipped)
    line, text = next(rows, (None, ""))
    if line is None:
        raise DataFormatError(path, None, "blank lines alone", ACCEPTED_CSV)
    header = csv_cells(text, path, line)
    columns_of(header, needed, path, line)
    _check_header(header, known, path, line)
    yield from parsed_rows(
        rows, lambda line, text: (line, _by_name(header, csv_cells(text, path, line), path, line)), skipped
    )


def columns_of(
    row: Collection[str], needed: Sequence[tuple[str, ...]], path: Path, line: int
) -> tuple[str, ...]:
    """Return those columns of `needed` that a row has all of, the first that fit.

    Raises:
        DataFormatError: none fit.
    """
    columns = next((names for names in needed if set(names) <= set(row)), None)
    if columns is None:
        accepted = " or ".join(",".join(names) for names in needed)
        raise DataFormatError(path, line, f"the columns {shown(','.join(row))}", accepted)
    return columns


def csv_cells(text: str, path: Path, line: int) -> list[str]:
    """Return the cells of a row of CSV, which is one line: a quote that is never closed takes no other rows
    along.

    Raises:
        DataFormatError: the line is no CSV.
    """
    try:
        return next(csv.reader([text], strict=True), [])
    except csv.Error as error:
        accepted = f"{ACCEPTED_CSV}; at most {csv.field_size_limit():,} characters in a field"
        raise DataFormatError(path, line, f"no CSV ({error})", accepted) from error


def _check_header(header: list[str], known: Collection[str], path: Path, line: int) -> None:
    """Raise `DataFormatError` for a column that is not known, or that is there twice."""
    check_keys(dict.fromkeys(header), known, path, line, what="column")
    if len(set(header)) < len(header):
        raise DataFormatError(path, line, f"a column twice in {shown(','.join(header))}", "each column once")


def _by_name(header: list[str], cells: list[str], path: Path, line: int) -> dict[str, str]:
    """A row by its header."""
    if len(cells) != len(header):
        number = "1 field" if len(cells) == 1 else f"{len(cells)} fields"
        raise DataFormatError(path, line, number, f"as many as the header has: {len(header)}")
    return dict(zip(header, cells, strict=True))
