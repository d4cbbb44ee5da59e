"""Reads and writes of memory-mapped arrays that keep few of their pages in memory."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from eventformers.inference.encoding.arrays import Positions

_SPAN_BYTES = 2**27
"""Size of the part of an array that is read at a time. The system may map 2 MB for a single
row, so a limit on the number of rows would not bound the memory."""


def release_pages(array: npt.NDArray[Any]) -> None:
    """Release the memory of the pages of a file map that hold an array; its values stay the same.

    Otherwise every page that was ever read or written counts as memory of the process. The system keeps its
    own copy while there is space, from which a later access is fast, and writes changes to the file.

    The function does nothing for an array in memory, for a copy-on-write map, whose changes would be lost,
    and on a system without `madvise`.

    Args:
        array: an array of any shape; a slice releases its own pages alone.
    """
    whole = array
    while isinstance(whole.base, np.ndarray):
        whole = whole.base
    mapped = whole.base
    if not isinstance(whole, np.memmap) or not isinstance(mapped, mmap.mmap):
        return
    if whole.mode == "c" or not array.size or not hasattr(mmap, "MADV_DONTNEED"):
        return
    # A map starts at the last allowed place before the array.
    origin = whole.ctypes.data - whole.offset % mmap.ALLOCATIONGRANULARITY
    first, last = (place - origin for place in np.lib.array_utils.byte_bounds(array))
    first -= first % mmap.PAGESIZE
    mapped.madvise(mmap.MADV_DONTNEED, first, last - first)


def released_blocks(array: npt.NDArray[Any]) -> Iterator[slice]:
    """Divide the rows of an array into blocks, in order, and release the pages of each one after its use.

    Args:
        array: `(n, d)`, in memory or mapped.
    """
    size = _span(array)
    for start in range(0, len(array), size):
        rows = slice(start, min(start + size, len(array)))
        yield rows
        release_pages(array[rows])


def rows_at(array: npt.NDArray[Any], positions: Positions) -> npt.NDArray[Any]:
    """Copy the rows at some positions, and release their pages.

    Args:
        array: `(n, d)`, in memory or mapped.
        positions: of any shape; negative ones count from the end.

    Returns:
        `(*positions.shape, d)`.

    Raises:
        IndexError: a position is outside of the array.
    """
    flat = positions.ravel()
    rows = np.empty((len(flat), array.shape[1]), dtype=array.dtype)
    order = np.argsort(flat, kind="stable")
    of_span = flat[order] // _span(array)
    for part in np.split(order, np.flatnonzero(np.diff(of_span)) + 1):
        chosen = flat[part]
        rows[part] = array[chosen]
        if len(chosen):
            release_pages(array[chosen[0] : chosen[-1] + 1])
    return rows.reshape(*positions.shape, array.shape[1])


def _span(array: npt.NDArray[Any]) -> int:
    """Return the number of rows in `_SPAN_BYTES`, at least one."""
    return max(1, _SPAN_BYTES // max(1, array.itemsize * array.shape[1]))
