"""Rows of comma-separated and tab-separated tables, by the names of their columns."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.raw_files import check_keys, read_rows
from eventformers.errors import DataFormatError, shown

ACCEPTED_CSV = "a line of comma-separated fields, where a field that begins with a quote also ends with one"
ACCEPTED_TABLE = "a header and rows, separated by tabs"

Row = TypeVar("Row")


def parsed_rows(
    rows: Iterable[tuple[int, Any]],
    parse: Callable[[int, Any], Row],
    skipped: SkippedRows,
    whole: str = "row",
) -> Iterator[Row]:
    """Parse lines and their values; skip malformed rows if the policy of `skipped` allows it.

    Raises:
        DataFormatError: a row is malformed, and the policy is `error`.
    """
    return skipped.parsed(rows, lambda row: parse(*row), whole)


def table_rows(
    path: Path, skipped: SkippedRows, needed: Collection[str], known: Collection[str]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Read the rows of a tab-separated table by its header, with their line numbers. Quotes have no special
    meaning.

    Args:
        path: the file.
        skipped: count of blank lines, and policy for malformed rows.
        needed: the required columns.
        known: the allowed columns.

    Raises:
        DataFormatError: the header lacks a column or has an unknown one, or a row has a wrong number of
            fields.
    """
    rows = read_rows(path, skipped)
    line, text = next(rows, (None, ""))
    if line is None:
        raise DataFormatError(path, None, "only blank lines", ACCEPTED_TABLE)
    header = text.split("\t")
    if missing := [name for name in needed if name not in header]:
        raise DataFormatError(path, line, f"the columns {shown(', '.join(header))}", f"a column {missing[0]}")
    _check_header(header, known, path, line)
    yield from parsed_rows(
        rows, lambda line, text: (line, _by_name(header, text.split("\t"), path, line)), skipped
    )


def columns_of(
    row: Collection[str], needed: Sequence[tuple[str, ...]], path: Path, line: int
) -> tuple[str, ...]:
    """Return the first of the sets in `needed` whose columns a row has.

    Raises:
        DataFormatError: no set fits.
    """
    columns = next((names for names in needed if set(names) <= set(row)), None)
    if columns is None:
        accepted = " or ".join(",".join(names) for names in needed)
        raise DataFormatError(path, line, f"the columns {shown(','.join(row))}", accepted)
    return columns


def csv_cells(text: str, path: Path, line: int) -> list[str]:
    """Parse a row of CSV as one line, so that an unclosed quote does not swallow further rows.

    Raises:
        DataFormatError: the line is not CSV.
    """
    try:
        return next(csv.reader([text], strict=True), [])
    except csv.Error as error:
        accepted = f"{ACCEPTED_CSV}; at most {csv.field_size_limit():,} characters in a field"
        raise DataFormatError(path, line, f"invalid CSV ({error})", accepted) from error


def _check_header(header: list[str], known: Collection[str], path: Path, line: int) -> None:
    check_keys(dict.fromkeys(header), known, path, line, what="column")
    if len(set(header)) < len(header):
        raise DataFormatError(path, line, f"a column twice in {shown(','.join(header))}", "each column once")


def _by_name(header: list[str], cells: list[str], path: Path, line: int) -> dict[str, str]:
    if len(cells) != len(header):
        number = "1 field" if len(cells) == 1 else f"{len(cells)} fields"
        raise DataFormatError(path, line, number, f"as many as the header has: {len(header)}")
    return dict(zip(header, cells, strict=True))
