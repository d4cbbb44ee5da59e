"""An index on disk: tables of texts with their vectors, and a record of their source.

The folder holds `index.json`, the record, and two files for each table: `NAME.npy`, the vectors, and
`NAME.arrow`, the rows in the same order. The record has size and digest of both. Building writes the vectors
block by block, and opening an index maps its files, so that the vectors never have to fit into memory.
`NAME.ivf` is an approximate search of a large table, with its recall and digest in `NAME.recall`; it is built
on first use. Building an index again over its folder encodes only the rows that are new.
"""

from __future__ import annotations

import glob
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TypeVar, get_type_hints

import faiss
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from rich.console import Console
from rich.progress import Progress

from eventformers.datasets_scripts.reading.lines import read_json_object
from eventformers.errors import EventformersError, first_line, shown
from eventformers.files import (
    file_digest,
    is_unfinished,
    output_folder,
    refuse_unfinished,
    staged_folder,
    write_explained,
    write_text,
)
from eventformers.inference.encode import BLOCK_TEXTS, EventEncoder, require_finite
from eventformers.inference.encoding.vectors import Positions, Vectors, rows_at
from eventformers.inference.search.candidate_index import SearchKind, chosen_kind
from eventformers.inference.search.vector_search import (
    INDEX_SUFFIX,
    RECALL_SUFFIX,
    ApproximateSearch,
    nearest,
    read_search,
)
from eventformers.provenance import library_versions
from eventformers.strict import check_types

RECORD = "index.json"
FORMAT = 4
"""Version of the file format; opening a folder of another version raises an error."""
AGAIN = "build it again with overwrite=True (--overwrite), or give another folder"

_SUFFIXES = (".npy", ".arrow", INDEX_SUFFIX, RECALL_SUFFIX, ".faiss")
"""Suffixes of the files of a table; format 2 had its vectors in `NAME.faiss`."""

DIGESTED_BYTES = 2**30
"""Size of the largest file whose digest is checked whenever an index is opened, which takes about a second;
`verify_index` checks larger ones."""

_KEPT_SHARE = 0.5
"""Least share of known rows with which an approximate search is kept."""


class IndexedModel(NamedTuple):
    """The model whose vectors an index holds.

    Attributes:
        revision: commit on the Hub, or digest of its folder; None if unknown.
        pooling: the pooling in use, and what else the vectors depend on where it is not the usual: the order
            of roles, a number of dimensions, and a precision below float32.
    """

    name: str
    revision: str | None
    pooling: str

    def __str__(self) -> str:
        return f"{self.name!r} (revision {(self.revision or 'unknown')[:12]}, pooling {self.pooling})"

    @classmethod
    def of(cls, encoder: EventEncoder) -> IndexedModel:
        """Describe a loaded encoder."""
        config = encoder.model.config
        dimensions, precision = getattr(config, "truncate_dim", None), encoder.model.dtype
        parts = [str(getattr(config, "pooling", ""))]
        if encoder.event_order != "subject_predicate_object":
            parts.append(encoder.event_order)
        if dimensions is not None:
            parts.append(f"{dimensions} dimensions")
        if precision != torch.float32:
            parts.append(str(precision).removeprefix("torch."))
        return cls(encoder.name, encoder.revision, ", ".join(parts))


@dataclass(frozen=True, kw_only=True)
class IndexRecord:
    """Content of `index.json`; a subclass adds what one kind of index needs.

    Attributes:
        tables: names of the tables, and the columns of each.
        sizes: size in bytes of each file of a table, by name.
        digests: SHA-256 of each, in hexadecimal.
        created: time of the build, UTC.
    """

    tables: ClassVar[Mapping[str, Sequence[str]]]

    model: str
    model_revision: str
    pooling: str
    dimension: int
    fingerprint: str
    rows: dict[str, int]
    sizes: dict[str, int]
    digests: dict[str, str]
    versions: dict[str, str | None]
    created: str
    format: int = FORMAT

    @property
    def built_by(self) -> IndexedModel:
        """The model that computed the vectors."""
        return IndexedModel(self.model, self.model_revision, self.pooling)


Record = TypeVar("Record", bound=IndexRecord)
Opened = TypeVar("Opened")


@dataclass(frozen=True)
class IndexTable:
    """Rows and their vectors, `(rows, d)`, float32, both mapped from disk; without an approximate search,
    they are searched exactly."""

    rows: pa.Table
    vectors: Vectors
    approximate: ApproximateSearch | None = None

    @property
    def texts(self) -> pa.ChunkedArray:
        """The column `text`."""
        return self.rows["text"]

    def text(self, position: int) -> str:
        """Return the text of the row at a position."""
        return str(self.texts[int(position)].as_py())

    def nearest(self, query: Vectors, number: int) -> tuple[Vectors, Positions]:
        """Return products and positions of the rows nearest to a vector `(d,)`, best first."""
        if self.approximate is not None:
            products, positions = self.approximate.search(query[None], number)
            found = positions[0] >= 0
            return products[0][found], positions[0][found]
        exact = nearest(self.vectors, query[None], number)
        return exact.scores[0], exact.positions[0]

    def products(self, query: Vectors, positions: Positions) -> Vectors:
        """Return the products of a vector `(d,)` with the vectors at some positions."""
        return np.asarray(self.vectors[positions] @ query)


def build_index(
    folder: Path,
    kind: type[IndexRecord],
    tables: Mapping[str, pa.Table],
    encode: Callable[[str, pa.Table], Vectors],
    *,
    model: IndexedModel,
    dimension: int,
    fingerprint: str,
    details: Mapping[str, Any],
    show_progress: bool = False,
    overwrite: bool = False,
) -> None:
    """Encode the tables of an index and write its folder atomically.

    If the folder holds an index by the same model, only rows with new texts are encoded, and its approximate
    searches are kept with their lists and codes.

    Args:
        encode: encodes a block of the rows of a table, given its name, `(block, dimension)`.
        details: more fields of the record, read after the last block is encoded.

    Raises:
        EventformersError: the folder holds other files, or an index and `overwrite` is off; the model has no
            revision; a vector is not finite; another command writes to the folder.
    """
    if model.revision is None:
        raise EventformersError(
            f"the encoder {shown(model.name)} has no revision, so its index could not be distinguished from "
            "another model's; accepted: a model that load_encoder loaded"
        )
    replaced = _replaced_files(folder, tables, overwrite)
    with (
        staged_folder(folder, replaced=replaced, last=(RECORD,)) as staging,
        Progress(console=Console(stderr=True), disable=not show_progress) as progress,
    ):
        # The tables of an index in the folder that the same model built.
        earlier: dict[str, IndexTable] = {}
        if holds_index(folder):
            with suppress(EventformersError):
                record, opened = open_index(folder, kind, model=model)
                check_files(folder, record)
                earlier = opened
        known = {
            name: earlier_places(rows, earlier[name].rows if name in earlier else None)
            for name, rows in tables.items()
        }
        task = progress.add_task(
            "building the index", total=sum(int((places < 0).sum()) for places in known.values())
        )
        for name, rows in tables.items():
            path = staging / f"{name}.npy"
            # With a writable memory map, a full disk would kill the process.
            with open(path, "wb") as stream:
                header = {"descr": "<f4", "fortran_order": False, "shape": (len(rows), dimension)}
                np.lib.format.write_array_header_1_0(stream, header)
                for start in range(0, len(rows), BLOCK_TEXTS):
                    places = known[name][start : start + BLOCK_TEXTS]
                    block = np.empty((len(places), dimension), dtype="<f4")
                    new = np.flatnonzero(places < 0)
                    if len(new):
                        block[new] = encode(name, rows.take(start + new))
                        require_finite(model.name, block[new])
                    if len(new) < len(block):
                        block[places >= 0] = rows_at(earlier[name].vectors, places[places >= 0])
                    stream.write(block.tobytes())
                    progress.advance(task, len(new))
            write_table(staging / f"{name}.arrow", rows)
            if name in earlier:
                vectors = np.lib.format.open_memmap(path, mode="r")
                places = known[name]
                search = read_search(folder / f"{name}{INDEX_SUFFIX}", earlier[name].vectors)
                # Lists and codes that were learned from other vectors would find less.
                if search is not None and (places >= 0).mean() >= _KEPT_SHARE:
                    moved = search.moved(vectors, places)
                    moved.recall = moved.measure_recall()
                    moved.write(staging / f"{name}{INDEX_SUFFIX}")
        files = [staging / file for name in tables for file in _table_files(name)]
        record = kind(
            model=model.name,
            model_revision=model.revision,
            pooling=model.pooling,
            dimension=dimension,
            fingerprint=fingerprint,
            rows={name: len(rows) for name, rows in tables.items()},
            sizes={file.name: file.stat().st_size for file in files},
            digests={file.name: file_digest(file) for file in files},
            versions={**library_versions(), "faiss": faiss.__version__},
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            **details,
        )
        write_text(staging / RECORD, json.dumps(asdict(record), indent=2, ensure_ascii=False) + "\n")


def open_index(
    folder: str | Path,
    kind: type[Record],
    *,
    model: IndexedModel | None = None,
    fingerprint: str | None = None,
    search: SearchKind = "exact",
) -> tuple[Record, dict[str, IndexTable]]:
    """Map an index from its files; return what it was built from, and its tables by name.

    Args:
        model: the model to use the index with, and `fingerprint` that of the data that it should be of; None
            skips the check.
        search: kind of search in each table: `exact`, `ivf`, or `auto` for `ivf` in large tables.

    Raises:
        EventformersError: the folder has no index of this kind, a file is absent or damaged, or the index was
            built by another model or from other data.
    """
    folder = Path(folder)
    record = read_record(folder, kind)
    check_index(folder, record, model, fingerprint)
    check_files(folder, record, DIGESTED_BYTES)
    tables = {}
    for name in kind.tables:
        try:
            file = pa.ipc.open_file(pa.memory_map(str(folder / f"{name}.arrow")))
            rows = file.read_all().select(list(record.tables[name]))
            rows.validate(full=True)
            vectors = np.lib.format.open_memmap(folder / f"{name}.npy", mode="r")
            if vectors.ndim != 2 or vectors.dtype != np.float32:
                raise ValueError(f"{name}.npy holds {vectors.dtype} of shape {vectors.shape}")
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise EventformersError(f"{folder}: damaged: {first_line(error)}; {AGAIN}") from error
        if not len(rows) == len(vectors) == record.rows[name] or vectors.shape[1] != record.dimension:
            raise EventformersError(
                f"{folder}: {len(rows):,} {name}, {len(vectors):,} vectors and a record of "
                f"{record.rows[name]:,} do not match; {AGAIN}"
            )
        table = IndexTable(rows, vectors)
        if chosen_kind(search, len(rows)) == "ivf":
            table = replace(table, approximate=open_search(folder, name, table))
        tables[name] = table
    return record, tables


def open_search(folder: str | Path, name: str, table: IndexTable) -> ApproximateSearch:
    """Open the approximate search of a table, or build it in the folder of the index."""
    path = Path(folder) / f"{name}{INDEX_SUFFIX}"
    search = read_search(path, table.vectors)
    if search is None:
        search = ApproximateSearch.build(table.vectors)
        search.recall = search.measure_recall()
        with write_explained(path):
            search.write(path)
    return search


def open_or_build(
    folder: Path,
    open_: Callable[[], Opened],
    build: Callable[[], Opened | None] | None,
    *,
    needed: str = "",
    overwrite: bool,
    keep_fitting: bool = False,
    wait: bool = False,
) -> Opened:
    """Open the index in a folder, or build it there under a lock.

    Args:
        build: builds it, and may open it; None if there is nothing to build it from.
        needed: what an index is built from, and how to give it, for the error.
        overwrite: rebuild an existing index.
        keep_fitting: with `overwrite`, still keep an index that can be opened.
        wait: wait for another writer instead of raising an error, as for a cache.

    Raises:
        EventformersError: an error of `open_` or `build`, there is no index and nothing to build it from, or
            another command writes to the folder.
    """

    def existing() -> Opened | None:
        if not holds_index(folder):
            return None
        if not overwrite:
            return open_()
        if keep_fitting:
            with suppress(EventformersError):
                return open_()
        return None

    found = existing()
    if found is None:
        if build is None:
            wanted = "to build it again" if holds_index(folder) else "holds no index, and to build it there,"
            raise EventformersError(f"{folder}: {wanted} {needed}, or the folder of an index")
        with output_folder(folder, wait=wait):
            # Another process may have built it meanwhile; `output_folder` completes the write of a killed
            # one.
            found = existing() or build() or open_()
    return found


def holds_index(folder: Path) -> bool:
    """Return True if a folder holds a complete index."""
    return (folder / RECORD).is_file() and not is_unfinished(folder)


def read_record(folder: str | Path, kind: type[Record]) -> Record:
    """Read the record of an index, or raise an error if the folder holds none, or one of another kind or
    format."""
    path = Path(folder) / RECORD
    refuse_unfinished(path.parent)
    if not path.is_file():
        raise EventformersError(
            f"{folder} holds no index, as it has no {RECORD}; accepted: the folder of an index"
        )
    invalid = f"{path} is not a valid record of an index; build the index again in another folder"
    try:
        content = read_json_object(path)
        version = content["format"]
        rows = content["rows"].keys() if version == FORMAT else kind.tables.keys()
        if version == FORMAT and rows == kind.tables.keys():
            check_types(content, get_type_hints(kind))
            return kind(**content)
    except (EventformersError, AttributeError, KeyError, TypeError) as error:
        raise EventformersError(invalid) from error
    if version != FORMAT:
        raise EventformersError(
            f"{folder}: an index of the format {shown(version)}, written by another version of "
            f"eventformers; accepted: {FORMAT}; {AGAIN}"
        )
    raise EventformersError(
        f"{folder}: an index of {', '.join(rows)}; accepted: an index of {', '.join(kind.tables)}"
    )


def check_index(
    folder: Path, record: IndexRecord, model: IndexedModel | None, fingerprint: str | None
) -> None:
    """Raise an error for an index of another model (revision or pooling; renaming is allowed) or of data with
    another fingerprint; None skips a check."""
    if model is not None and record.built_by[1:] != model[1:]:
        raise EventformersError(
            f"{folder}: built by the model {record.built_by}; received the model {model}; {AGAIN}"
        )
    if fingerprint is not None and fingerprint != record.fingerprint:
        raise EventformersError(
            f"{folder}: built from {', '.join(record.tables)} with the fingerprint "
            f"{record.fingerprint[:12]}; received data with {fingerprint[:12]}; {AGAIN}"
        )


def check_files(folder: Path, record: IndexRecord, largest: int | None = None) -> None:
    """Raise an error for a file of an index that is absent or not as it was written.

    Args:
        largest: size in bytes of the largest file whose digest is checked; None checks all. Sizes are always
            checked.
    """
    for name in (file for table in record.tables for file in _table_files(table)):
        path = folder / name
        size = path.stat().st_size if path.is_file() else None
        if size is None or size != record.sizes.get(name):
            found = "absent" if size is None else f"{size:,} bytes instead of {shown(record.sizes.get(name))}"
        elif (largest is None or size <= largest) and file_digest(path) != record.digests.get(name):
            found = "its content differs from the digest in the record"
        else:
            continue
        raise EventformersError(f"{path}: damaged: {found}; {AGAIN}")


def verify_index(folder: str | Path, kind: type[IndexRecord]) -> None:
    """Check the digests of all files of an index, also of large ones; a folder without an index passes."""
    if holds_index(Path(folder)):
        check_files(Path(folder), read_record(folder, kind))


def _table_files(name: str) -> tuple[str, str]:
    return f"{name}.npy", f"{name}.arrow"


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table in a format that can be memory-mapped."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)


def _replaced_files(folder: Path, tables: Iterable[str], overwrite: bool) -> list[str]:
    """Find the files of an earlier index in a folder, as patterns, or raise an error if the folder holds
    other files, or an index and `overwrite` is off."""
    present = sorted(path.name for path in folder.glob("[!.]*")) if folder.is_dir() else []
    if not present:
        return []
    # The earlier index may have other tables.
    with suppress(EventformersError, AttributeError):
        tables = {*tables, *read_json_object(folder / RECORD).get("rows", {})}
    own = {RECORD, *(f"{table}{suffix}" for table in tables for suffix in _SUFFIXES)}
    others = [name for name in present if name not in own or (folder / name).is_dir()]
    if others or RECORD not in present:
        such = f", such as {others[0]}" if others else ""
        raise EventformersError(
            f"{folder} holds other files{such}; accepted: an empty or new folder for the index"
        )
    if not overwrite:
        raise EventformersError(f"{folder} holds an index; accepted: overwrite=True to replace it")
    return [glob.escape(name) for name in present]


_DIGEST_BYTES = 16
_BLOCK_ROWS = 65_536


def earlier_places(rows: pa.Table, earlier: pa.Table | None) -> Positions:
    """Return the position in an earlier table of each row with the same texts; -1 for a new row, `(rows,)`.

    The texts of a row are its columns of strings: what a model encodes.
    """
    if earlier is None or not len(earlier):
        return np.full(len(rows), -1, dtype=np.int64)
    places = pc.index_in(_digests(rows), value_set=_digests(earlier))
    return places.fill_null(-1).to_numpy().astype(np.int64)


def _digests(rows: pa.Table) -> pa.Array:
    texts = rows.select([field.name for field in rows.schema if pa.types.is_large_string(field.type)])
    digests = [
        blake2b(repr(row).encode(), digest_size=_DIGEST_BYTES).digest()
        for batch in texts.to_batches(max_chunksize=_BLOCK_ROWS)
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    ]
    return pa.array(digests, pa.binary(_DIGEST_BYTES))
