"""Chains of a dataset as numbers of distinct events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain as chained
from typing import Any, TypedDict, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset
from torch.utils.data import Dataset as TorchDataset

from eventformers.datasets_scripts.chains import EventPool
from eventformers.datasets_scripts.events import EVENT_ORDERS, Event
from eventformers.datasets_scripts.known_pairs import Codes
from eventformers.trainers.cached_arrays import Arrays
from eventformers.trainers.chain_corruption import LEAST_EVENTS

_ROLES = EVENT_ORDERS["subject_predicate_object"]
_SEPARATOR = "\x1f"
_BLOCK_CHAINS = 10_000
_BLOCK_EVENTS = 100_000


class ChainRow(TypedDict):
    """A row of `ChainRows`: its number, its events, and all events of its chain."""

    row: int
    events: Codes
    chain_events: Codes


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

    def __getitem__(self, index: int) -> ChainRow:
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
            yield _join_roles(column.flatten())

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


def _join_roles(events: pa.StructArray) -> pa.Array:
    roles = [pc.struct_field(events, role).cast(pa.large_string()) for role in _ROLES]
    return pc.binary_join_element_wise(*roles, pa.scalar(_SEPARATOR, pa.large_string()))


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
