"""An index on disk of the candidates for the next event of a chain."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, overload

import numpy as np
import pyarrow as pa
from datasets import Dataset, DatasetDict

from eventformers.datasets_scripts.chains import event_key
from eventformers.datasets_scripts.events import Event
from eventformers.datasets_scripts.fingerprints import dataset_fingerprint
from eventformers.errors import EventformersError
from eventformers.inference.chains.scorers import CosineScorer, Scores
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.vectors import Vectors, rounded_cosines
from eventformers.inference.search.candidate_index import SearchKind
from eventformers.inference.search.index_folder import (
    IndexedModel,
    IndexRecord,
    IndexTable,
    build_index,
    holds_index,
    open_index,
    open_or_build,
)

BLOCK_CANDIDATES = 16_384
"""Number of candidates encoded and scored at a time; it bounds the memory for their vectors."""

ROLES = ("subject", "predicate", "object")
_SCHEMA = pa.schema([(role, pa.large_string()) for role in ROLES])


@dataclass(frozen=True, kw_only=True)
class EventRecord(IndexRecord):
    """Record of what an index of events was built from."""

    tables: ClassVar = {"events": ROLES}


class TableEvents(Sequence[Event]):
    """The events of a table, made on access, in blocks.

    Args:
        table: a table with a column of texts for each role.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._first, self._block = 0, list[Any]()

    def __len__(self) -> int:
        return len(self._table)

    @overload
    def __getitem__(self, place: int) -> Event: ...

    @overload
    def __getitem__(self, place: slice) -> list[Event]: ...

    def __getitem__(self, place: int | slice) -> Event | list[Event]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        if not self._first <= place < self._first + len(self._block):
            self._first = place - place % BLOCK_CANDIDATES
            self._block = self._table.slice(self._first, BLOCK_CANDIDATES).to_pylist()
        event: Event = self._block[place - self._first]
        return event


def distinct_blocks(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Yield the distinct events in blocks, in the order of their first occurrence."""
    # A hash takes 63 bytes here, an event 485; two of 10 million events share a hash of 64 bits with a
    # probability of 3 in a million.
    seen: set[int] = set()

    def distinct() -> Iterator[Event]:
        for event in events:
            key = hash((event["subject"], event["predicate"], event["object"]))
            if key not in seen:
                seen.add(key)
                yield event

    remaining = distinct()
    while block := list(islice(remaining, BLOCK_CANDIDATES)):
        yield block


def indexed_events(
    folder: str | Path,
    events: Iterable[Event] | None,
    encoder: EventEncoder,
    scorer: CosineScorer,
    *,
    dimension: int,
    search: SearchKind,
    show_progress: bool,
    overwrite: bool,
) -> IndexTable:
    """Open the index of events in a folder, or build it there.

    Args:
        folder: the folder of the index.
        events: the events; None uses those of the index.
        encoder: the model.
        scorer: computes the vectors of candidates by this model.
        dimension: size of a vector.
        search: kind of search, see `open_index`.
        show_progress: draw a progress bar on standard error while the index is built.
        overwrite: replace an existing index; events that it has by the same model are not encoded again.

    Returns:
        The events and their unit vectors, mapped from disk.

    Raises:
        EventformersError: there is no index and there are no events, the index was built by another model or
            from other events, or an error of `build_index`.
    """
    folder, model = Path(folder), IndexedModel.of(encoder)
    fingerprint = None
    if events is not None:
        rows = pa.concat_tables(
            [
                _SCHEMA.empty_table(),
                *(pa.Table.from_pylist(block, _SCHEMA) for block in distinct_blocks(events)),
            ]
        )
        if not len(rows):
            raise EventformersError(
                "the corpus has no event besides those of the chain; accepted: one or more"
            )
        fingerprint = dataset_fingerprint(DatasetDict({"events": Dataset(rows)}))

    def load() -> IndexTable:
        _, tables = open_index(folder, EventRecord, model=model, fingerprint=fingerprint, search=search)
        return tables["events"]

    def build() -> IndexTable:
        if fingerprint is None:
            wanted = "to build it again" if holds_index(folder) else "holds no index, and to build it there,"
            raise EventformersError(
                f"{folder}: {wanted} a corpus is needed; accepted: corpus (--corpus), or the folder of an "
                "index"
            )
        build_index(
            folder,
            EventRecord,
            {"events": (TableEvents(rows), rows)},
            partial(_single_precision, scorer),
            model=model,
            dimension=dimension,
            fingerprint=fingerprint,
            details={},
            show_progress=show_progress,
            overwrite=overwrite,
        )
        return load()

    return open_or_build(folder, load, build, overwrite=overwrite)


def nearest_events(
    table: IndexTable, direction: Scores, top: int, excluded: Collection[str]
) -> list[tuple[float, int, Event]]:
    """Find the events with the largest products with a direction.

    Args:
        table: events and their unit vectors.
        direction: `(d,)`.
        top: number of events to find.
        excluded: texts of events to leave out, as `event_key` makes them.

    Returns:
        Score, position and event of each, best first; the lower position wins ties.
    """
    number = top + len(excluded)
    query = direction.astype(np.float32)
    while True:
        positions = table.nearest(query, number)[1]
        products = rounded_cosines(table.vectors[positions].astype(np.float64) @ direction)
        events = table.rows.take(positions).to_pylist()
        found = [
            (score, position, event)
            for score, position, event in zip(products.tolist(), positions.tolist(), events, strict=True)
            if event_key(event) not in excluded
        ]
        if len(found) >= top or number >= len(table.rows):
            return sorted(found, key=lambda one: (-one[0], one[1]))[:top]
        number *= 2


def _single_precision(scorer: CosineScorer, events: Sequence[Event]) -> Vectors:
    return scorer.candidates(events).astype(np.float32)
