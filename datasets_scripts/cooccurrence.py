# ruff: noqa: S608 - the only values written into SQL here are numbers of our own
"""Co-occurrence of events in documents, counted out of core in bounded memory.

Co-occurrence in a document is the weak supervision of SWCC (Gao et al., ACL 2022, section 3.2). DuckDB counts
on disk, one range of anchor events at a time, so that neither the distinct events nor the pairs need to fit
into memory at once.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eventformers.datasets_scripts.events import EVENT_ORDERS, Event
from eventformers.errors import shown

Normalisation = Literal["min_max", "log_min_max", "constant"]

_INGEST_ROWS = 200_000
_BYTES_PER_PAIR = 400
"""Estimated bytes per pair while its range is counted, in DuckDB and after; only used to size the ranges."""

_SIZE = re.compile(r"\s*([0-9]{1,20}(?:\.[0-9]{1,20})?|\.[0-9]{1,20})\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)

_ROLES = EVENT_ORDERS["subject_predicate_object"]
_OCCURRENCE_SCHEMA = pa.schema(
    [("document", pa.int32()), ("position", pa.int32()), *((role, pa.string()) for role in _ROLES)]
)


@dataclass
class CooccurrenceStatistics:
    """Statistics of the counts. Pairs are directed: (a, b) and (b, a) are two."""

    documents: int = 0
    occurrences: int = 0
    distinct_events: int = 0
    events_below_minimum_frequency: int = 0
    events_without_co_event: int = 0
    rows: int = 0
    pairs: int = 0
    pairs_below_minimum_frequency: int = 0
    pairs_beyond_max_co_events: int = 0
    minimum_pair_frequency: int | None = None
    maximum_pair_frequency: int | None = None


class CooccurrenceCounter:
    """Counts, for every distinct event, the events that share documents with it.

    Use it within `contextlib.closing`, which removes its temporary database at the end. Add documents, then
    read `tables()` once.

    The frequency of a pair is the number of documents that contain both events within a distance of `window`.
    Pairs of an event with itself are excluded.

    Args:
        min_event_frequency: skip events with fewer occurrences. They still count as positions for `window`.
        min_pair_frequency: skip pairs that share fewer documents.
        window: maximum distance of two events, counted in events of their document; None uses the whole
            document, at a cost quadratic in its length.
        max_co_events: maximum number of co-events of an event, the most frequent first; ties are broken by a
            fixed pseudo-random order, which favours no spelling. None keeps all.
        memory_limit: memory that DuckDB may use before it spills to disk, such as "2GB".
        threads: number of worker threads; None uses all processors.
    """

    def __init__(
        self,
        *,
        min_event_frequency: int = 1,
        min_pair_frequency: int = 1,
        window: int | None = 100,
        max_co_events: int | None = 64,
        memory_limit: str = "2GB",
        threads: int | None = None,
    ) -> None:
        self.min_event_frequency = min_event_frequency
        self.min_pair_frequency = min_pair_frequency
        self.window = window
        self.max_co_events = max_co_events
        self.statistics = CooccurrenceStatistics()
        self._memory_bytes = bytes_of(memory_limit)
        self._folder = tempfile.TemporaryDirectory(prefix="cooccurrence-")
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": memory_limit,
            "temp_directory": str(Path(self._folder.name) / "spill"),
            "preserve_insertion_order": False,
        }
        if threads is not None:
            settings["threads"] = threads
        # Built data are also read where DuckDB is not installed.
        import duckdb

        try:
            self._database = duckdb.connect(str(Path(self._folder.name) / "counts.duckdb"), config=settings)
        except duckdb.Error:
            self._folder.cleanup()
            raise
        self._database.execute(
            "CREATE TABLE raw (document INTEGER, position INTEGER, subject VARCHAR, predicate VARCHAR,"
            " object VARCHAR)"
        )
        self._clear_columns()

    def close(self) -> None:
        """Remove the database and all spilled data."""
        self._database.close()
        self._folder.cleanup()

    def add(self, events: Iterable[Event]) -> None:
        """Add the events of one document in order."""
        events = list(events)
        self._columns["document"] += [self.statistics.documents] * len(events)
        self._columns["position"] += range(len(events))
        for role in _ROLES:
            self._columns[role] += map(itemgetter(role), events)
        self.statistics.documents += 1
        self.statistics.occurrences += len(events)
        if len(self._columns["document"]) >= _INGEST_ROWS:
            self._flush()

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows `event, co_events, frequencies`, one table for each range of events.

        Rows are sorted by the bytes of subject, predicate and object; co-events by descending frequency, then
        in the same order. An event without co-events has no row.
        """
        self._flush()
        events = self._number_events()
        # Upper bound of the positions of co-events, for every event; shape (events,).
        reach = "n - 1" if self.window is None else f"least(n - 1, {2 * self.window})"
        rows = self._database.execute(
            f"SELECT event, sum({reach})::BIGINT AS bound FROM occurrences"
            " JOIN (SELECT document, count(*) AS n FROM occurrences GROUP BY document) USING (document)"
            " GROUP BY event"
        ).fetchnumpy()
        bounds = np.zeros(events.num_rows, dtype=np.int64)
        bounds[np.asarray(rows["event"])] = np.asarray(rows["bound"])
        struct = pa.StructArray.from_arrays(
            [events.column(role).combine_chunks() for role in _ROLES], names=_ROLES
        )
        # The pairs of the anchors of each range fit into the memory limit.
        budget = max(1, self._memory_bytes // _BYTES_PER_PAIR)
        ends = np.cumsum(bounds)
        first = 0
        while first < len(bounds):
            reached = ends[first - 1] if first else 0
            last = max(first, int(np.searchsorted(ends, reached + budget, side="right")) - 1)
            table = self._count_range(first, last, struct)
            if table.num_rows:
                yield table
            first = last + 1
        self.statistics.events_without_co_event = (
            self.statistics.distinct_events
            - self.statistics.events_below_minimum_frequency
            - self.statistics.rows
        )

    def _clear_columns(self) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in _OCCURRENCE_SCHEMA.names}

    def _flush(self) -> None:
        self._database.register("batch", pa.table(self._columns, schema=_OCCURRENCE_SCHEMA))
        self._database.execute("INSERT INTO raw SELECT * FROM batch")
        self._database.unregister("batch")
        self._clear_columns()

    def _number_events(self) -> pa.Table:
        """Number the frequent events in the order of their text and replace the raw rows by these numbers."""
        database = self._database
        database.execute(
            "CREATE TABLE counted AS SELECT subject, predicate, object, count(*) AS frequency FROM raw"
            " GROUP BY ALL"
        )
        [(total, rare)] = database.execute(
            "SELECT count(*), count(*) FILTER (frequency < ?) FROM counted", [self.min_event_frequency]
        ).fetchall()
        self.statistics.distinct_events, self.statistics.events_below_minimum_frequency = total, rare
        database.execute(
            "CREATE TABLE events AS SELECT (row_number() OVER (ORDER BY subject, predicate, object) - 1)"
            "::INTEGER AS event, subject, predicate, object FROM counted WHERE frequency >= ?",
            [self.min_event_frequency],
        )
        # For whole documents only presence counts; for a window every occurrence has its position.
        columns = "DISTINCT document, event" if self.window is None else "document, position, event"
        database.execute(
            f"CREATE TABLE occurrences AS SELECT {columns} FROM raw"
            " JOIN events USING (subject, predicate, object)"
        )
        database.execute("DROP TABLE raw; DROP TABLE counted")
        table = database.sql("SELECT subject, predicate, object FROM events ORDER BY event").to_arrow_table()
        database.execute("DROP TABLE events")
        return table

    def _count_range(self, first: int, last: int, events: pa.StructArray) -> pa.Table:
        """Count the pairs of the anchor events first..last and convert them to rows."""
        counted = self._database.sql(self._range_query(first, last)).to_arrow_table()
        anchors, others, frequencies = (column.to_numpy().astype(np.int64) for column in counted.columns)
        statistics = self.statistics
        statistics.pairs += len(anchors)
        frequent = frequencies >= self.min_pair_frequency
        statistics.pairs_below_minimum_frequency += int(len(frequent) - frequent.sum())
        order = np.argsort((anchors << 32 | others)[frequent])
        anchors, others, frequencies = (part[frequent][order] for part in (anchors, others, frequencies))
        if len(frequencies):
            lowest, highest = int(frequencies.min()), int(frequencies.max())
            known = (statistics.minimum_pair_frequency, statistics.maximum_pair_frequency)
            statistics.minimum_pair_frequency = lowest if known[0] is None else min(lowest, known[0])
            statistics.maximum_pair_frequency = highest if known[1] is None else max(highest, known[1])
        if self.max_co_events is not None:
            kept = _most_frequent(anchors, others, frequencies, self.max_co_events)
            statistics.pairs_beyond_max_co_events += int(len(kept) - kept.sum())
            anchors, others, frequencies = (part[kept] for part in (anchors, others, frequencies))
        order = np.argsort(anchors << 32 | (0xFFFFFFFF - frequencies), kind="stable")
        rows, lengths = np.unique(anchors, return_counts=True)
        statistics.rows += len(rows)
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
        return pa.table(
            {
                "event": events.take(pa.array(rows)),
                "co_events": pa.ListArray.from_arrays(offsets, events.take(pa.array(others[order]))),
                "frequencies": pa.ListArray.from_arrays(
                    offsets, pa.array(frequencies[order].astype(np.int32))
                ),
            }
        )

    def _range_query(self, first: int, last: int) -> str:
        """SQL for the pairs of the anchors first..last: anchor, other, number of shared documents."""
        anchors = f"FROM occurrences WHERE event BETWEEN {first} AND {last}"
        counted = "SELECT anchor, other, count(*) AS frequency FROM met GROUP BY anchor, other"
        if self.window is None:
            return (
                f"WITH anchors AS (SELECT document, event {anchors}),"
                " met AS (SELECT anchors.event AS anchor, others.event AS other FROM anchors"
                " JOIN occurrences AS others ON anchors.document = others.document"
                f" WHERE anchors.event <> others.event) {counted}"
            )
        # A join on blocks of the window's length compares each occurrence with at most three blocks; a join
        # on the document alone would compare it with all of a long book.
        return (
            f"WITH anchors AS (SELECT document, position, event,"
            f" position // {self.window} + unnest([-1, 0, 1]) AS block {anchors}),"
            f" others AS (SELECT document, position, event, position // {self.window} AS block"
            " FROM occurrences),"
            " met AS (SELECT DISTINCT anchors.event AS anchor, others.event AS other, anchors.document"
            " FROM anchors JOIN others ON anchors.document = others.document"
            " AND anchors.block = others.block WHERE anchors.event <> others.event"
            f" AND abs(anchors.position - others.position) <= {self.window}) {counted}"
        )


def normalise_frequencies(
    frequencies: npt.ArrayLike,
    minimum: float,
    maximum: float,
    method: Normalisation = "min_max",
) -> npt.NDArray[np.float64]:
    """Convert pair frequencies to weights of co-events in [0, 1] (SWCC, Eq. 6: the epsilon of a co-event).

    `min_max` is the paper's (f - minimum) / (maximum - minimum): a pair with the minimum frequency gets
    weight 0, and because frequencies are heavily skewed nearly every pair gets a weight close to 0.
    `log_min_max` is the same on logarithms. `constant` is 1 for every pair.

    Args:
        frequencies: pair frequencies, any shape.
        minimum: the lowest pair frequency of the corpus, from the build report.
        maximum: the highest pair frequency of the corpus.
        method: `min_max`, `log_min_max` or `constant`.

    Returns:
        Weights of the same shape. Frequencies outside [minimum, maximum] are clipped. If minimum equals
        maximum, every weight is 1.
    """
    values = np.asarray(frequencies, dtype=np.float64)
    if method == "constant" or maximum == minimum:
        return np.ones_like(values)
    values = np.clip(values, minimum, maximum)
    low, high = float(minimum), float(maximum)
    if method == "log_min_max":
        values, low, high = np.log(values), float(np.log(low)), float(np.log(high))
    return (values - low) / (high - low)


def _most_frequent(
    anchors: npt.NDArray[np.int64],
    others: npt.NDArray[np.int64],
    frequencies: npt.NDArray[np.int64],
    limit: int,
) -> npt.NDArray[np.bool_]:
    """Mark the `limit` most frequent pairs of each anchor; all arrays (pairs,), sorted by anchor.

    A hash of the other event's number, one-to-one for a given anchor, breaks ties: the order of the text
    would always favour the same first letters.
    """
    _, starts, lengths = np.unique(anchors, return_index=True, return_counts=True)
    crowded = np.flatnonzero(np.repeat(lengths > limit, lengths))
    kept = np.ones(len(anchors), dtype=np.bool_)
    if len(crowded):
        scrambled = (others[crowded] * 2654435761 + anchors[crowded] * 2246822519) & 0xFFFFFFFF
        scrambled = ((scrambled ^ (scrambled >> 16)) * 2146121005) & 0xFFFFFFFF
        ranked = crowded[np.lexsort((scrambled, -frequencies[crowded], anchors[crowded]))]
        # The sort stays within an anchor's own positions, so position minus start of the anchor is the rank.
        kept[ranked] = crowded - np.repeat(starts, lengths)[crowded] < limit
    return kept


def bytes_of(size: str) -> int:
    """Parse a size in DuckDB's notation to bytes: "2GB", "512 MiB"."""
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if match is None:
        raise ValueError(
            f"not a size in bytes: {shown(size)}; accepted: a number and a unit, such as 2GB or 512MiB"
        )
    base = 1024 if match[3] else 1000
    return int(float(match[1]) * base ** " kmgt".index(match[2].lower() or " "))
