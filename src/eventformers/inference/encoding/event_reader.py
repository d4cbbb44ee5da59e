"""Reader of texts and events: strings, events, frames, tables, columns, and rows of files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
from datasets.iterable_dataset import IterableColumn

from eventformers.datasets_scripts.events import Event
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.reading.fields import check_keys
from eventformers.datasets_scripts.reading.lines import (
    JSON_LINES,
    PLAIN_TEXTS,
    format_suffix,
    parse_json,
    read_lines,
)
from eventformers.datasets_scripts.reading.tables import (
    Header,
    csv_file_rows,
    listed,
    parquet_file_rows,
    rows_of,
    table_kind,
)
from eventformers.errors import DataFormatError, EventformersError, lookalike, shown
from eventformers.files import require_file
from eventformers.models import event_items
from eventformers.models.event_items import ACCEPTED_ITEM, ROLES, is_triple

ACCEPTED_CONTAINERS = (
    "a list or generator of them, a pandas or polars frame or series, an Arrow table or array, a NumPy "
    "array, or a dataset or column of datasets"
)

_MEMORY = Path()
_NO_SEQUENCES = (str, bytes, bytearray, memoryview)
_STREAMS = (datasets.IterableDataset, IterableColumn)


def all_columns(columns: Sequence[str], path: Path) -> Collection[str]:
    """Return every column, each of which must occur once; later, each row checks its names."""
    if len(set(columns)) < len(columns):
        raise DataFormatError(path, None, "a column twice", "each column once")
    return columns


def values_in(items: Any, header: Header, accepted: str) -> Iterable[object]:
    """Return the values of a container; frames, tables and datasets yield a dict for each row.

    Args:
        header: checks the columns of a frame, and chooses those to read.
        accepted: description of accepted input, for the error of another container.
    """
    try:
        if isinstance(items, pd.DataFrame):
            names = [str(name) for name in items.columns]
            wanted = header(names, _MEMORY)
            columns = {}
            for place, name in enumerate(names):
                if name in wanted:
                    column = items.iloc[:, place]
                    known = column.notna()
                    if column.dtype.kind == "f" and not known.all() and (column[known] % 1 == 0).all():
                        # pandas turns whole numbers into floats where a value is missing.
                        column = column.astype("Int64")
                    columns[name] = column.astype(object).where(known, None).tolist()
            return rows_of(columns)
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
    except DataFormatError as error:
        raise EventformersError(
            f"{type(items).__name__}: found {error.found}; accepted: {error.accepted}"
        ) from error
    if isinstance(items, (Sequence, Iterator, *_STREAMS)) and not isinstance(items, _NO_SEQUENCES):
        return cast("Iterable[object]", items)
    raise EventformersError(f"found {type(items).__name__}; accepted: {accepted}")


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


Item: TypeAlias = str | Event
"""An input to encode: a text, or an event with all of its roles."""

EventLike: TypeAlias = Any
"""Texts and events in any form that `values_of` reads."""

FileValue: TypeAlias = tuple[Path, int | None, object]
"""Path and line, for errors, and a value of a file."""

COLUMNS = ("id", "text", "event", *ROLES)
ID_NAMES = ("id", "event_id", "mention_id")
"""Columns with the id of an event, the first one present; the other two are those of our own tables."""

ACCEPTED_COLUMNS = (
    "a column text, a column event with the three roles, or a column predicate with subject and object"
)
ACCEPTED_NAMES = (
    f"the names {', '.join(COLUMNS)}; other names only beside a text, an event or all three roles, where "
    "they are ignored"
)
ACCEPTED_INPUT = f"a text, an event, or {ACCEPTED_CONTAINERS}"
ACCEPTED_FILES = ".jsonl, .json, .csv, .tsv and .txt, each also with .gz or .bz2, and .parquet"

_KNOWN, _ROLES = frozenset(COLUMNS), frozenset(ROLES)
_COMPLETE = frozenset(("text", "event"))


def read_items(items: EventLike) -> list[Item]:
    """Read texts and events; see `values_of` and `item_at` for arguments and errors."""
    return [item_at(value, position) for position, value in enumerate(values_of(items)[0])]


def values_of(items: EventLike) -> tuple[Iterable[object], bool]:
    """Return the texts and events of a container, and True if the input is a single one.

    Args:
        items: a single text, event, row with `text` or `event`, or tuple of three strings; a list, tuple,
            iterator, NumPy array, series, Arrow array or column of these; or a frame, table or dataset with
            the columns of `read_item`. A list of three strings is three texts.

    Raises:
        EventformersError: the type or the columns are not supported.
    """
    if isinstance(items, np.ndarray) and not items.ndim:
        items = items.item()
    if isinstance(items, (str, Mapping)) or (isinstance(items, tuple) and is_triple(items)):
        return [items], True

    def wanted(columns: Sequence[str], path: Path) -> frozenset[str]:
        return _file_columns(columns, path) - {*ID_NAMES}

    return values_in(items, wanted, ACCEPTED_INPUT), False


def item_at(value: object, position: int) -> Item:
    """Read one value of a list; an error, if it is not a text or event or contains no word, names its
    position."""
    try:
        return read_item(value, _MEMORY, None)
    except DataFormatError as error:
        raise EventformersError(
            f"item {position}: found {error.found}; accepted: {error.accepted}"
        ) from error


def read_item(value: object, path: Path, line: int | None) -> Item:
    """Read a text or an event.

    Args:
        value: a text; a tuple or list of three strings: subject, predicate and object; or a row. A row has
            `text`, or `event` with the three roles, or `predicate` with `subject` and `object`; null and an
            absent subject or object are the empty string. In a row with several of these, the first counts.
            Other names beside `text`, `event` or all three roles are ignored.

    Raises:
        DataFormatError: the value is something else, has a name that may be a misspelt role, or contains no
            word.
    """
    try:
        if isinstance(value, Mapping):
            _check_names(value, path, line, "key")
            if "text" not in value and isinstance(roles := value.get("event"), Mapping):
                check_keys(roles, _ROLES, path, line, what="key of the event", complete=True)
        return cast("Item", event_items.read_item(value))
    except event_items.ItemError as error:
        raise DataFormatError(path, line, error.found, error.accepted) from error


def file_values(path: str | Path, skipped: SkippedRows) -> Iterator[FileValue]:
    """Read a file of texts and events, one value at a time, each with path and line for errors.

    The suffix sets the format. A JSON line holds a value that `read_item` accepts; `.json` may also hold one
    list of them. CSV and Parquet files have the columns of `read_item`. Plain text has one text on each line.
    `skipped` is the policy for malformed lines and rows.

    Raises:
        DataFormatError: the file is empty, is not UTF-8, lacks the columns, or a row cannot be read.
        EventformersError: the file cannot be opened, or its suffix is unknown.
    """
    path = Path(path)
    require_file(path, f"a file of events, {ACCEPTED_FILES}")
    kind = format_suffix(path)
    if (
        kind == ".json"
        and next((text.lstrip()[:1] for _, text in read_lines(path) if text.strip()), "") == "["
    ):
        listed_text = "\n".join(text for _, text in read_lines(path))
        values = parse_json(listed_text, path, None, "a JSON list of events")
        return (
            (Path(f"{path}, event {number}"), None, value) for number, value in enumerate(values, start=1)
        )
    if kind in JSON_LINES:
        return skipped.parsed(
            read_lines(path, skipped),
            lambda one: (path, one[0], parse_json(one[1], path, one[0], ACCEPTED_ITEM)),
            "line",
        )
    if table_kind(path) in ("csv", "tsv"):
        rows = csv_file_rows(path, skipped, _file_columns, row="event")
        return ((path, line, row) for line, row in rows)
    if kind in PLAIN_TEXTS:
        return ((path, line, text) for line, text in read_lines(path, skipped))
    if table_kind(path) == "parquet":
        rows = parquet_file_rows(path, _file_columns, row="event", skipped=skipped)
        return ((path, number, row) for number, row in rows)
    raise EventformersError(f"{path}: found the suffix {shown(path.suffix)}; accepted: {ACCEPTED_FILES}")


def _check_names(
    names: Mapping[str, object] | Sequence[str], path: Path, line: int | None, what: str
) -> None:
    """Raise an error for names that may be a misspelt text or role, and for missing names."""
    found = names.keys() if isinstance(names, Mapping) else frozenset(names)
    if found <= _KNOWN and ("predicate" in found or not found.isdisjoint(_COMPLETE)):
        return
    for name in found - _KNOWN:
        if meant := lookalike(str(name), COLUMNS):
            raise DataFormatError(
                path, line, f"the {what} {shown(name)} (did you mean {shown(meant)}?)", ACCEPTED_NAMES
            )
    if not found.isdisjoint(_COMPLETE) or found >= _ROLES:
        return
    if not found.isdisjoint(_ROLES):
        # An absent role may be present under another name.
        try:
            check_keys({str(name): None for name in names}, _KNOWN, path, line, what=what, complete=True)
        except DataFormatError as error:
            raise DataFormatError(path, line, error.found, ACCEPTED_NAMES) from error
    listed = shown(", ".join(map(str, names)))[1:-1] if names else "none"
    raise DataFormatError(path, line, f"the {what}s {listed}", ACCEPTED_COLUMNS)


def _file_columns(columns: Sequence[str], path: Path) -> frozenset[str]:
    _check_names(columns, path, 1, "column")
    repeated = sorted({name for name in columns if columns.count(name) > 1})
    if repeated:
        raise DataFormatError(path, 1, f"the column {shown(repeated[0])} twice", "each column once")
    return _KNOWN | {*ID_NAMES}
