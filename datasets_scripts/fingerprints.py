"""Fingerprints of the inputs of a dataset, and of its rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datasets import Dataset, DatasetDict

from eventformers.files import file_digest

_BLOCK_ROWS = 4096


def input_fingerprint(
    raw_files: Iterable[Path], modules: Iterable[ModuleType], settings: Mapping[str, object]
) -> str:
    """SHA-256 over the bytes of the raw files, the source code of the modules and the settings.

    It includes file names but not folders: the same files elsewhere have the same fingerprint.
    """
    parts = {
        "files": [[path.name, file_digest(path)] for path in raw_files],
        "code": [
            file_digest(Path(str(module.__file__)))
            for module in sorted(modules, key=lambda module: module.__name__)
        ],
        "settings": {name: settings[name] for name in sorted(settings)},
    }
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()


def dataset_fingerprint(dataset: Dataset | DatasetDict) -> str:
    """SHA-256 over the column names and values of a dataset, in bounded blocks of rows.

    It depends only on the rows: not on the location of the dataset, its division into files, or the version
    of a library that wrote it. For a `DatasetDict` it includes the names of the splits.
    """
    if isinstance(dataset, DatasetDict):
        return joint_fingerprint({name: dataset_fingerprint(rows) for name, rows in dataset.items()})
    rows = dataset.with_format("arrow")
    starts = range(0, len(dataset), _BLOCK_ROWS)
    return _fingerprint(dataset.column_names, (rows[start : start + _BLOCK_ROWS] for start in starts))


def parquet_fingerprint(path: Path) -> str:
    """The `dataset_fingerprint` of the rows of a Parquet file, without a copy of them in a cache."""

    def blocks(file: pq.ParquetFile) -> Iterator[pa.Table]:
        # Row groups and their pages have other sizes.
        held = file.schema_arrow.empty_table()
        for batch in file.iter_batches(_BLOCK_ROWS):
            held = pa.concat_tables([held, pa.Table.from_batches([batch])])
            while len(held) >= _BLOCK_ROWS:
                yield held[:_BLOCK_ROWS]
                held = held[_BLOCK_ROWS:]
        if len(held):
            yield held

    with pq.ParquetFile(path) as file:
        return _fingerprint(file.schema_arrow.names, blocks(file))


def _fingerprint(names: Iterable[str], blocks: Iterable[pa.Table]) -> str:
    names = sorted(names)
    digest = hashlib.sha256(json.dumps(names).encode())
    for block in blocks:
        for name in names:
            _update(digest, block[name].combine_chunks())
    return digest.hexdigest()


def joint_fingerprint(split_fingerprints: Mapping[str, str]) -> str:
    """The fingerprint of a `DatasetDict` from those of its splits."""
    lines = [f"{name}:{split_fingerprints[name]}" for name in sorted(split_fingerprints)]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _update(digest: hashlib._Hash, values: pa.Array | pa.ChunkedArray) -> None:
    """Add the values of an array to the digest: lengths, then bytes, type by type."""
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
    digest.update(f"{len(values)} {values.null_count};".encode())
    if values.null_count:
        digest.update(np.packbits(values.is_null().to_numpy(zero_copy_only=False)).tobytes())
    kind = values.type
    if pa.types.is_struct(kind):
        for index in range(kind.num_fields):
            digest.update(f"{kind.field(index).name};".encode())
            _update(digest, values.field(index) if not values.null_count else values.flatten()[index])
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        digest.update(_numbers(values.value_lengths(), np.int64))
        _update(digest, values.flatten())
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        texts = values.drop_null().cast(pa.large_string())
        _, offsets, characters = texts.buffers()
        bounds = np.frombuffer(offsets, np.int64, len(texts) + 1, 8 * texts.offset) if len(texts) else [0]
        digest.update(np.diff(bounds).tobytes())
        if bounds[-1] > bounds[0]:
            digest.update(characters[int(bounds[0]) : int(bounds[-1])])
    elif pa.types.is_floating(kind):
        digest.update(_numbers(values, np.float64))
    else:
        digest.update(_numbers(values, np.int64))


def _numbers(values: pa.Array, kind: type[np.float64] | type[np.int64]) -> bytes:
    filled = values.cast(pa.float64() if kind is np.float64 else pa.int64()).fill_null(0)
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=kind).tobytes()
