"""Streaming encoding of a file of events into a Parquet file of vectors, in order and with ids."""

from __future__ import annotations

import json
import tempfile
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from eventformers.datasets_scripts.events import Event, EventOrder, event_text
from eventformers.datasets_scripts.malformed import SkippedRows, takes_malformed
from eventformers.errors import DataFormatError, EventformersError, shown
from eventformers.files import output_file, replaced_file, write_explained
from eventformers.inference.encode import EventEncoder, opened_encoder
from eventformers.inference.encoding.event_reader import ID_NAMES, ROLES, FileValue, file_values, read_item
from eventformers.inference.encoding.onnx_runtime import load_onnx_encoder
from eventformers.inference.encoding.precision import (
    RANGES_KEY,
    Ranges,
    needs_ranges,
    quantized,
    ranges_of,
    read_ranges,
)
from eventformers.inference.encoding.vectors import Positions, Vectors, rows_at
from eventformers.locks import one_writer

BLOCK_ROWS = 8_192
"""Number of rows written at a time; eight times as many are read and encoded together."""


@dataclass(frozen=True)
class EventRow:
    """One row of a file of events: its `id`, or its number from 0 if the file has no ids, its text, and its
    roles; None if the file has only its text."""

    id: str
    text: str
    event: Event | None = None

    @property
    def item(self) -> str | Event:
        """The input to encode: the event, or the text if there are no roles."""
        return self.text if self.event is None else self.event


@dataclass(frozen=True)
class EmbedReport:
    """Summary of a run of `embed_file`.

    Attributes:
        distinct: number of distinct texts, each encoded once.
        truncated: number of distinct texts that exceeded the model's maximum length and were truncated.
        seconds: time for encoding and writing.
        left_out: number of malformed lines and rows that were skipped.
    """

    output: Path
    rows: int
    distinct: int
    truncated: int
    dimension: int
    seconds: float
    left_out: int = 0


def read_event_rows(
    path: str | Path, order: EventOrder = "subject_predicate_object", skipped: SkippedRows | None = None
) -> Iterator[EventRow]:
    """Read the events of a file, one at a time, with the roles of a text in an order.

    See `file_values` for the formats of files, for errors and for `skipped`, None of which is the policy in
    force, and `read_item` for the formats of rows. A row may have an `id`.
    """

    def row(number: int, value: FileValue) -> EventRow:
        path, line, content = value
        row_id = number
        if isinstance(content, Mapping):
            row_id = next((content[name] for name in ID_NAMES if name in content), number)
        if isinstance(row_id, bool) or not isinstance(row_id, (str, int)):
            raise DataFormatError(path, line, f"the id {shown(row_id)}", "a string or an integer")
        item = read_item(content, path, line)
        if isinstance(item, str):
            return EventRow(str(row_id), " ".join(item.split()))
        event = cast(Event, {role: " ".join(item[role].split()) for role in ROLES})
        return EventRow(str(row_id), event_text(event, order), event)

    skipped = SkippedRows() if skipped is None else skipped
    return skipped.parsed_rows(enumerate(file_values(path, skipped)), row)


@takes_malformed
def embed_file(
    model: str | Path | EventEncoder | None,
    input: str | Path,
    output: str | Path,
    *,
    batch_size: int | Literal["auto"] = "auto",
    normalize: bool = False,
    show_progress: bool = False,
    prompt_name: str | None = "event",
    pooling: str | None = None,
    event_order: str | None = None,
    truncate_dim: int | None = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    devices: Sequence[str | torch.device] | None = None,
    onnx: bool = False,
    malformed: str | None = None,
    precision: str = "float32",
    ranges: str | Path | npt.ArrayLike | None = None,
) -> EmbedReport:
    """Encode the events of a file into a Parquet file with the columns `id`, `text` and `embedding`.

    For arguments that are not listed see `encode` and `induce`.

    The input is read twice: the first pass reports bad rows before any encoding, the second encodes and
    writes block by block. Each distinct text of the file is encoded once. Memory holds a number for each row,
    a temporary file on disk the vectors.

    Args:
        input: the file of events; see `read_event_rows`.
        output: the Parquet file, replaced atomically.
        onnx: compute with ONNX Runtime, on the CPU and in float32; see `load_onnx_encoder`.
        precision: precision of `embedding`, which has ⌈d / 8⌉ bytes for `binary` and `ubinary`; see
            `encode`. The file's metadata state it, and for `int8` and `uint8` also the ranges.
        ranges: ranges for `int8` and `uint8`, or another file with them; None uses those of the distinct
            texts of this file.

    Raises:
        DataFormatError: the input cannot be read.
        UnknownNameError: the precision is unknown.
        EventformersError: the model cannot be loaded, loading settings are given for a loaded encoder, the
            output cannot be written, the input changed in the meantime, the ranges do not fit, or ONNX does
            not support the model or a setting.
    """
    divides = needs_ranges(precision)
    source, target = Path(input), Path(output)
    if target.suffix.lower() != ".parquet":
        raise EventformersError(f"{target}: found the suffix {shown(target.suffix)}; accepted: .parquet")
    output_file(target)
    settings: dict[str, Any] = {
        "pooling": pooling,
        "event_order": event_order,
        "truncate_dim": truncate_dim,
        "device": device,
        "dtype": dtype,
    }
    with (
        one_writer(target),
        nullcontext(_onnx_encoder(model, devices, **settings))
        if onnx
        else opened_encoder(model, devices, **settings) as encoder,
    ):
        known = read_ranges(ranges, precision, encoder.dimension, encoder.described(normalize))
        skipped = SkippedRows()
        rows = read_event_rows(source, encoder.event_order, skipped)
        state = _state(source)
        # A model that reads no roles encodes only the text.
        item_of = attrgetter("item" if encoder.reads_chains else "text")
        key = encoder.inputs(prompt_name).key
        # A key would take 0.3 kB. Two of 10 million keys share a hash of 64 bits with a probability of 3 in a
        # million.
        hashes = array("q", (hash(key(item_of(row), number)) for number, row in enumerate(rows)))
        positions, values = pd.factorize(np.asarray(hashes))
        distinct = len(values)
        if not distinct:
            raise DataFormatError(source, None, "malformed rows alone", "at least one event")
        skipped.warn()
        truncated = 0

        def encode(new: Sequence[EventRow]) -> Vectors:
            nonlocal truncated
            encoded = encoder.encode(
                [item_of(row) for row in new],
                batch_size=batch_size,
                normalize=normalize,
                show_progress=show_progress,
                prompt_name=prompt_name,
            )
            truncated += encoder.truncated
            return encoded

        started = time.perf_counter()
        with (
            write_explained(target),
            replaced_file(target) as temporary,
            tempfile.TemporaryFile(dir=temporary.parent) as store,
        ):
            store.truncate(4 * distinct * encoder.dimension)
            vectors = np.memmap(store, np.float32, "r", shape=(distinct, encoder.dimension))
            # The memory map moves to the end of the file.
            store.seek(0)
            rows = read_event_rows(source, encoder.event_order, skipped.uncounted())
            rows = _encoded_rows(rows, positions, encode, store)
            if divides and known is None:
                # The ranges are those of all vectors, so a third pass writes.
                deque(rows, maxlen=0)
                known = ranges_of(vectors)
                rows = read_event_rows(source, encoder.event_order, skipped.uncounted())
            made = {**encoder.described(normalize), "precision": precision}
            _write_parquet(temporary, rows, positions, vectors, made, known)
            if _state(source) != state:
                raise EventformersError(f"{source} changed while it was encoded; nothing was written")
        return EmbedReport(
            output=target,
            rows=len(positions),
            distinct=distinct,
            truncated=truncated,
            dimension=encoder.dimension,
            seconds=time.perf_counter() - started,
            left_out=skipped.num_malformed,
        )


def _onnx_encoder(
    model: str | Path | EventEncoder | None,
    devices: Sequence[str | torch.device] | None,
    *,
    device: str | torch.device | None,
    dtype: str | torch.dtype | None,
    **settings: Any,
) -> EventEncoder:
    if devices is not None:
        raise EventformersError("received devices and onnx; accepted: one of them")
    if isinstance(model, EventEncoder):
        raise EventformersError(
            f"{model.name} is a loaded encoder; accepted with onnx=True: the name of a model; or pass the "
            "result of load_onnx_encoder without onnx=True"
        )
    # ONNX supports neither "cuda" nor "float16", and a silent fallback would compute something else.
    for name, asked, accepted in (("device", device, "cpu"), ("dtype", dtype, "float32")):
        if asked is not None and str(asked).removeprefix("torch.") != accepted:
            raise EventformersError(f"{name} is {shown(str(asked))} with ONNX; accepted: {accepted}")
    return load_onnx_encoder(model, **settings)


def _encoded_rows(
    rows: Iterator[EventRow],
    positions: Positions,
    encode: Callable[[Sequence[EventRow]], Vectors],
    store: BinaryIO,
) -> Iterator[EventRow]:
    """Yield rows block by block, each block after the vectors of its new texts were appended to the file
    `store`.

    Args:
        positions: the number of each row's text, `(rows,)`, in the order of first occurrence.
    """
    encoded, size = 0, 8 * BLOCK_ROWS
    for start in range(0, len(positions), size):
        chosen = positions[start : start + size]
        block = list(islice(rows, len(chosen)))
        new: list[EventRow] = []
        # Not strict: a file that becomes shorter is reported after all passes.
        for row, position in zip(block, chosen.tolist(), strict=False):
            if position == encoded + len(new):
                new.append(row)
        if new:
            # With a writable memory map, a full disk would kill the process instead of raising an error.
            store.write(encode(new).tobytes())
            store.flush()
            encoded += len(new)
        yield from block


def _write_parquet(
    path: Path,
    rows: Iterator[EventRow],
    positions: Positions,
    vectors: np.ndarray,
    metadata: dict[str, str],
    ranges: Ranges | None,
) -> None:
    precision = metadata["precision"]
    like = quantized(vectors[:1], precision, ranges)
    embedding = pa.list_(pa.from_numpy_dtype(like.dtype), like.shape[1])
    if ranges is not None:
        metadata = {**metadata, RANGES_KEY: json.dumps(ranges.tolist())}
    schema = pa.schema(
        [("id", pa.string()), ("text", pa.string()), ("embedding", embedding)], metadata=metadata
    )
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, len(positions), BLOCK_ROWS):
            chosen = positions[start : start + BLOCK_ROWS]
            block = [row for _, row in zip(chosen, rows, strict=False)]
            values = pa.array(quantized(rows_at(vectors, chosen[: len(block)]), precision, ranges).ravel())
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
    """Return a file's size and modification time, which change with its content."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns
