"""What indexes on disk share: a record that tells what they were built from, flat vectors and texts, mapped.

The folder of an index holds `index.json`, the record; FAISS files, flat indexes of vectors under the inner
product; and Arrow files of texts in the same order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import faiss
import numpy as np
import pyarrow as pa

from eventformers.errors import EventformersError, shown
from eventformers.files import is_unfinished, refuse_unfinished, staged_folder, write_text
from eventformers.inference.encode import BLOCK_TEXTS, Vectors
from eventformers.provenance import library_versions

RECORD = "index.json"
AGAIN = "build it again with overwrite=True (--overwrite), or give another folder"
UNREADABLE = (OSError, RuntimeError, pa.ArrowInvalid)
"""What mapping a file raises where it is absent or torn."""

_SUFFIXES = (".faiss", ".arrow")

Record = TypeVar("Record")
Item = TypeVar("Item")


class IndexedModel(NamedTuple):
    """The model whose vectors an index holds.

    Attributes:
        name: Hub id or folder.
        revision: commit on the Hub, or digest of its folder; None where unknown.
        pooling: the pooling that it is used with.
    """

    name: str
    revision: str | None
    pooling: str

    def __str__(self) -> str:
        return f"{self.name!r} (revision {(self.revision or 'unknown')[:12]}, pooling {self.pooling})"


def check_place(folder: Path, overwrite: bool) -> None:
    """Refuse a folder that an index cannot be written to.

    Raises:
        EventformersError: it is a file or holds something else, or an index and `overwrite` is off.
    """
    if folder.exists() and not folder.is_dir():
        raise EventformersError(f"{folder} is a file; accepted: a folder for the index")
    if not folder.is_dir() or all(item.name.startswith(".") for item in folder.iterdir()):
        return
    # An index takes the place of the whole folder, and what a user keeps in it would be lost.
    others = sorted(
        item.name
        for item in folder.iterdir()
        if item.name != RECORD and item.suffix not in _SUFFIXES and not item.name.startswith(".")
    )
    if others or not (folder / RECORD).is_file():
        such = f", such as {others[0]}" if others else ""
        raise EventformersError(
            f"{folder} holds other files{such}; accepted: a folder of its own for the index"
        )
    if not overwrite:
        raise EventformersError(f"{folder} holds an index; accepted: overwrite=True to replace it")


@contextmanager
def new_index(folder: Path, overwrite: bool) -> Iterator[Path]:
    """Collect the files of an index, and put them in place when all are complete.

    Args:
        folder: the place of the index.
        overwrite: replace an index that is there.

    Yields:
        The folder to write into.

    Raises:
        EventformersError: the folder cannot take the index, or another command is at work there.
    """
    check_place(folder, overwrite)
    replaced = [RECORD, *(f"*{suffix}" for suffix in _SUFFIXES)]
    with staged_folder(folder, replaced=replaced, last=(RECORD,)) as staging:
        yield staging


def holds_index(folder: Path) -> bool:
    """Whether a whole index lies in a folder."""
    return (folder / RECORD).is_file() and not is_unfinished(folder)


def check_model(folder: Path, built_by: IndexedModel, received: IndexedModel) -> None:
    """Refuse an index of another model's vectors; the name of a model may change.

    Raises:
        EventformersError: revision or pooling is another.
    """
    if built_by[1:] != received[1:]:
        raise EventformersError(
            f"{folder}: built by the model {built_by}; received the model {received}; {AGAIN}"
        )


def known_revision(model: IndexedModel) -> str:
    """The revision of a model.

    Raises:
        EventformersError: it has none.
    """
    if model.revision is None:
        raise EventformersError(
            f"the encoder {shown(model.name)} has no revision, so an index could not be told from another "
            "model's; accepted: a model that load_encoder loaded"
        )
    return model.revision


def provenance() -> dict[str, Any]:
    """The fields of a record that tell when and by what an index was built."""
    return {
        "versions": {**library_versions(), "faiss": faiss.__version__},
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def write_record(folder: Path, record: Any) -> None:
    """Write a record, which is a dataclass."""
    write_text(folder / RECORD, json.dumps(asdict(record), indent=2, ensure_ascii=False) + "\n")


def read_record_of(folder: str | Path, kind: Callable[..., Record], version: int) -> Record:
    """What an index was built from.

    Args:
        folder: the folder of the index.
        kind: the class of the record.
        version: the version of the files' layout that can be read.

    Raises:
        EventformersError: the folder holds no index, one of another kind, or one of another version.
    """
    path = Path(folder) / RECORD
    refuse_unfinished(path.parent)
    if not path.is_file():
        raise EventformersError(f"{folder}: no index, it holds no {RECORD}; accepted: a folder with one")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != version:
            raise EventformersError(
                f"{path}: found the format {shown(content['format'])}; accepted: {version}; build the "
                "index again"
            )
        record = kind(**content)
        _check_types(record)
        return record
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise EventformersError(f"{path}: no record of an index; build it again in another folder") from error


def _check_types(record: object) -> None:
    """Refuse a record with a value of another type than its field, of mappings also inside.

    Raises:
        TypeError: there is one.
    """
    for name, expected in get_type_hints(type(record)).items():
        value = getattr(record, name)
        inside = get_args(expected)[1:] if isinstance(value, dict) else ()
        if not isinstance(value, get_origin(expected) or expected) or not all(
            isinstance(one, inside) for one in (value.values() if inside else ())
        ):
            raise TypeError(f"{name} is {shown(value)}")


def encode_flat(
    items: Sequence[Item],
    encode: Callable[[Sequence[Item]], Vectors],
    dimension: int,
    *,
    name: str,
    advance: Callable[[float], object],
) -> faiss.IndexFlatIP:
    """A flat index of the items' vectors, made block by block.

    Args:
        items: what is encoded.
        encode: a block of items to their vectors, `(block, dimension)`.
        dimension: size of a vector.
        name: the model's, for an error.
        advance: is told the number of items of each block that is done.

    Raises:
        EventformersError: a vector is not finite.
    """
    index = faiss.IndexFlatIP(dimension)
    for start in range(0, len(items), BLOCK_TEXTS):
        block = items[start : start + BLOCK_TEXTS]
        vectors = encode(block)
        if not np.isfinite(vectors).all():
            raise EventformersError(f"the model {shown(name)} gives vectors that are not finite")
        index.add(vectors)
        advance(len(block))
    return index


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table so that it can be mapped."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)


def map_table(path: Path) -> pa.Table:
    """A table mapped from its file.

    Raises:
        OSError: the file is absent, or is not whole.
        pyarrow.ArrowInvalid: the file is not whole.
    """
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def map_vectors(path: Path) -> faiss.IndexFlatIP:
    """A flat index mapped from its file.

    Raises:
        RuntimeError: the file is absent or not whole, or holds another kind of index.
    """
    # IO_FLAG_MMAP reads a flat index into memory all the same; only this flag maps one.
    index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    if not isinstance(index, faiss.IndexFlatIP):
        raise RuntimeError(f"{path.name} holds {type(index).__name__} and not IndexFlatIP")
    return index


def not_whole(folder: Path, error: BaseException) -> EventformersError:
    """The error that tells of a file that is absent or torn."""
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return EventformersError(f"{folder}: not whole: {reason}; {AGAIN}")
