"""A candidate index on disk: the events of a knowledge base with their vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, TypeAlias

import pyarrow as pa
from datasets import Dataset

from eventformers.datasets_scripts.fingerprints import dataset_fingerprint
from eventformers.errors import EventformersError, shown
from eventformers.inference.encoding.vectors import Vectors
from eventformers.inference.search.candidate_index import CandidateIndex, SearchKind
from eventformers.inference.search.index_folder import (
    AGAIN,
    IndexedModel,
    IndexRecord,
    build_index,
    holds_index,
    open_index,
    open_or_build,
    open_search,
)

COLUMNS = ("event_id", "language", "title", "description")

EventRow: TypeAlias = dict[str, str]
"""A row of `EventHierarchies`, config `events`."""


@dataclass(frozen=True, kw_only=True)
class CandidateRecord(IndexRecord):
    """Record of what a candidate index was built from.

    Attributes:
        by_language: True for a pool for each language, False for one pool.
    """

    tables: ClassVar = {"events": COLUMNS}

    by_language: bool


def stored_candidates(
    folder: str | Path,
    events: Dataset,
    encode: Callable[[Sequence[EventRow]], Vectors],
    *,
    model: IndexedModel,
    dimension: int,
    by_language: bool = True,
    kind: SearchKind = "auto",
    show_progress: bool = False,
    overwrite: bool = False,
) -> CandidateIndex:
    """Open the index of a knowledge base in a folder, or build it there.

    Args:
        folder: the folder of the index.
        events: rows of `EventHierarchies`, config `events`.
        encode: encodes a block of rows, `(block, dimension)`.
        model: the model that `encode` runs.
        dimension: size of a vector.
        by_language: create a pool for each language; if off, one pool serves mentions in any language.
        kind: kind of search, see `CandidateIndex`.
        show_progress: draw a progress bar on standard error while the index is built.
        overwrite: replace an index of another model, of other events or with other pools; known events of
            the same model are not encoded again.

    Returns:
        The index, mapped from its files.

    Raises:
        EventformersError: the index in the folder does not match and `overwrite` is off; an event occurs
            twice in a pool; or an error of `build_index`.
    """
    folder = Path(folder)
    fingerprint = dataset_fingerprint(events.select_columns(list(COLUMNS)))

    def load() -> CandidateIndex:
        record, tables = open_index(folder, CandidateRecord, model=model, fingerprint=fingerprint)
        if record.by_language != by_language:
            pools = ("one pool for all languages", "a pool for each language")
            raise EventformersError(
                f"{folder}: built with {pools[not by_language]}; received a search in {pools[by_language]}; "
                f"{AGAIN}"
            )
        table = tables["events"]
        ids, languages = (table.rows[name].to_pylist() for name in COLUMNS[:2])
        return CandidateIndex(
            ids,
            table.vectors,
            languages if by_language else None,
            kind=kind,
            stored=partial(open_search, folder, "events", table),
        )

    def build() -> CandidateIndex:
        rows = _rows(events, by_language)
        schema = pa.schema([(name, pa.large_string()) for name in COLUMNS])
        build_index(
            folder,
            CandidateRecord,
            {"events": (rows, pa.Table.from_pylist(rows, schema))},
            encode,
            model=model,
            dimension=dimension,
            fingerprint=fingerprint,
            details={"by_language": by_language},
            show_progress=show_progress,
            overwrite=holds_index(folder),
        )
        return load()

    # Several processes that link texts to the same events share the index: the others wait for it.
    return open_or_build(folder, load, build, overwrite=overwrite, keep_fitting=True, wait=True)


def _rows(events: Dataset, by_language: bool) -> list[EventRow]:
    """Return the rows of the events, language by language, so that each pool is one slice of the vectors.

    Raises:
        EventformersError: an event is twice in a pool.
    """
    rows: list[EventRow] = events.select_columns(list(COLUMNS)).to_list()
    places = Counter((row["event_id"], row["language"] if by_language else "") for row in rows)
    repeated = [place for place, count in places.items() if count > 1]
    if repeated:
        event_id, language = repeated[0]
        raise EventformersError(
            f"{len(repeated):,} events occur several times, the first {shown(event_id)}"
            f"{f' in {shown(language)}' if language else ''}; accepted: one row for each event"
            f"{' and language' if by_language else ''}"
        )
    return sorted(rows, key=lambda row: row["language"]) if by_language else rows
