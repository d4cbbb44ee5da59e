"""Integer codes for texts, and padding of rows of codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Codes = npt.NDArray[np.int64]

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
