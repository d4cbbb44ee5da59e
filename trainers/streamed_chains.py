"""Streamed chains as numbers of distinct events, with a pool of events to draw from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa
from datasets import Dataset, IterableDataset

from eventformers.datasets_scripts.events import Event
from eventformers.datasets_scripts.known_pairs import Codes
from eventformers.errors import EventformersError
from eventformers.trainers.chain_rows import ChainRow, ChainRows, as_read, event_of, read_chains
from eventformers.trainers.streaming import indexed_stream

POOL_CHAINS = 10_000
"""Number of first chains whose events are drawn for substitution and as distractors."""

_BLOCK_CHAINS = 1_000


class StreamedRow(TypedDict):
    """A `ChainRow` with the joined roles of its events instead of their numbers."""

    row: int
    events: list[str]
    chain_events: list[str]


def stream_chains(
    chains: IterableDataset, seed: int, max_chain_length: int, *, all_windows: bool
) -> tuple[IterableDataset, ChainRows]:
    """Make the rows of `ChainRows` from a stream.

    Args:
        chains: rows with a column `events`.
        seed: seed of the order.
        max_chain_length: as for `ChainRows`.
        all_windows: as for `ChainRows`.

    Returns:
        The endless stream of `StreamedRow`, and the first `POOL_CHAINS` chains.
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
    return indexed_stream(read.map(rows_of, batched=True, batch_size=_BLOCK_CHAINS), seed), pool


class StreamedChains:
    """The events of a pool and those of the current batch, by number.

    Args:
        pool: the chains of the pool.

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

    def numbered(self, rows: Sequence[StreamedRow], *, substitutes: bool) -> list[ChainRow]:
        """Number the events of a batch; the numbers hold until the next call.

        Args:
            rows: the rows.
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

        found: list[ChainRow] = []
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
