"""Pairs as arrays: integer codes of texts, and the distinct premises and alternatives of a graph's pairs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset

from eventformers.errors import EventformersError

Codes = npt.NDArray[np.int64]
Positions = Codes

PADDING = -1
"""The padding of a row of codes, and the code of an unknown value."""


def text_column(table: pa.Table, name: str) -> pa.LargeStringArray:
    """Return a column of texts as one array."""
    return table.column(name).cast(pa.large_string()).combine_chunks()


def codes_of(values: pa.Array, distinct: pa.Array) -> Codes:
    """Return the index of each value in `distinct`; -1 for a value that is not in it."""
    places = pc.fill_null(pc.index_in(values, distinct), PADDING)
    return cast(Codes, places.to_numpy(zero_copy_only=False).astype(np.int64))


def padded(rows: Sequence[Codes], width: int | None = None, fill: int = PADDING) -> Codes:
    """Pad rows to one array `(rows, width)`; the default width is that of the longest row."""
    filled = np.full((len(rows), width or max(map(len, rows))), fill, dtype=np.int64)
    for place, row in enumerate(rows):
        filled[place, : len(row)] = row
    return filled


@dataclass(frozen=True)
class KnownPairs:
    """Distinct premises, distinct alternatives, and the alternatives of each premise.

    Attributes:
        premises: the distinct premises, in order of appearance.
        alternatives: the distinct alternatives, in order of appearance.
        offsets: `(premises + 1,)`; premise p has the entries `positions[offsets[p]:offsets[p + 1]]`.
        positions: positions in `alternatives`, ascending and distinct within a premise.
    """

    premises: list[str]
    alternatives: list[str]
    offsets: Positions
    positions: Positions


def known_pairs(pairs: Mapping[str, Dataset], splits: Collection[str] | None = None) -> KnownPairs:
    """Collect the distinct premises and alternatives of a graph's pairs.

    Args:
        pairs: splits by name, with the columns `premise` and `alternative`.
        splits: the splits to collect; None collects all.

    Raises:
        EventformersError: a split or a column is missing, or there are no rows.
    """
    chosen = choose_splits(pairs, splits)
    return pairs_of_texts(
        (text for name in chosen for text in pairs[name]["premise"]),
        (text for name in chosen for text in pairs[name]["alternative"]),
    )


def pairs_of_texts(premise_texts: Iterable[str], alternative_texts: Iterable[str]) -> KnownPairs:
    """Collect the distinct premises and alternatives of pairs.

    Args:
        alternative_texts: the alternative of each pair, in the same order.

    Raises:
        EventformersError: there are no pairs.
    """

    def numbered(texts: Iterable[str]) -> tuple[list[str], Positions]:
        numbers: dict[str, int] = {}
        places = np.fromiter((numbers.setdefault(text, len(numbers)) for text in texts), dtype=np.int64)
        return list(numbers), places

    premises, left = numbered(premise_texts)
    alternatives, right = numbered(alternative_texts)
    if not premises:
        raise EventformersError("the graph's splits have no pairs; accepted: at least one row")
    offsets, positions = grouped(left, right, len(premises), len(alternatives))
    return KnownPairs(premises, alternatives, offsets, positions)


def grouped(
    premise: Positions, alternative: Positions, num_premises: int, num_alternatives: int
) -> tuple[Positions, Positions]:
    """Group numbered pairs by their premise.

    Args:
        premise: `(pairs,)`, the index of each pair's premise.
        alternative: `(pairs,)`, the index of its alternative.

    Returns:
        `offsets` and `positions` of `KnownPairs`.
    """
    distinct = np.unique(premise * num_alternatives + alternative)
    counts = np.bincount(distinct // num_alternatives, minlength=num_premises)
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)]), distinct % num_alternatives


def choose_splits(pairs: Mapping[str, Dataset], splits: Collection[str] | None = None) -> list[str]:
    """Select the splits to read, in the order of the graph.

    Raises:
        EventformersError: a split is missing, or lacks the column `premise` or `alternative`.
    """
    missing = sorted(set(splits or ()) - set(pairs))
    if missing:
        raise EventformersError(f"no split {missing[0]!r}; accepted: {', '.join(pairs)}")
    chosen = [name for name in pairs if splits is None or name in splits]
    for name in chosen:
        columns = pairs[name].column_names
        if not {"premise", "alternative"} <= set(columns):
            raise EventformersError(
                f"the split {name!r} has the columns {', '.join(columns)}; accepted: a graph's pairs, with "
                "premise and alternative"
            )
    return chosen
