"""Readers of containers in memory: lists, frames, series, Arrow tables and arrays, datasets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
from datasets.iterable_dataset import IterableColumn

from eventformers.datasets_scripts.table_files import Header, listed, rows_of
from eventformers.errors import DataFormatError, EventformersError

ACCEPTED_CONTAINERS = (
    "a list or generator of them, a pandas or polars frame or series, an Arrow table or array, a NumPy "
    "array, or a dataset or column of datasets"
)

_MEMORY = Path()
_NO_SEQUENCES = (str, bytes, bytearray, memoryview)
_STREAMS = (datasets.IterableDataset, IterableColumn)


def all_columns(columns: Sequence[str], path: Path) -> Collection[str]:
    """Return every column; later, each row checks its names.

    Raises:
        DataFormatError: a column occurs twice.
    """
    if len(set(columns)) < len(columns):
        raise DataFormatError(path, None, "a column twice", "each column once")
    return columns


def values_in(items: object, header: Header, accepted: str) -> Iterable[object]:
    """Return the values of a container; frames, tables and datasets yield a dict for each row.

    Args:
        items: the container.
        header: checks the columns of a frame, and chooses those to read.
        accepted: description of accepted input, for errors.

    Raises:
        EventformersError: the container's type is not supported, or `header` rejects its columns.
    """
    try:
        return _values(items, header, accepted)
    except DataFormatError as error:
        raise EventformersError(
            f"{type(items).__name__}: found {error.found}; accepted: {error.accepted}"
        ) from error


def _values(items: Any, header: Header, accepted: str) -> Iterable[object]:
    if isinstance(items, pd.DataFrame):
        return _frame_rows(items, header)
    if isinstance(items, (pd.Series, pd.Index)) or (isinstance(items, np.ndarray) and items.ndim):
        return cast("list[object]", items.tolist())
    if isinstance(items, datasets.Dataset):
        wanted = header(items.column_names, _MEMORY)
        of_dataset = [name for name in items.column_names if name in wanted]
        items = items.select_columns(of_dataset).with_format("arrow")[:]
    if isinstance(items, pa.ChunkedArray) or hasattr(items, "__arrow_c_stream__"):
        return _arrow_values(pa.chunked_array(items), header)
    if hasattr(items, "__arrow_c_array__"):
        return _arrow_values(pa.chunked_array([pa.array(items)]), header)
    if isinstance(items, (Sequence, Iterator, *_STREAMS)) and not isinstance(items, _NO_SEQUENCES):
        return cast("Iterable[object]", items)
    raise EventformersError(f"found {type(items).__name__}; accepted: {accepted}")


def _frame_rows(frame: Any, header: Header) -> Iterator[dict[str, object]]:
    names = [str(name) for name in frame.columns]
    wanted = header(names, _MEMORY)
    columns = {}
    for place, name in enumerate(names):
        if name in wanted:
            column = frame.iloc[:, place]
            known = column.notna()
            if column.dtype.kind == "f" and not known.all() and (column[known] % 1 == 0).all():
                # pandas turns whole numbers into floats where a value is missing.
                column = column.astype("Int64")
            columns[name] = column.astype(object).where(known, None).tolist()
    return rows_of(columns)


def _arrow_values(column: pa.ChunkedArray, header: Header) -> Iterable[object]:
    if not pa.types.is_struct(column.type):
        return (value for chunk in column.chunks for value in listed(chunk, _MEMORY, None))
    names = [field.name for field in column.type]
    wanted = header(names, _MEMORY)
    return (
        row
        for chunk in column.chunks
        for row in rows_of(
            {
                name: listed(field, _MEMORY, None)
                for name, field in zip(names, chunk.flatten(), strict=True)
                if name in wanted
            }
        )
    )
