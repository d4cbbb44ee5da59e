# ruff: noqa: S608 - the only values written into SQL here are numbers of our own
"""Which events occur in the same documents, counted out of core with bounded memory.

Co-occurrence in a document is the weak supervision of SWCC (Gao et al., ACL 2022, section 3.2). The counts
are made by DuckDB on disk, one range of anchor events after another, so that neither the distinct events
nor the pairs need to fit into memory at once.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eventformers.datasets_scripts.events import Event
from eventformers.errors import shown

if TYPE_CHECKING:
    import duckdb

Normalisation = Literal["min_max", "log_min_max", "constant"]
NORMALISATIONS: tuple[Normalisation, ...] = ("min_max", "log_min_max", "constant")

_INGEST_ROWS = 200_000
_BYTES_PER_PAIR = 400
"""What a pair takes while its range is counted, in DuckDB and after; it only sizes the ranges."""

_SIZE = re.compile(r"\s*([0-9]{1,20}(?:\.[0-9]{1,20})?|\.[0-9]{1,20})\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)

_OCCURRENCE_SCHEMA = pa.schema(
    [
        ("document", pa.int32()),
        ("position", pa.int32()),
        ("subject", pa.string()),
        ("predicate", pa.string()),
        ("object", pa.string()),
    ]
)


@dataclass
class CooccurrenceStatistics:
    """What was counted. Pairs are directed: (a, b) and (b, a) are two."""

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

    Use it as a context manager: its database lies in a temporary folder that goes with it. Add documents,
    then read `tables()` once.

    The frequency of a pair is the number of documents in which both events occur, not further apart than
    `window`. A pair of an event with itself is left out.

    Args:
        min_event_frequency: events with fewer occurrences are left out. They still count as places for
            `window`.
        min_pair_frequency: pairs in fewer documents are left out.
        window: the largest distance of two events, in events of their document; None takes the whole
            document, at a cost that grows with the square of its length.
        max_co_events: how many co-events an event keeps, the most frequent first; among equally frequent
            ones a fixed pseudo-random choice, which favours no spelling. None keeps all.
        memory_limit: what DuckDB may hold in memory before it spills to disk, as in "2GB".
        threads: worker threads; None takes all processors.
        temporary_directory: where the database and what spills lie; None takes the system's.
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
        temporary_directory: str | Path | None = None,
    ) -> None:
        self.min_event_frequency = min_event_frequency
        self.min_pair_frequency = min_pair_frequency
        self.window = window
        self.max_co_events = max_co_events
        self.statistics = CooccurrenceStatistics()
        self._memory_bytes = bytes_of(memory_limit)
        self._folder = tempfile.TemporaryDirectory(prefix="cooccurrence-", dir=temporary_directory)
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

    def __enter__(self) -> CooccurrenceCounter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the database and everything that was spilled."""
        self._database.close()
        self._folder.cleanup()

    def add(self, events: Iterable[Event]) -> None:
        """Add one document: its events in their order."""
        document = self.statistics.documents
        self.statistics.documents += 1
        position = -1
        for position, event in enumerate(events):
            self._documents.append(document)
            self._positions.append(position)
            self._subjects.append(event["subject"])
            self._predicates.append(event["predicate"])
            self._objects.append(event["object"])
        self.statistics.occurrences += position + 1
        if len(self._documents) >= _INGEST_ROWS:
            self._flush()

    def tables(self) -> Iterator[pa.Table]:
        """The rows `event, co_events, frequencies`, one table for each range of events.

        Rows are sorted by subject, predicate and object (by bytes); co-events by falling frequency, then in
        the same order. An event that has no co-event has no row.
        """
        self._flush()
        events = self._number_events()
        weights = self._pair_bounds(events.num_rows)
        struct = pa.StructArray.from_arrays(
            [events.column(name).combine_chunks() for name in ("subject", "predicate", "object")],
            names=["subject", "predicate", "object"],
        )
        for first, last in self._ranges(weights):
            table = self._count_range(first, last, struct)
            if table.num_rows:
                yield table
        self.statistics.events_without_co_event = (
            self.statistics.distinct_events
            - self.statistics.events_below_minimum_frequency
            - self.statistics.rows
        )

    def _clear_columns(self) -> None:
        self._documents: list[int] = []
        self._positions: list[int] = []
        self._subjects: list[str] = []
        self._predicates: list[str] = []
        self._objects: list[str] = []

    def _flush(self) -> None:
        columns = [self._documents, self._positions, self._subjects, self._predicates, self._objects]
        batch = pa.table(columns, schema=_OCCURRENCE_SCHEMA)
        self._database.register("batch", batch)
        self._database.execute("INSERT INTO raw SELECT * FROM batch")
        self._database.unregister("batch")
        self._clear_columns()

    def _number_events(self) -> pa.Table:
        """Number the frequent events in the order of their text and replace the raw rows by numbers."""
        database = self._database
        database.execute(
            "CREATE TABLE counted AS SELECT subject, predicate, object, count(*) AS frequency FROM raw"
            " GROUP BY ALL"
        )
        total, rare = _one_row(
            database.execute(
                "SELECT count(*), count(*) FILTER (frequency < ?) FROM counted", [self.min_event_frequency]
            )
        )
        self.statistics.distinct_events, self.statistics.events_below_minimum_frequency = total, rare
        database.execute(
            "CREATE TABLE events AS SELECT (row_number() OVER (ORDER BY subject, predicate, object) - 1)"
            "::INTEGER AS event, subject, predicate, object FROM counted WHERE frequency >= ?",
            [self.min_event_frequency],
        )
        # Within a whole document only presence counts; within a window every occurrence has its place.
        columns = "DISTINCT document, event" if self.window is None else "document, position, event"
        database.execute(
            f"CREATE TABLE occurrences AS SELECT {columns} FROM raw"
            " JOIN events USING (subject, predicate, object)"
        )
        database.execute("DROP TABLE raw; DROP TABLE counted")
        table = database.sql("SELECT subject, predicate, object FROM events ORDER BY event").to_arrow_table()
        database.execute("DROP TABLE events")
        return table

    def _pair_bounds(self, num_events: int) -> npt.NDArray[np.int64]:
        """For every event an upper bound of the places where a co-event can stand; shape (events,)."""
        reach = "n - 1" if self.window is None else f"least(n - 1, {2 * self.window})"
        rows = self._database.execute(
            f"SELECT event, sum({reach})::BIGINT AS bound FROM occurrences"
            " JOIN (SELECT document, count(*) AS n FROM occurrences GROUP BY document) USING (document)"
            " GROUP BY event"
        ).fetchnumpy()
        bounds = np.zeros(num_events, dtype=np.int64)
        bounds[np.asarray(rows["event"])] = np.asarray(rows["bound"])
        return bounds

    def _ranges(self, bounds: npt.NDArray[np.int64]) -> Iterator[tuple[int, int]]:
        """Ranges [first, last] of event numbers whose pairs fit into the memory limit together."""
        budget = max(1, self._memory_bytes // _BYTES_PER_PAIR)
        ends = np.cumsum(bounds)
        first = 0
        while first < len(bounds):
            reached = ends[first - 1] if first else 0
            last = int(np.searchsorted(ends, reached + budget, side="right")) - 1
            last = max(last, first)
            yield first, last
            first = last + 1

    def _count_range(self, first: int, last: int, events: pa.StructArray) -> pa.Table:
        """Count the pairs of the anchor events first..last and make rows of them."""
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
        # A join on blocks of the window's length looks at no more than three blocks for an occurrence,
        # where a join on the document alone would look at all of a long book.
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
    """Weights of co-events in [0, 1] from their pair frequencies (SWCC, Eq. 6: the epsilon of a co-event).

    `min_max` is (f - minimum) / (maximum - minimum), the paper's: a pair at the minimum weighs exactly 0,
    and as frequencies fall off steeply nearly every pair weighs almost nothing. `log_min_max` does the same
    with logarithms. `constant` weighs every pair 1.

    Args:
        frequencies: pair frequencies, any shape.
        minimum: the lowest pair frequency of the corpus, as the build report states it.
        maximum: the highest one.
        method: `min_max`, `log_min_max` or `constant`.

    Returns:
        Weights of the same shape. Frequencies outside [minimum, maximum] are clipped to it. Where minimum
        and maximum are equal, every weight is 1.

    Raises:
        ValueError: unknown method, maximum below minimum, or a minimum below 1 under `log_min_max`.
    """
    values = np.asarray(frequencies, dtype=np.float64)
    if method not in NORMALISATIONS:
        raise ValueError(f"unknown normalisation {method!r}; accepted: {', '.join(NORMALISATIONS)}")
    if maximum < minimum:
        raise ValueError(f"the maximum frequency {maximum} is below the minimum {minimum}")
    if method == "constant" or maximum == minimum:
        return np.ones_like(values)
    values = np.clip(values, minimum, maximum)
    low, high = float(minimum), float(maximum)
    if method == "log_min_max":
        if minimum < 1:
            raise ValueError(f"log_min_max needs a minimum frequency of 1 or more, not {minimum}")
        values, low, high = np.log(values), float(np.log(low)), float(np.log(high))
    return (values - low) / (high - low)


def _most_frequent(
    anchors: npt.NDArray[np.int64],
    others: npt.NDArray[np.int64],
    frequencies: npt.NDArray[np.int64],
    limit: int,
) -> npt.NDArray[np.bool_]:
    """Which pairs are among the `limit` most frequent of their anchor; all arrays (pairs,), anchors sorted.

    Equal frequencies are chosen among by a scramble of the other event's number that is one-to-one for a
    given anchor: the order of the text would always favour the same first letters.
    """
    _, starts, lengths = np.unique(anchors, return_index=True, return_counts=True)
    crowded = np.flatnonzero(np.repeat(lengths > limit, lengths))
    kept = np.ones(len(anchors), dtype=np.bool_)
    if len(crowded):
        scrambled = (others[crowded] * 2654435761 + anchors[crowded] * 2246822519) & 0xFFFFFFFF
        scrambled = ((scrambled ^ (scrambled >> 16)) * 2146121005) & 0xFFFFFFFF
        ranked = crowded[np.lexsort((scrambled, -frequencies[crowded], anchors[crowded]))]
        # Sorting stays inside an anchor's own places, so a place minus its anchor's start is a rank.
        kept[ranked] = crowded - np.repeat(starts, lengths)[crowded] < limit
    return kept


def _one_row(result: duckdb.DuckDBPyConnection) -> tuple[int, ...]:
    row = result.fetchone()
    return tuple(row) if row is not None else ()


def bytes_of(size: str) -> int:
    """The bytes of a size as DuckDB writes it: "2GB", "512 MiB"."""
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if match is None:
        raise ValueError(
            f"no size in bytes: {shown(size)}; accepted: a number and a unit, as in 2GB or 512MiB"
        )
    base = 1024 if match[3] else 1000
    return int(float(match[1]) * base ** " kmgt".index(match[2].lower() or " "))
