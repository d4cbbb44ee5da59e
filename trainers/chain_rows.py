"""Chains of a dataset as numbers of distinct events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypedDict, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset
from torch.utils.data import Dataset as TorchDataset

from eventformers.datasets_scripts.events import EVENT_ORDERS, Event
from eventformers.trainers.chain_corruption import LEAST_EVENTS

_ROLES = EVENT_ORDERS["subject_predicate_object"]
_SEPARATOR = "\x1f"

Codes = npt.NDArray[np.int64]


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
        chains: rows with a column `events`.
        max_chain_length: maximum number of events of a row.
        all_windows: split a longer chain into several disjoint rows of at least three events; False takes
            only its first events.

    Attributes:
        occurrences: the number of every event of every chain, with repetitions.
        reading: a number for the text of each distinct event, equal for equal texts.
        skipped: number of left-out chains and events, by reason.
    """

    def __init__(self, chains: Dataset, max_chain_length: int, *, all_windows: bool = False) -> None:
        # `.data` ignores the indices of a selection.
        column = chains.with_format("arrow")[:].column("events").combine_chunks()
        events = column.flatten()
        roles = [pc.struct_field(events, role).cast(pa.large_string()) for role in _ROLES]
        encoded = pc.binary_join_element_wise(
            *roles, pa.scalar(_SEPARATOR, pa.large_string())
        ).dictionary_encode()
        self.occurrences = cast(Codes, encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64))
        self._events = encoded.dictionary
        texts = pc.utf8_lower(pc.utf8_trim(pc.replace_substring_regex(self._events, "\x1f+", " "), " "))
        self.reading = cast(Codes, texts.dictionary_encode().indices.to_numpy(zero_copy_only=False))
        lengths = column.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
        self._chain_starts = np.concatenate([[0], np.cumsum(lengths)])
        self.skipped = {
            "chain_with_fewer_than_three_events": int((lengths < LEAST_EVENTS).sum()),
            "chain_of_equal_events": 0,
            "event_beyond_max_chain_length": 0,
        }
        windows = list(self._windows(lengths, max_chain_length, all_windows))
        self._windows_of_rows = np.array(windows, dtype=np.int64).reshape(-1, 3)

    def _windows(
        self, lengths: Codes, max_chain_length: int, all_windows: bool
    ) -> Iterator[tuple[int, int, int]]:
        """Yield the chain, the first event and the end of each row."""
        for chain in np.flatnonzero(lengths >= LEAST_EVENTS):
            start, end = self._chain_starts[chain : chain + 2]
            reading = self.reading[self.occurrences[start:end]]
            if (reading == reading[0]).all():
                self.skipped["chain_of_equal_events"] += 1
                continue
            left_out = end - start
            for first in range(start, end if all_windows else start + 1, max_chain_length):
                window_end = min(first + max_chain_length, end)
                part = reading[first - start : window_end - start]
                if len(part) >= LEAST_EVENTS and (part != part[0]).any():
                    yield int(chain), int(first), int(window_end)
                    left_out -= len(part)
            self.skipped["event_beyond_max_chain_length"] += int(left_out)

    def events(self, numbers: Sequence[int] | Codes) -> list[Event]:
        """Return the events with these numbers."""
        joined = self._events.take(pa.array(numbers, type=pa.int64())).to_pylist()
        return [cast(Event, dict(zip(_ROLES, text.split(_SEPARATOR), strict=True))) for text in joined]

    def most_readings(self) -> int:
        """Return the maximum number of distinct event texts in a chain."""
        bounds = zip(self._chain_starts[:-1], self._chain_starts[1:], strict=True)
        return max((len(set(self.reading[self.occurrences[a:b]])) for a, b in bounds), default=0)

    def __len__(self) -> int:
        return len(self._windows_of_rows)

    def __getitem__(self, index: int) -> ChainRow:
        """Return a row."""
        chain, first, end = self._windows_of_rows[index]
        start, chain_end = self._chain_starts[chain : chain + 2]
        return {
            "row": index,
            "events": self.occurrences[first:end],
            "chain_events": self.occurrences[start:chain_end],
        }
