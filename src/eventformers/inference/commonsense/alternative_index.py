"""An index of a graph's alternatives and premises: FAISS vectors and texts, built once, mapped from disk.

A folder holds `alternatives.faiss` and `premises.faiss`, flat indexes of normalised vectors whose inner
product is the cosine; `alternatives.arrow` and `premises.arrow`, the texts in the same order and the known
alternatives of each premise; and `index.json`, which tells the model, the graph and the counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

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
from eventformers.inference.encode import EventEncoder, Vectors
from eventformers.inference.search.index_files import (
    AGAIN,
    UNREADABLE,
    IndexedModel,
    check_model,
    encode_flat,
    known_revision,
    map_table,
    map_vectors,
    new_index,
    not_whole,
    provenance,
    read_record_of,
    write_record,
    write_table,
)

Positions = npt.NDArray[np.int64]

FORMAT = 1
"""Version of the files' layout; a folder of another version is not read."""


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

    @property
    def built_by(self) -> IndexedModel:
        """The model whose vectors these are."""
        return IndexedModel(self.model, self.model_revision, self.pooling)


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
    model = _model_of(encoder)
    revision = known_revision(model)
    known = known_pairs(pairs, splits)
    chosen = choose_splits(pairs, splits)
    with new_index(folder, overwrite) as staging:
        truncated = 0

        def encode(texts: Sequence[str]) -> Vectors:
            nonlocal truncated
            vectors = encoder.encode(texts, batch_size=batch_size, normalize=True)
            truncated += encoder.truncated
            return vectors

        sides = {"alternatives": known.alternatives, "premises": known.premises}
        with Progress(console=Console(stderr=True), disable=not show_progress) as progress:
            task = progress.add_task("building the index", total=sum(map(len, sides.values())))
            advance = partial(progress.advance, task)
            for name, texts in sides.items():
                vectors = encode_flat(texts, encode, encoder.dimension, name=encoder.name, advance=advance)
                faiss.write_index(vectors, str(staging / f"{name}.faiss"))
                del vectors
        _write_texts(staging, known)
        record = IndexRecord(
            model=model.name,
            model_revision=revision,
            pooling=model.pooling,
            dimension=encoder.dimension,
            graph=graph,
            graph_fingerprint=graph_fingerprint(pairs, splits),
            splits=chosen,
            alternatives=len(known.alternatives),
            premises=len(known.premises),
            pairs=len(known.positions),
            truncated=truncated,
            **provenance(),
        )
        write_record(staging, record)
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
        alternatives, premises = (
            map_table(folder / f"{name}.arrow") for name in ("alternatives", "premises")
        )
        found = {
            "alternatives": (len(alternatives), map_vectors(folder / "alternatives.faiss")),
            "premises": (len(premises), map_vectors(folder / "premises.faiss")),
        }
    except UNREADABLE as error:
        raise not_whole(folder, error) from error
    for name, (rows, vectors) in found.items():
        if rows != vectors.ntotal or rows != getattr(record, name) or vectors.d != record.dimension:
            raise EventformersError(
                f"{folder}: {rows:,} {name}, {vectors.ntotal:,} vectors and a record of "
                f"{getattr(record, name):,} do not fit; {AGAIN}"
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
        check_model(folder, record.built_by, _model_of(encoder))
    if fingerprint is not None and fingerprint != record.graph_fingerprint:
        raise EventformersError(
            f"{folder}: built of the graph {record.graph} with the fingerprint "
            f"{record.graph_fingerprint[:12]}; received a graph with {fingerprint[:12]}; {AGAIN}"
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
    return read_record_of(folder, IndexRecord, FORMAT)


def _model_of(encoder: EventEncoder) -> IndexedModel:
    return IndexedModel(encoder.name, encoder.revision, encoder.model.config.pooling)


def _write_texts(folder: Path, known: KnownPairs) -> None:
    lists = pa.LargeListArray.from_arrays(pa.array(known.offsets), pa.array(known.positions))
    tables = {
        "alternatives": pa.table({"text": pa.array(known.alternatives, pa.large_string())}),
        "premises": pa.table({"text": pa.array(known.premises, pa.large_string()), "alternatives": lists}),
    }
    for name, table in tables.items():
        write_table(folder / f"{name}.arrow", table)
