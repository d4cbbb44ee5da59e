"""Chains as numbers of distinct events: of a dataset, with windows of whole documents, or of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain as chained
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset, DatasetDict, IterableDataset, concatenate_datasets
from torch.utils.data import Dataset as TorchDataset

from eventformers.datasets_scripts.chains import EventPool, distinct_events
from eventformers.datasets_scripts.document_splits import RepeatedDocuments
from eventformers.datasets_scripts.event_chains import EventChainsConfig
from eventformers.datasets_scripts.events import EVENT_ORDERS, Event
from eventformers.datasets_scripts.fingerprints import dataset_fingerprint
from eventformers.datasets_scripts.known_pairs import Codes
from eventformers.datasets_scripts.loading import built_report, load_built
from eventformers.errors import EventformersError
from eventformers.trainers.cached_arrays import Arrays, cached_arrays
from eventformers.trainers.chain_corruption import LEAST_EVENTS
from eventformers.trainers.method import indexed_stream

_ROLES = EVENT_ORDERS["subject_predicate_object"]
_SEPARATOR = "\x1f"
_BLOCK_CHAINS = 10_000
_BLOCK_EVENTS = 100_000
_BLOCK_STREAMED = 1_000


Row = dict[str, Any]
"""A row: its number `row`, its `events`, and all `chain_events` of its chain; the events by number, those of
streamed chains by their joined roles."""


class ChainRows(TorchDataset):
    """Windows of at most `max_chain_length` events, as numbers of distinct events.

    Chains with fewer than three events, which have no segments, and chains whose events all have the same
    text, which have no other order, are left out.

    Args:
        chains: the arrays of `read_chains`; and, if some chains occur more than once in an epoch, `times`,
            how often each does.
        max_chain_length: maximum number of events of a row.
        all_windows: split a longer chain into several disjoint rows of at least three events; False takes
            only its first events.

    Attributes:
        reading: a number for the text of each distinct event, equal for equal texts.
        skipped: number of left-out chains and events, by reason.
    """

    def __init__(self, chains: Arrays, max_chain_length: int, *, all_windows: bool = False) -> None:
        self._in_chains, self.reading = chains["occurrences"], chains["reading"]
        self._events = pa.LargeStringArray.from_buffers(
            len(self.reading), pa.py_buffer(chains["event_starts"]), pa.py_buffer(chains["characters"])
        )
        self._chain_starts = chains["chain_starts"]
        lengths = np.diff(self._chain_starts)
        self._times = chains.get("times", np.ones_like(lengths))
        # Repetitions are counted, not stored: scarce chains may have many.
        self._drawn_starts = _starts(self._times * lengths)
        self.skipped: dict[str, int] = {}
        self._windows = self._cut(max_chain_length, all_windows)
        self._row_starts = _starts(self._times[self._windows[:, 0]])

    def _cut(self, max_chain_length: int, all_windows: bool) -> Codes:
        """Return chain, first event and end of each window, `(windows, 3)`, and count what is skipped."""
        reading = self.reading[self._in_chains]
        changes = np.zeros(len(reading) + 1, dtype=np.int64)
        changes[1:-1] = np.cumsum(reading[1:] != reading[:-1])

        def differ(starts: Codes, ends: Codes) -> npt.NDArray[np.bool_]:
            """Return whether the texts of the events from each start to its end differ."""
            return changes[np.maximum(ends - 1, starts)] > changes[starts]

        starts, ends = self._chain_starts[:-1], self._chain_starts[1:]
        is_long = ends - starts >= LEAST_EVENTS
        is_chain = is_long & differ(starts, ends)
        kept = np.flatnonzero(is_chain)
        counts = -(-(ends - starts)[kept] // max_chain_length) if all_windows else np.ones_like(kept)
        chain = np.repeat(kept, counts)
        place = np.arange(len(chain)) - np.repeat(np.cumsum(counts) - counts, counts)
        first = starts[chain] + place * max_chain_length
        end = np.minimum(first + max_chain_length, ends[chain])
        is_row = (end - first >= LEAST_EVENTS) & differ(first, end)
        self.skipped = {
            "chain_with_fewer_than_three_events": int((~is_long).sum()),
            "chain_of_equal_events": int((is_long & ~is_chain).sum()),
            "event_beyond_max_chain_length": int((ends - starts)[kept].sum() - (end - first)[is_row].sum()),
        }
        return np.stack([chain, first, end], axis=-1)[is_row]

    @property
    def num_chains(self) -> int:
        """Number of chains, including those that are left out."""
        return len(self._chain_starts) - 1

    def draw(self, generator: np.random.Generator, size: int) -> Codes:
        """Draw numbers of events of all chains, each as often as an epoch has it."""
        chain, place = _located(self._drawn_starts, generator.integers(self._drawn_starts[-1], size=size))
        return self._in_chains[self._chain_starts[chain] + place // self._times[chain]]

    def event_pool(self) -> EventPool:
        """Return the events of all chains to draw from, each as often as an epoch has it."""
        times = np.repeat(self._times, np.diff(self._chain_starts))
        counts = np.zeros_like(self.reading)
        for number in np.unique(self._times):
            counts += number * np.bincount(self._in_chains[times == number], minlength=len(counts))
        roles = (pc.list_flatten(pc.split_pattern(block, _SEPARATOR)) for block in _blocks(self._events))
        numbers, texts = _encode(roles)
        return EventPool(texts.to_pylist(), numbers.reshape(-1, len(_ROLES)), counts)

    def events(self, numbers: Sequence[int] | Codes) -> list[Event]:
        """Return the events with these numbers."""
        return [event_of(text) for text in self.joined(numbers)]

    def joined(self, numbers: Sequence[int] | Codes) -> list[str]:
        """Return the joined roles of the events with these numbers, for `event_of`."""
        return self._events.take(pa.array(numbers, type=pa.int64())).to_pylist()

    def has_chain_of_all_texts(self) -> bool:
        """Return whether a chain has the text of every event of the data."""
        size = self.reading.max(initial=-1) + 1
        starts, ends = self._chain_starts[:-1], self._chain_starts[1:]
        return any(
            len(np.unique(self.reading[self._in_chains[starts[chain] : ends[chain]]])) == size
            for chain in np.flatnonzero(ends - starts >= size)
        )

    def __len__(self) -> int:
        return int(self._row_starts[-1])

    def __getitem__(self, index: int) -> Row:
        """Return a row."""
        window, _ = _located(self._row_starts, np.int64(index))
        chain, first, end = self._windows[window]
        start, chain_end = self._chain_starts[chain : chain + 2]
        return {
            "row": index,
            "events": self._in_chains[first:end],
            "chain_events": self._in_chains[start:chain_end],
        }


def event_of(joined: str) -> Event:
    """Return the event with these joined roles."""
    return cast(Event, dict(zip(_ROLES, joined.split(_SEPARATOR), strict=True)))


def read_chains(chains: Dataset) -> dict[str, npt.NDArray[Any]]:
    """Number the distinct events of chains, for `ChainRows` and `cached_arrays`.

    Args:
        chains: rows with a column `events`.

    Returns:
        `occurrences`, the number of every event of every chain; `reading` as in `ChainRows`;
        `chain_starts`, the position in `occurrences` of the first event of each chain, and the end of the
        last one; `characters` and `event_starts`, the roles of each distinct event as UTF-8, and the first
        byte of each event, and the end of the last one.
    """
    # In blocks, so that the joined texts of all occurrences are never in memory together.
    tables = chains.select_columns(["events"]).with_format("arrow").iter(_BLOCK_CHAINS)
    lengths: list[Codes] = [np.zeros(1, dtype=np.int64)]

    def joined() -> Iterator[pa.Array]:
        for table in tables:
            column = table.column("events").combine_chunks()
            lengths.append(column.value_lengths().to_numpy())
            events = column.flatten()
            roles = [pc.struct_field(events, role).cast(pa.large_string()) for role in _ROLES]
            yield pc.binary_join_element_wise(*roles, pa.scalar(_SEPARATOR, pa.large_string()))

    occurrences, events = _encode(joined())
    _, starts, characters = events.buffers()
    return {
        "occurrences": occurrences,
        "reading": _encode(map(as_read, _blocks(events)))[0],
        "chain_starts": np.cumsum(np.concatenate(lengths)),
        "event_starts": np.frombuffer(starts, dtype=np.int64, count=len(events) + 1),
        "characters": np.frombuffer(characters, dtype=np.uint8),
    }


def _starts(lengths: Codes) -> Codes:
    """Return the first place of each part, and the end of the last one."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])


def _located(starts: Codes, numbers: Codes | np.int64) -> tuple[Codes, Codes]:
    """Return the part that holds each number, and the number's place in it."""
    parts = np.searchsorted(starts, numbers, side="right") - 1
    return parts, numbers - starts[parts]


def _blocks(events: pa.Array) -> Iterator[pa.Array]:
    for start in range(0, len(events), _BLOCK_EVENTS):
        yield events.slice(start, _BLOCK_EVENTS)


def as_read(events: pa.Array) -> pa.Array:
    """Return the text of events of joined roles, in lower case; an absent role leaves no blank."""
    between = pc.replace_substring(events, _SEPARATOR * 2, " ")
    return pc.utf8_lower(pc.utf8_trim(pc.replace_substring(between, _SEPARATOR, " "), " "))


def _encode(blocks: Iterable[pa.Array]) -> tuple[Codes, pa.Array]:
    """Number texts by their first occurrence; return the number of each text, and the distinct texts."""
    encoded = [block.dictionary_encode() for block in chained([pa.array([], pa.large_string())], blocks)]
    parts = pa.chunked_array(encoded).unify_dictionaries().chunks
    numbers = np.concatenate([part.indices.to_numpy() for part in parts])
    return numbers.astype(np.int64), parts[0].dictionary


POOL_CHAINS = 10_000
"""Number of first chains whose events are drawn for substitution and as distractors."""


def stream_chains(
    chains: IterableDataset, seed: int, max_chain_length: int, *, all_windows: bool
) -> tuple[IterableDataset, ChainRows]:
    """Make the rows of `ChainRows` from a stream.

    Args:
        chains: rows with a column `events`.

    Returns:
        The endless stream of rows, and the first `POOL_CHAINS` chains.
    """

    def windows(block: Mapping[str, Any]) -> ChainRows:
        arrays = read_chains(Dataset.from_dict({"events": block["events"]}))
        return ChainRows(arrays, max_chain_length, all_windows=all_windows)

    def rows_of(block: Mapping[str, Any]) -> dict[str, list[list[str]]]:
        rows = windows(block)
        found = [rows[place] for place in range(len(rows))]
        return {
            "events": [rows.joined(row["events"]) for row in found],
            "chain_events": [rows.joined(row["chain_events"]) for row in found],
        }

    read = chains.select_columns(["events"])
    pool = windows(next(iter(read.iter(POOL_CHAINS)), {"events": []}))
    return indexed_stream(read.map(rows_of, batched=True, batch_size=_BLOCK_STREAMED), seed), pool


class StreamedChains:
    """The events of a pool and those of the current batch, by number.

    Attributes:
        draw: as in `ChainRows`, of the pool.
        reading: as in `ChainRows`, of the pool and the batch.
    """

    def __init__(self, pool: ChainRows) -> None:
        self.draw = pool.draw
        self.reading = self._pool_reading = pool.reading
        self._joined = self._pool_joined = pool.joined(np.arange(len(pool.reading)))
        self._numbers = {text: number for number, text in enumerate(self._pool_joined)}
        self._codes = dict(zip(_as_read(self._pool_joined), pool.reading.tolist(), strict=True))

    def numbered(self, rows: Sequence[Row], *, substitutes: bool) -> list[Row]:
        """Number the events of a batch; the numbers hold until the next call.

        Args:
            substitutes: whether the pool must have other events than each chain.

        Raises:
            EventformersError: a chain has the text of every event of the pool.
        """
        texts = dict.fromkeys(text for row in rows for text in row["chain_events"])
        new = [text for text in texts if text not in self._numbers]
        numbers = {text: len(self._pool_joined) + place for place, text in enumerate(new)}
        codes: dict[str, int] = {}
        readings = [
            self._codes[text]
            if text in self._codes
            else codes.setdefault(text, len(self._codes) + len(codes))
            for text in _as_read(new)
        ]
        self._joined = self._pool_joined + new
        self.reading = np.concatenate([self._pool_reading, np.array(readings, dtype=np.int64)])

        def numbers_of(events: Sequence[str]) -> Codes:
            return np.array([self._numbers.get(text, numbers.get(text)) for text in events], dtype=np.int64)

        found: list[Row] = []
        for row in rows:
            chain_events = numbers_of(row["chain_events"])
            own = np.unique(self.reading[chain_events])
            if substitutes and (own < len(self._codes)).sum() == len(self._codes):
                raise EventformersError(
                    f"found a chain that contains all events of the first {POOL_CHAINS} chains, so there are "
                    "none to substitute; accepted: more chains, or replacement_weight=0 and "
                    "composition_weight=0"
                )
            events = numbers_of(row["events"])
            found.append({"row": row["row"], "events": events, "chain_events": chain_events})
        return found

    def events(self, numbers: Sequence[int] | Codes) -> list[Event]:
        """Return the events with these numbers."""
        return [event_of(self._joined[number]) for number in numbers]


def _as_read(joined: Sequence[str]) -> list[str]:
    return as_read(pa.array(joined, pa.large_string())).to_pylist()


_SPLIT = "train"
MOST_REPEATS = 20


def load_training_documents(data: str | None, builder: str, settings: Mapping[str, Any]) -> Dataset:
    """Load the documents of the split train of `chains`, including documents without chains.

    Documents that were built without a split are split like their chains; repeated documents and the contexts
    of cloze files, which give no chains, are dropped.

    Raises:
        EventformersError: built documents belong to another split, or come from other files than the chains;
            or an error of `load_built`.
    """
    documents, of_documents, of_chains = _load(data, builder, {**settings, "document_split": _SPLIT})
    built_with = of_documents.get("settings", {})
    if built_with.get("document_split") == _SPLIT:
        return documents
    files, chain_files = map(_raw_files, (of_documents, of_chains))
    cloze_sources = _cloze_sources(of_documents, of_chains)
    if (
        built_with.get("document_split") is not None
        or not chain_files <= files
        or len(cloze_sources) < len(files - chain_files)
    ):
        raise EventformersError(
            f"{data}, documents: built with document_split={built_with.get('document_split')} or from other "
            f"files than the chains; accepted: built with --set document_split={_SPLIT}, or document_share=0"
        )
    config = EventChainsConfig(**of_chains["settings"])
    repeats = RepeatedDocuments()
    for row in documents:
        if len(row["events"]) >= config.min_chain_length:
            repeats.add(row["document_id"], row["events"])
    return documents.filter(
        lambda row: (
            row["source"] not in cloze_sources
            and config.splits.split_of(row["document_id"]) == _SPLIT
            and not repeats.is_repeat(row["document_id"], row["events"])
        )
    )


def _load(
    data: str | None, builder: str, settings: Mapping[str, Any]
) -> tuple[Dataset, dict[str, Any], dict[str, Any]]:
    """Load the documents of the split train, their build report and that of the chains."""
    documents = cast(DatasetDict, load_built(data, "documents", builder=builder, **settings))[_SPLIT]
    of_documents, of_chains = (
        built_report(data, config, builder=builder, **settings) for config in ("documents", "chains")
    )
    return documents, of_documents, of_chains


def _raw_files(report: Mapping[str, Any]) -> set[tuple[str, str]]:
    return {(file["name"], file["sha256"]) for file in report["raw_files"]}


def _cloze_sources(of_documents: Mapping[str, Any], of_chains: Mapping[str, Any]) -> set[str]:
    """Return the sources of the contexts of cloze files, whose files give documents but no chains."""
    names = (name for name, _ in _raw_files(of_documents) - _raw_files(of_chains))
    return {Path(name).stem for name in names if name.endswith(".txt")}


def load_cloze_contexts(data: str | None, builder: str, settings: Mapping[str, Any]) -> Dataset:
    """Load the contexts of the cloze files of Weber et al., one document for each item.

    Held-out events and wrong candidates are not among them.

    Returns:
        The documents; none if the data have no cloze files, or documents that were built with a split.

    Raises:
        EventformersError: an error of `load_built`.
    """
    # Documents that were built with a split have none, and need no warning about their setting.
    settings = {name: value for name, value in settings.items() if name != "document_split"}
    documents, of_documents, of_chains = _load(data, builder, settings)
    sources = sorted(_cloze_sources(of_documents, of_chains))
    return documents.select(np.flatnonzero(np.isin(documents["source"], sources)))


def with_windows(
    chains: Dataset,
    sources: Sequence[tuple[Dataset, float]],
    length: int,
    least: int,
) -> list[tuple[Dataset, float]]:
    """Add windows of documents to chains.

    The windows of a document are consecutive and disjoint and hold its distinct events of all protagonists.

    Args:
        chains: rows with a column `events`.
        sources: documents, rows with a column `events`, and the share of their windows among all rows; the
            rest are chains.

    Returns:
        The chains, then the windows of each source, rows with only the column `events`, each with their
        share. Rows whose share is 0 are left out.
    """
    chains = chains.select_columns(["events"])

    def cut(batch: dict[str, list[list[Event]]]) -> dict[str, list[Sequence[Event]]]:
        windows: list[Sequence[Event]] = []
        for events in map(distinct_events, batch["events"]):
            windows += (events[start : start + length] for start in range(0, len(events), length))
        return {"events": [window for window in windows if len(window) >= least]}

    parts = [(chains, 1 - sum(share for _, share in sources))]
    for documents, share in sources:
        windows = documents.select_columns(["events"]).map(cut, batched=True, features=chains.features)
        parts.append((windows, share))
    return [(rows if share else rows.select([]), share) for rows, share in parts]


def times_of_rows(sizes: Sequence[int], shares: Sequence[float], seed: int) -> list[npt.NDArray[np.int64]]:
    """Return how often each row of each source occurs in an epoch, so that the sources have their shares.

    Every row occurs at least once. Rows of sources that are too few for their share are repeated, at most
    `MOST_REPEATS` times.

    Args:
        sizes: number of rows of each source.
        shares: share of each source among all rows; the shares of sources without rows go to all others.
        seed: seed of which rows occur once more than others.
    """
    total = max((size / share for size, share in zip(sizes, shares, strict=True) if size), default=0)
    draws = np.random.default_rng(seed)
    times = []
    for size, share in zip(sizes, shares, strict=True):
        count = min(max(round(total * share), size), size * MOST_REPEATS)
        whole, more = divmod(count, max(size, 1))
        of_rows = np.full(size, whole)
        of_rows[draws.permutation(size)[:more]] += 1
        times.append(of_rows)
    return times


def read_chains_once(
    chains: Dataset,
    data: str | None,
    builder: str,
    settings: Mapping[str, Any],
    *,
    share: float,
    cloze_share: float,
    length: int,
    seed: int,
) -> Arrays:
    """Read the training chains and the windows of documents, or take them from the cache.

    Args:
        chains: rows with a column `events`.
        data: their raw or built data, which has the documents.
        share: share of windows among all rows; 0 reads no documents.
        cloze_share: share of the contexts of cloze files among the windows, if the data have such files.

    Returns:
        The arrays of `ChainRows`, and `sizes`, the numbers of chains and of windows of each kind of document.
    """
    chains = chains.select_columns(["events"])
    least = EventChainsConfig(**settings).min_chain_length
    decides: list[object] = [dataset_fingerprint(chains), share, MOST_REPEATS]
    if share:
        # What the result of `load_training_documents` depends on.
        documents, *reports = _load(data, builder, {**settings, "document_split": _SPLIT})
        parts = [report.get(part) for report in reports for part in ("settings", "raw_files")]
        decides += [dataset_fingerprint(documents), *parts, length, least, seed]
    sources: list[tuple[Dataset, float]] = []
    if share and cloze_share:
        contexts = load_cloze_contexts(data, builder, settings)
        decides += [dataset_fingerprint(contexts), cloze_share]
        if len(contexts):
            sources.append((contexts, share * cloze_share))

    def read() -> Arrays:
        if share:
            documents = load_training_documents(data, builder, settings)
            sources.append((documents, share - sum(of_contexts for _, of_contexts in sources)))
        rows, shares = zip(*with_windows(chains, sources, length, least), strict=True)
        sizes = [len(part) for part in rows]
        times = np.concatenate(times_of_rows(sizes, shares, seed))
        return {**read_chains(concatenate_datasets(rows)), "times": times, "sizes": np.array(sizes)}

    return cached_arrays("chains_and_windows", decides, read)
