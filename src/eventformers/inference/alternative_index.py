"""An index of a graph's alternatives and premises: FAISS vectors and texts, built once, mapped from disk.

A folder holds `alternatives.faiss` and `premises.faiss`, flat indexes of normalised vectors whose inner
product is the cosine; `alternatives.arrow` and `premises.arrow`, the texts in the same order and the known
alternatives of each premise; and `index.json`, which tells the model, the graph and the counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal, cast

import faiss
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from datasets import Dataset, DatasetDict
from rich.console import Console
from rich.progress import Progress

from eventformers.datasets_scripts.fingerprints import dataset_fingerprint
from eventformers.datasets_scripts.known_pairs import KnownPairs, choose_splits, known_pairs
from eventformers.errors import EventformersError
from eventformers.files import whole_folder, write_text
from eventformers.inference.encode import BLOCK_TEXTS, EventEncoder, Vectors
from eventformers.provenance import library_versions

Positions = npt.NDArray[np.int64]

RECORD = "index.json"
FORMAT = 1
"""Version of the files' layout; a folder of another version is not read."""

_AGAIN = "build it again with overwrite=True (--overwrite), or give another folder"


@dataclass(frozen=True)
class IndexRecord:
    """What `index.json` tells.

    Attributes:
        model: name of the model whose vectors these are.
        model_revision: commit on the Hub, or digest of its folder.
        pooling: the pooling that it was used with.
        dimension: size of the vectors.
        graph: config of the graph, such as `conceptnet`.
        graph_fingerprint: fingerprint of the rows of the splits.
        splits: the splits whose pairs are known here.
        alternatives: number of distinct alternatives.
        premises: number of distinct premises.
        pairs: number of distinct pairs.
        truncated: number of texts that were longer than the model takes, and were cut.
        versions: versions of the libraries.
        created: when it was built, UTC.
        format: version of the files' layout.
    """

    model: str
    model_revision: str
    pooling: str
    dimension: int
    graph: str
    graph_fingerprint: str
    splits: list[str]
    alternatives: int
    premises: int
    pairs: int
    truncated: int
    versions: dict[str, str | None]
    created: str
    format: int = FORMAT


@dataclass(frozen=True)
class IndexedTexts:
    """Texts and their normalised vectors, neither of them read into memory before use.

    Attributes:
        texts: the texts.
        vectors: a flat inner-product index over the vectors, in the order of the texts.
    """

    texts: pa.ChunkedArray
    vectors: faiss.IndexFlatIP

    def nearest(self, query: Vectors, number: int) -> tuple[Vectors, Positions]:
        """Cosines and positions of the texts nearest to a normalised vector `(d,)`, best first."""
        number = min(number, self.vectors.ntotal)
        cosines, positions = self.vectors.search(query[None], number)
        return cosines[0], positions[0]

    def cosines(self, query: Vectors, positions: Positions) -> Vectors:
        """Cosines of a normalised vector `(d,)` with the texts at some positions."""
        return self.vectors.reconstruct_batch(positions) @ query

    def text(self, position: int) -> str:
        """The text at a position."""
        return str(self.texts[int(position)].as_py())


@dataclass(frozen=True)
class AlternativeIndex:
    """The alternatives and premises of a graph, with their vectors by one model.

    Attributes:
        folder: where it lies.
        record: what it was built from.
        alternatives: the distinct alternatives.
        premises: the distinct premises.
        offsets: `(premises + 1,)`; the alternatives of premise p stand at `known[offsets[p]:offsets[p + 1]]`.
        known: positions of alternatives.
    """

    folder: Path
    record: IndexRecord
    alternatives: IndexedTexts
    premises: IndexedTexts
    offsets: Positions
    known: Positions

    def alternatives_of(self, premise: int) -> Positions:
        """Positions of the alternatives that the graph knows for the premise at a position."""
        return self.known[self.offsets[premise] : self.offsets[premise + 1]]


def build_alternative_index(
    encoder: EventEncoder,
    pairs: Mapping[str, Dataset],
    folder: str | Path,
    *,
    graph: str,
    splits: Collection[str] | None = None,
    batch_size: int | Literal["auto"] = "auto",
    show_progress: bool = False,
    overwrite: bool = False,
) -> AlternativeIndex:
    """Encode a graph's distinct alternatives and premises, and write the index as a whole or not at all.

    Args:
        encoder: the model.
        pairs: splits by name, with the columns `premise` and `alternative`.
        folder: the place of the index.
        graph: config of the graph, for the record and for its relations.
        splits: the splits to index; None takes all.
        batch_size: texts of a batch at most, or `auto`.
        show_progress: draw a progress bar on standard error.
        overwrite: replace an index that is there.

    Returns:
        The index, mapped from its files.

    Raises:
        EventformersError: the folder holds something else, or an index and `overwrite` is off; the encoder
            has no revision; the pairs have no rows, or a vector is not finite.
    """
    folder = Path(folder)
    _check_place(folder, overwrite)
    if encoder.revision is None:
        raise EventformersError(
            f"the encoder {encoder.name!r} has no revision, so an index could not be told from another "
            "model's; accepted: a model that load_encoder loaded"
        )
    known = known_pairs(pairs, splits)
    chosen = choose_splits(pairs, splits)
    with whole_folder(folder) as staging:
        truncated = 0
        sides = {"alternatives": known.alternatives, "premises": known.premises}
        with Progress(console=Console(stderr=True), disable=not show_progress) as progress:
            task = progress.add_task("building the index", total=sum(map(len, sides.values())))
            for name, texts in sides.items():
                vectors, cut = _encode_flat(encoder, texts, batch_size, partial(progress.advance, task))
                faiss.write_index(vectors, str(staging / f"{name}.faiss"))
                truncated += cut
                del vectors
        _write_texts(staging, known)
        record = IndexRecord(
            model=encoder.name,
            model_revision=encoder.revision,
            pooling=encoder.model.config.pooling,
            dimension=encoder.dimension,
            graph=graph,
            graph_fingerprint=graph_fingerprint(pairs, splits),
            splits=chosen,
            alternatives=len(known.alternatives),
            premises=len(known.premises),
            pairs=len(known.positions),
            truncated=truncated,
            versions={**library_versions(), "faiss": faiss.__version__},
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        write_text(staging / RECORD, json.dumps(asdict(record), indent=2, ensure_ascii=False) + "\n")
    return load_alternative_index(folder)


def load_alternative_index(
    folder: str | Path, *, encoder: EventEncoder | None = None, fingerprint: str | None = None
) -> AlternativeIndex:
    """Map an index from its files.

    Args:
        folder: a folder that `build_alternative_index` wrote.
        encoder: the model that will be used with it; None checks nothing.
        fingerprint: `graph_fingerprint` of the graph that it should be of; None checks nothing.

    Raises:
        EventformersError: there is no index, a file is absent or not whole, or it was built by another model
            or of another graph.
    """
    folder = Path(folder)
    record = read_record(folder)
    check_index(folder, record, encoder=encoder, fingerprint=fingerprint)
    try:
        alternatives = _map_texts(folder, "alternatives")
        premises = _map_texts(folder, "premises")
        found = {
            "alternatives": (len(alternatives), _map_vectors(folder, "alternatives")),
            "premises": (len(premises), _map_vectors(folder, "premises")),
        }
    except (OSError, RuntimeError, pa.ArrowInvalid) as error:
        raise EventformersError(f"{folder}: not whole: {_first_line(error)}; {_AGAIN}") from error
    for name, (rows, vectors) in found.items():
        if rows != vectors.ntotal or rows != getattr(record, name) or vectors.d != record.dimension:
            raise EventformersError(
                f"{folder}: {rows:,} {name}, {vectors.ntotal:,} vectors and a record of "
                f"{getattr(record, name):,} do not fit; {_AGAIN}"
            )
    lists = premises["alternatives"].combine_chunks()
    return AlternativeIndex(
        folder=folder,
        record=record,
        alternatives=IndexedTexts(alternatives["text"], found["alternatives"][1]),
        premises=IndexedTexts(premises["text"], found["premises"][1]),
        offsets=lists.offsets.to_numpy(),
        known=lists.values.to_numpy(),
    )


def check_index(
    folder: Path, record: IndexRecord, *, encoder: EventEncoder | None = None, fingerprint: str | None = None
) -> None:
    """Refuse an index of another model or of another graph.

    Args:
        folder: where it lies.
        record: what it was built from.
        encoder: the model that will be used with it; None checks nothing.
        fingerprint: `graph_fingerprint` of the graph that it should be of; None checks nothing.

    Raises:
        EventformersError: it is of another; says of which, and how to build it again.
    """
    if encoder is not None:
        built_by = (record.model_revision, record.pooling)
        received = (encoder.revision, encoder.model.config.pooling)
        if built_by != received:
            raise EventformersError(
                f"{folder}: built by the model {_called(record.model, *built_by)}; received the model "
                f"{_called(encoder.name, *received)}; {_AGAIN}"
            )
    if fingerprint is not None and fingerprint != record.graph_fingerprint:
        raise EventformersError(
            f"{folder}: built of the graph {record.graph} with the fingerprint "
            f"{record.graph_fingerprint[:12]}; received a graph with {fingerprint[:12]}; {_AGAIN}"
        )


def graph_fingerprint(pairs: Mapping[str, Dataset], splits: Collection[str] | None = None) -> str:
    """Fingerprint of the premises and alternatives of some splits; None takes all."""
    chosen = choose_splits(pairs, splits)
    return dataset_fingerprint(
        DatasetDict({name: pairs[name].select_columns(["premise", "alternative"]) for name in chosen})
    )


def read_record(folder: str | Path) -> IndexRecord:
    """What an index was built from.

    Raises:
        EventformersError: the folder holds no index, or one of another version of this package.
    """
    path = Path(folder) / RECORD
    if not path.is_file():
        raise EventformersError(f"{folder}: no index, it holds no {RECORD}; accepted: a folder with one")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise EventformersError(
                f"{path}: found the format {content['format']!r}; accepted: {FORMAT}; build the index again"
            )
        return IndexRecord(**content)
    except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise EventformersError(f"{path}: no record of an index; build it again in another folder") from error


def _check_place(folder: Path, overwrite: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise EventformersError(f"{folder} is a file; accepted: a folder for the index")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not (folder / RECORD).is_file():
        raise EventformersError(f"{folder} holds other files; accepted: a folder of its own for the index")
    if not overwrite:
        raise EventformersError(f"{folder} holds an index; accepted: overwrite=True to replace it")


def _encode_flat(
    encoder: EventEncoder,
    texts: list[str],
    batch_size: int | Literal["auto"],
    advance: Callable[[float], None],
) -> tuple[faiss.IndexFlatIP, int]:
    """A flat index of the texts' normalised vectors, and the number of texts that were cut."""
    index = faiss.IndexFlatIP(encoder.dimension)
    truncated = 0
    for start in range(0, len(texts), BLOCK_TEXTS):
        block = texts[start : start + BLOCK_TEXTS]
        vectors = encoder.encode(block, batch_size=batch_size, normalize=True)
        if not np.isfinite(vectors).all():
            raise EventformersError(f"the model {encoder.name!r} gives vectors that are not finite")
        index.add(vectors)
        truncated += encoder.truncated
        advance(len(block))
    return index, truncated


def _write_texts(folder: Path, known: KnownPairs) -> None:
    lists = pa.LargeListArray.from_arrays(pa.array(known.offsets), pa.array(known.positions))
    tables = {
        "alternatives": pa.table({"text": pa.array(known.alternatives, pa.large_string())}),
        "premises": pa.table({"text": pa.array(known.premises, pa.large_string()), "alternatives": lists}),
    }
    for name, table in tables.items():
        with (
            pa.OSFile(str(folder / f"{name}.arrow"), "wb") as sink,
            pa.ipc.new_file(sink, table.schema) as file,
        ):
            file.write_table(table)


def _map_texts(folder: Path, name: str) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(folder / f"{name}.arrow"))).read_all()


def _map_vectors(folder: Path, name: str) -> faiss.IndexFlatIP:
    # IO_FLAG_MMAP reads a flat index into memory all the same; only this flag maps one.
    path = str(folder / f"{name}.faiss")
    return cast("faiss.IndexFlatIP", faiss.read_index(path, faiss.IO_FLAG_MMAP_IFC))


def _called(name: str, revision: str | None, pooling: str) -> str:
    return f"{name!r} (revision {(revision or 'unknown')[:12]}, pooling {pooling})"


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
