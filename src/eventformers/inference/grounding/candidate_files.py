"""Candidate indexes on disk: the events of a knowledge base with their vectors, built once and mapped.

A folder holds `events.faiss`, a flat index of one vector for each event and language; `events.arrow`, the
events in the same order, language by language; and `index.json`, which tells the model, the events and the
counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeAlias

import faiss
import numpy as np
import pyarrow as pa
from datasets import Dataset
from rich.console import Console
from rich.progress import Progress

from eventformers.datasets_scripts.fingerprints import dataset_fingerprint
from eventformers.errors import EventformersError, shown
from eventformers.inference.encode import Vectors
from eventformers.inference.search.candidate_index import CandidateIndex, SearchKind
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

FORMAT = 1
"""Version of the files' layout; a folder of another version is not read."""

COLUMNS = ("event_id", "language", "title", "description")

EventRow: TypeAlias = dict[str, str]
"""An event as `EventHierarchies` has it, config `events`."""


@dataclass(frozen=True)
class CandidateRecord:
    """What `index.json` tells.

    Attributes:
        model: name of the model whose vectors these are.
        model_revision: commit on the Hub, or digest of its folder.
        pooling: the pooling that it was used with.
        dimension: size of the vectors.
        events_fingerprint: fingerprint of the events' rows.
        events: number of distinct events.
        descriptions: number of vectors, by language; the empty text is one pool for all languages.
        versions: versions of the libraries.
        created: when it was built, UTC.
        format: version of the files' layout.
    """

    model: str
    model_revision: str
    pooling: str
    dimension: int
    events_fingerprint: str
    events: int
    descriptions: dict[str, int]
    versions: dict[str, str | None]
    created: str
    format: int = FORMAT

    @property
    def built_by(self) -> IndexedModel:
        """The model whose vectors these are."""
        return IndexedModel(self.model, self.model_revision, self.pooling)


@dataclass(frozen=True)
class StoredCandidates:
    """A candidate index, and the texts of its events.

    Attributes:
        folder: where it lies.
        record: what it was built from.
        index: the index.
        rows: the events' rows, in the order of the vectors.
    """

    folder: Path
    record: CandidateRecord
    index: CandidateIndex
    rows: pa.Table


def build_candidate_files(
    events: Dataset,
    encode: Callable[[Sequence[EventRow]], Vectors],
    folder: str | Path,
    *,
    model: IndexedModel,
    dimension: int,
    by_language: bool = True,
    kind: SearchKind = "auto",
    show_progress: bool = False,
    overwrite: bool = False,
) -> StoredCandidates:
    """Encode the events of a knowledge base, and write their index as a whole or not at all.

    Args:
        events: rows of `EventHierarchies`, config `events`.
        encode: a block of rows to their vectors, `(block, dimension)`.
        folder: the place of the index.
        model: the model that `encode` runs.
        dimension: size of a vector.
        by_language: make a pool for each language; without it one pool serves mentions in any language.
        kind: how the index that is given back searches, see `CandidateIndex`.
        show_progress: draw a progress bar on standard error.
        overwrite: replace an index that is there.

    Returns:
        The index, mapped from its files.

    Raises:
        EventformersError: the folder holds something else, or an index and `overwrite` is off; the model has
            no revision; there is no event, one stands twice in a pool, or a vector is not finite.
    """
    folder = Path(folder)
    revision = known_revision(model)
    rows = _rows(events, by_language)
    with new_index(folder, overwrite) as staging:
        with Progress(console=Console(stderr=True), disable=not show_progress) as progress:
            task = progress.add_task("building the index", total=len(rows))
            vectors = encode_flat(
                rows, encode, dimension, name=model.name, advance=partial(progress.advance, task)
            )
        faiss.write_index(vectors, str(staging / "events.faiss"))
        del vectors
        columns = {name: pa.array([row[name] for row in rows], pa.large_string()) for name in COLUMNS}
        write_table(staging / "events.arrow", pa.table(columns))
        languages = (row["language"] if by_language else "" for row in rows)
        record = CandidateRecord(
            model=model.name,
            model_revision=revision,
            pooling=model.pooling,
            dimension=dimension,
            events_fingerprint=events_fingerprint(events),
            events=len({row["event_id"] for row in rows}),
            descriptions=dict(sorted(Counter(languages).items())),
            **provenance(),
        )
        write_record(staging, record)
    return load_candidate_files(folder, kind=kind)


def load_candidate_files(
    folder: str | Path,
    *,
    model: IndexedModel | None = None,
    fingerprint: str | None = None,
    by_language: bool | None = None,
    kind: SearchKind = "auto",
) -> StoredCandidates:
    """Map a candidate index from its files.

    Args:
        folder: a folder that `build_candidate_files` wrote.
        model: the model that will be used with it; None checks nothing.
        fingerprint: `events_fingerprint` of the knowledge base that it should be of; None checks nothing.
        by_language: whether it should have a pool for each language, or one for all; None checks nothing.
        kind: how it searches, see `CandidateIndex`.

    Raises:
        EventformersError: there is no index, a file is absent or not whole, or it was built by another model,
            of other events or with other pools.
    """
    folder = Path(folder)
    record = read_record_of(folder, CandidateRecord, FORMAT)
    if model is not None:
        check_model(folder, record.built_by, model)
    if fingerprint is not None and fingerprint != record.events_fingerprint:
        raise EventformersError(
            f"{folder}: built of events with the fingerprint {record.events_fingerprint[:12]}; received "
            f"events with {fingerprint[:12]}; {AGAIN}"
        )
    one_pool = list(record.descriptions) == [""]
    if by_language is not None and by_language == one_pool:
        pools = ("a pool for each language", "one pool for all languages")
        raise EventformersError(
            f"{folder}: built with {pools[one_pool]}; received a search in {pools[not one_pool]}; {AGAIN}"
        )
    try:
        rows = map_table(folder / "events.arrow").select(list(COLUMNS))
        vectors = map_vectors(folder / "events.faiss")
    except (*UNREADABLE, KeyError) as error:
        raise not_whole(folder, error) from error
    number = sum(record.descriptions.values())
    if not len(rows) == vectors.ntotal == number or vectors.d != record.dimension:
        raise EventformersError(
            f"{folder}: {len(rows):,} events, {vectors.ntotal:,} vectors and a record of {number:,} do not "
            f"fit; {AGAIN}"
        )
    index = CandidateIndex(
        rows["event_id"].to_pylist(),
        np.asarray(_MappedVectors(vectors)),
        None if one_pool else rows["language"].to_pylist(),
        kind=kind,
    )
    return StoredCandidates(folder, record, index, rows)


def events_fingerprint(events: Dataset) -> str:
    """Fingerprint of the events of a knowledge base."""
    return dataset_fingerprint(events.select_columns(list(COLUMNS)))


def _rows(events: Dataset, by_language: bool) -> list[EventRow]:
    """The rows of the events, language by language, so that each pool is one piece of the vectors.

    Raises:
        EventformersError: there is no event, a column is absent, or an event stands twice in a pool.
    """
    missing = [name for name in COLUMNS if name not in events.column_names]
    if missing or not len(events):
        found = f"no column {', '.join(missing)}" if missing else "no row"
        raise EventformersError(
            f"the events have {found}; accepted: at least one row with {', '.join(COLUMNS)}"
        )
    rows: list[EventRow] = events.select_columns(list(COLUMNS)).to_list()
    places = Counter((row["event_id"], row["language"] if by_language else "") for row in rows)
    repeated = [place for place, count in places.items() if count > 1]
    if repeated:
        event_id, language = repeated[0]
        raise EventformersError(
            f"{len(repeated):,} events stand several times, the first {shown(event_id)}"
            f"{f' in {shown(language)}' if language else ''}; accepted: one row for each event"
            f"{' and language' if by_language else ''}"
        )
    return sorted(rows, key=lambda row: row["language"]) if by_language else rows


class _MappedVectors:
    """The vectors of a flat index as an array that keeps the index, and with it the mapped file."""

    def __init__(self, index: faiss.IndexFlatIP) -> None:
        self.index = index
        self.__array_interface__ = {
            "shape": (index.ntotal, index.d),
            "typestr": "<f4",
            "data": (int(index.get_xb()), False),
            "version": 3,
        }
