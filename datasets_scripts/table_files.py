"""Rows of CSV and Parquet files by column, for readers that choose the columns from the header."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, cast

import pyarrow as pa
import pyarrow.parquet as pq

from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.raw_files import read_lines
from eventformers.errors import DataFormatError

Header: TypeAlias = Callable[[Sequence[str], Path], Collection[str]]
"""Checks the names of columns, and returns those to read."""

NumberedRow: TypeAlias = tuple[int, dict[str, object]]
"""The line of a row in a CSV file, or its number from 1 in a Parquet file; and its values by column."""

BLOCK_ROWS = 8_192
"""Number of rows of a Parquet file read at a time."""


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


def csv_file_rows(
    path: Path,
    delimiter: str,
    skipped: SkippedRows,
    header: Header,
    *,
    row: str,
    longest_field: int | None = None,
) -> Iterator[NumberedRow]:
    """Read the rows of a CSV file with a header. A quoted field may have several lines.

    Args:
        path: the file.
        delimiter: the character between two fields.
        skipped: policy for malformed rows.
        header: checks the columns, and chooses those to read.
        row: name of a row, for errors, such as "event".
        longest_field: maximum number of characters of a field; None uses the limit of Python.

    Raises:
        DataFormatError: the file is empty, is not UTF-8, has no row, is not CSV, or `header` rejects its
            columns.
    """
    line = 0

    def lines() -> Iterator[str]:
        nonlocal line
        for number, text in read_lines(path, skipped):
            line = number
            yield f"{text}\n"

    limit = csv.field_size_limit() if longest_field is None else longest_field
    reader = csv.reader(lines(), delimiter=delimiter, strict=True)

    def next_cells() -> list[str] | None:
        # The limit is a global setting of Python, which other readers may rely on.
        own = csv.field_size_limit(limit)
        try:
            return next(reader, None)
        finally:
            csv.field_size_limit(own)

    try:
        # All rows were skipped, so there is no line to name.
        names = [name.strip() for name in next_cells() or []]
        wanted = header(names, path)
        empty = True
        while (cells := next_cells()) is not None:
            if len(cells) != len(names):
                accepted = f"{len(names)} columns, as in the header"
                skipped.leave_out(DataFormatError(path, line, f"{len(cells)} columns", accepted), "row")
                continue
            empty = False
            yield line, {name: cell for name, cell in zip(names, cells, strict=True) if name in wanted}
    except csv.Error as error:
        raise DataFormatError(
            path,
            line,
            f"broken CSV ({error})",
            f"CSV with quotes closed and fields of at most {limit:,} characters",
        ) from error
    if empty:
        raise DataFormatError(path, None, "a header without rows", f"at least one {row}")


def parquet_file_rows(path: Path, header: Header, *, row: str) -> Iterator[NumberedRow]:
    """Read the rows of a Parquet file in blocks.

    Args:
        path: the file.
        header: checks the columns, and chooses those to read.
        row: name of a row, for errors, such as "event".

    Raises:
        DataFormatError: the file is not Parquet, has no row or unreadable values, or `header` rejects its
            columns.
    """
    try:
        with pq.ParquetFile(path) as file:
            names = list(file.schema_arrow.names)
            chosen = header(names, path)
            if not file.metadata.num_rows:
                raise DataFormatError(path, None, "no rows", f"at least one {row}")
            wanted = [name for name in names if name in chosen]
            read = 0
            for batch in file.iter_batches(batch_size=BLOCK_ROWS, columns=wanted):
                of_batch = {
                    name: listed(column, path, read + 1)
                    for name, column in zip(batch.schema.names, batch.columns, strict=True)
                }
                yield from enumerate(rows_of(of_batch), start=read + 1)
                read += len(batch)
    except (pa.ArrowException, OSError) as error:
        found = "an empty file" if not path.stat().st_size else f"no Parquet ({str(error).splitlines()[0]})"
        raise DataFormatError(path, None, found, "a Parquet file") from error
