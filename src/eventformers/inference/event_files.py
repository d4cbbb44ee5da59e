"""Files of events in, a Parquet file of vectors out: streaming, in order, with ids."""

from __future__ import annotations

import csv
import json
import os
import tempfile
import time
from array import array
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from eventformers.datasets_scripts.events import Event, EventOrder, event_text
from eventformers.datasets_scripts.raw_files import read_lines
from eventformers.errors import DataFormatError, EventformersError
from eventformers.files import temporary_beside
from eventformers.inference.encode import EventEncoder, as_encoder
from eventformers.inference.onnx_runtime import load_onnx_encoder

ROLES = ("subject", "predicate", "object")

ACCEPTED_COLUMNS = (
    "a column text, a column event with the three roles, or a column predicate with subject and object"
)

ACCEPTED_FILES = ".jsonl, .json, .csv, .tsv and .txt, each also with .gz, and .parquet"

BLOCK_ROWS = 8_192
"""Rows that are read or written at a time: bounds the memory for vectors."""


@dataclass(frozen=True)
class EventRow:
    """One row of a file of events.

    Attributes:
        id: the row's `id`, or its number from 0 where the file has none.
        text: the event's text.
        event: its roles; None where the file has its text alone.
    """

    id: str
    text: str
    event: Event | None = None

    @property
    def item(self) -> str | Event:
        """What is encoded: the event, or the text where there are no roles."""
        return self.text if self.event is None else self.event


@dataclass(frozen=True)
class EmbedReport:
    """What `embed_file` did.

    Attributes:
        output: the file written.
        rows: number of events.
        distinct: number of distinct texts, each encoded once.
        truncated: number of distinct texts that were longer than the model takes, and were cut.
        dimension: size of the vectors.
        seconds: time for encoding and writing.
    """

    output: Path
    rows: int
    distinct: int
    truncated: int
    dimension: int
    seconds: float


def read_event_rows(path: str | Path, order: EventOrder = "subject_predicate_object") -> Iterator[EventRow]:
    """Read the events of a file, one at a time.

    The suffix tells the format. JSON lines hold objects, CSV files a header: `text`, or `event` with the
    three roles, or `predicate` with `subject` and `object`, and perhaps `id`. Plain text holds an event on
    each line.

    Args:
        path: the file.
        order: order in which roles become text.

    Raises:
        DataFormatError: the file is empty, is not UTF-8, lacks the columns, or a row cannot be read or has no
            word.
        EventformersError: the file cannot be opened, or its suffix is unknown.
    """
    path = Path(path)
    if not path.is_file():
        raise EventformersError(f"{path}: no such file; accepted: a file of events, {ACCEPTED_FILES}")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    kind = suffixes[-2] if len(suffixes) > 1 and suffixes[-1] == ".gz" else suffixes[-1] if suffixes else ""
    if kind in (".jsonl", ".json"):
        records = _json_records(path)
    elif kind in (".csv", ".tsv"):
        records = _csv_records(path, "\t" if kind == ".tsv" else ",")
    elif kind == ".txt":
        records = ((line, {"text": text}) for line, text in read_lines(path))
    elif kind == ".parquet" and suffixes[-1] == ".parquet":
        records = _parquet_records(path)
    else:
        raise EventformersError(f"{path}: found the suffix {path.suffix!r}; accepted: {ACCEPTED_FILES}")
    return (
        _event_row(_row_id(record, number, path, line), record, order, path, line)
        for number, (line, record) in enumerate(records)
    )


def embed_file(
    model: str | Path | EventEncoder | None,
    input: str | Path,
    output: str | Path,
    *,
    batch_size: int | Literal["auto"] = "auto",
    normalize: bool = False,
    show_progress: bool = False,
    pooling: str | None = None,
    event_order: str | None = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    onnx: bool = False,
) -> EmbedReport:
    """Encode the events of a file into a Parquet file with the columns `id`, `text` and `embedding`.

    The input is read twice: first whole, so that a bad row is told before the work; then for writing. Each
    distinct text is encoded once over the whole file; the vectors wait in a temporary file on disk.

    Args:
        model: folder or Hub id of a model of this suite or of any plain encoder, None for the packaged
            all-MiniLM-L6-v2, or an encoder that is loaded.
        input: the file of events; see `read_event_rows`.
        output: the Parquet file, replaced as a whole or not at all.
        batch_size: texts of a batch at most; `auto` fills batches by their number of tokens.
        normalize: scale every vector to length 1.
        show_progress: draw a progress bar on standard error.
        pooling: `cls` or `mean` against the model's own.
        event_order: a key of `EVENT_ORDERS` against the model's own.
        device: a torch device; None takes an accelerator where there is one.
        dtype: `float32`, `bfloat16` or `float16`; None takes the one of the saved weights.
        onnx: compute by ONNX Runtime, on the CPU and in float32; see `load_onnx_encoder`.

    Raises:
        DataFormatError: the input cannot be read.
        EventformersError: the model cannot be loaded, settings of loading are given for an encoder that is
            loaded, the output cannot be written, the input changed in the meantime, or ONNX is asked for
            where it is not to be had.
    """
    source, target = Path(input), Path(output)
    if target.suffix.lower() != ".parquet":
        raise EventformersError(f"{target}: found the suffix {target.suffix!r}; accepted: .parquet")
    if target.is_dir():
        raise EventformersError(f"{target}: a folder; accepted: a file to write")
    if onnx:
        encoder = _onnx_encoder(model, pooling, event_order, device, dtype)
    else:
        encoder = as_encoder(model, pooling=pooling, event_order=event_order, device=device, dtype=dtype)
    rows = read_event_rows(source, encoder.event_order)
    state = _state(source)
    inputs = encoder.inputs()
    index: dict[Hashable, int] = {}
    items: list[str | Event] = []
    positions = array("q")
    for number, row in enumerate(rows):
        # Where roles are not read, the text alone is held: it is what is encoded, and it is smaller.
        item = row.item if encoder.reads_chains else row.text
        position = index.setdefault(inputs.key(item, number), len(index))
        positions.append(position)
        if position == len(items):
            items.append(item)
    started = time.perf_counter()
    temporary = temporary_beside(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=target.parent) as store:
            truncated = _encode_to(
                store,
                encoder,
                items,
                batch_size=batch_size,
                normalize=normalize,
                show_progress=show_progress,
            )
            del index, items
            vectors = np.memmap(store, dtype=np.float32, mode="r").reshape(-1, encoder.dimension)
            rows = read_event_rows(source, encoder.event_order)
            try:
                _write_parquet(temporary, rows, positions, vectors, encoder)
                if _state(source) != state:
                    raise EventformersError(f"{source} changed while it was encoded; nothing was written")
                os.replace(temporary, target)
            finally:
                temporary.unlink(missing_ok=True)
    except OSError as error:
        raise EventformersError(f"cannot write {target}: {error.strerror or error}") from error
    return EmbedReport(
        output=target,
        rows=len(positions),
        distinct=len(vectors),
        truncated=truncated,
        dimension=encoder.dimension,
        seconds=time.perf_counter() - started,
    )


def _onnx_encoder(
    model: str | Path | EventEncoder | None,
    pooling: str | None,
    event_order: str | None,
    device: str | torch.device | None,
    dtype: str | torch.dtype | None,
) -> EventEncoder:
    if isinstance(model, EventEncoder):
        raise EventformersError(
            f"{model.name}: an encoder that is loaded; accepted with ONNX: the name of a model, or what "
            "load_onnx_encoder gives without onnx=True"
        )
    # "cuda" and "float16" cannot be granted, and nothing else than what was asked for is to be computed.
    for name, asked, accepted in (("device", device, "cpu"), ("dtype", dtype, "float32")):
        if asked is not None and str(asked).removeprefix("torch.") != accepted:
            raise EventformersError(f"{name} is {str(asked)!r} with ONNX; accepted: {accepted}")
    return load_onnx_encoder(model, pooling=pooling, event_order=event_order)


def _encode_to(
    store: BinaryIO,
    encoder: EventEncoder,
    items: Sequence[str | Event],
    *,
    batch_size: int | Literal["auto"],
    normalize: bool,
    show_progress: bool,
) -> int:
    """Append the vectors of texts and events to a file, block by block; the number of those that were cut."""
    truncated = 0
    block = 8 * BLOCK_ROWS
    for start in range(0, len(items), block):
        vectors = encoder.encode(
            items[start : start + block],
            batch_size=batch_size,
            normalize=normalize,
            show_progress=show_progress,
        )
        truncated += encoder.truncated
        # Not through a writable memory map: a full disk would kill the process instead of raising an error.
        store.write(vectors.tobytes())
    store.flush()
    return truncated


def _write_parquet(
    path: Path,
    rows: Iterator[EventRow],
    positions: Sequence[int],
    vectors: np.ndarray,
    encoder: EventEncoder,
) -> None:
    embedding = pa.list_(pa.float32(), encoder.dimension)
    schema = pa.schema(
        [("id", pa.string()), ("text", pa.string()), ("embedding", embedding)],
        metadata={
            "model": encoder.name,
            "model_revision": encoder.revision or "",
            "event_order": encoder.event_order,
        },
    )
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, len(positions), BLOCK_ROWS):
            chosen = np.asarray(positions[start : start + BLOCK_ROWS])
            block = [row for _, row in zip(chosen, rows, strict=False)]
            values = pa.array(vectors[chosen[: len(block)]].ravel())
            writer.write_table(
                pa.table(
                    [
                        pa.array([row.id for row in block], pa.string()),
                        pa.array([row.text for row in block], pa.string()),
                        pa.FixedSizeListArray.from_arrays(values, type=embedding),
                    ],
                    schema=schema,
                )
            )


def _state(path: Path) -> tuple[int, int]:
    """What changes with a file's content: its size and its time of change."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _json_records(path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    accepted = (
        'an object in JSON such as {"id": 7, "subject": "police", "predicate": "arrested", "object": "man"}'
    )
    for number, line in read_lines(path):
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataFormatError(path, number, f"no JSON ({error.msg})", accepted) from error
        if not isinstance(record, dict):
            raise DataFormatError(path, number, f"a JSON {type(record).__name__}", accepted)
        yield number, record


def _csv_records(path: Path, delimiter: str) -> Iterator[tuple[int, Mapping[str, object]]]:
    reader = csv.reader((f"{line}\n" for _, line in read_lines(path)), delimiter=delimiter, strict=True)
    try:
        header = [name.strip() for name in next(reader)]
        _check_columns(header, path)
        empty = True
        for cells in reader:
            if len(cells) != len(header):
                raise DataFormatError(
                    path, reader.line_num, f"{len(cells)} columns", f"{len(header)} columns, as in the header"
                )
            empty = False
            yield reader.line_num, dict(zip(header, cells, strict=True))
    except csv.Error as error:
        raise DataFormatError(
            path, reader.line_num, f"broken CSV ({error})", "CSV with quotes closed"
        ) from error
    if empty:
        raise DataFormatError(path, None, "a header without rows", "at least one event")


def _parquet_records(path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    try:
        with pq.ParquetFile(path) as file:
            columns = list(file.schema_arrow.names)
            _check_columns(columns, path)
            if not file.metadata.num_rows:
                raise DataFormatError(path, None, "no rows", "at least one event")
            wanted = [name for name in ("id", "text", "event", *ROLES) if name in columns]
            number = 0
            for batch in file.iter_batches(batch_size=BLOCK_ROWS, columns=wanted):
                for record in batch.to_pylist():
                    number += 1
                    yield number, record
    except pa.ArrowInvalid as error:
        found = "an empty file" if not path.stat().st_size else f"no Parquet ({str(error).splitlines()[0]})"
        raise DataFormatError(path, None, found, "a Parquet file") from error


def _check_columns(columns: Sequence[str], path: Path) -> None:
    if not {"text", "event", "predicate"} & set(columns):
        raise DataFormatError(path, 1, f"the columns {', '.join(columns) or 'none'}", ACCEPTED_COLUMNS)
    repeated = sorted({name for name in columns if columns.count(name) > 1})
    if repeated:
        raise DataFormatError(path, 1, f"the column {repeated[0]} twice", "each column once")


def _row_id(record: Mapping[str, object], number: int, path: Path, line: int) -> str:
    value = record.get("id", number)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise DataFormatError(path, line, f"the id {value!r}", "a string or an integer")
    return str(value)


def _event_row(
    row_id: str, record: Mapping[str, object], order: EventOrder, path: Path, line: int
) -> EventRow:
    event = None
    if "text" in record:
        text = record["text"]
        if not isinstance(text, str):
            raise DataFormatError(path, line, f"the text {text!r}", "a string")
    else:
        roles = record.get("event", record)
        if not isinstance(roles, Mapping) or not set(ROLES) & set(roles):
            found = f"the fields {', '.join(map(str, record)) or 'none'}"
            raise DataFormatError(path, line, found, ACCEPTED_COLUMNS)
        values = {role: "" if roles.get(role) is None else roles[role] for role in ROLES}
        for role, value in values.items():
            if not isinstance(value, str):
                raise DataFormatError(path, line, f"the {role} {value!r}", "a string")
        event = cast(Event, {role: " ".join(str(value).split()) for role, value in values.items()})
        text = event_text(event, order)
    text = " ".join(text.split())
    if not text:
        raise DataFormatError(path, line, "an event without any word", "at least one word")
    return EventRow(row_id, text, event)
