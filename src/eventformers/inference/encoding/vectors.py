"""Arrays of vectors: memory-mapped with few pages in memory, and of unit length."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from eventformers.errors import EventformersError, shown

Vectors = npt.NDArray[np.float32]
Positions = npt.NDArray[np.int64]

COSINE_DECIMALS = 12
"""Decimals of a cosine. The order of summation must not decide between equal cosines."""


def unit_vectors(vectors: NDArray[np.floating], texts: Sequence[str]) -> NDArray[np.float64]:
    """Scale vectors of texts, (N, d), to length 1, in double precision.

    Raises:
        EventformersError: a vector is NaN, infinite or zero.
    """
    array = np.array(vectors, dtype=np.float64)
    lengths = np.sqrt(np.einsum("nd,nd->n", array, array))
    wrong = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
    if wrong.size:
        raise EventformersError(
            f"the model returned a NaN, infinite or zero vector for {wrong.size} of {len(texts)} texts, the "
            f"first {shown(texts[wrong[0]])}; accepted: finite vectors that are not zero"
        )
    # In place, to avoid a second array of this size.
    array /= lengths[:, None]
    return array


def rounded_cosines(products: NDArray[np.float64]) -> NDArray[np.float64]:
    """Clip dot products of unit vectors to [-1, 1] and round them, so that equal cosines compare equal."""
    return np.asarray(np.round(np.clip(products, -1.0, 1.0), COSINE_DECIMALS), dtype=np.float64)


_SPAN_BYTES = 2**27
"""Size of the part of an array that is read at a time. The system may map 2 MB for a single
row, so a limit on the number of rows would not bound the memory."""


def release_pages(array: npt.NDArray[Any]) -> None:
    """Release the memory of the pages of a file map that hold an array or a slice of it; its values stay the
    same.

    Otherwise every page that was ever read or written counts as memory of the process. The system keeps its
    own copy while there is space, from which a later access is fast, and writes changes to the file.

    The function does nothing for an array in memory, for a copy-on-write map, whose changes would be lost,
    and on a system without `madvise`.
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
    """Divide the rows of an array, in memory or mapped, into blocks, in order, and release the pages of each
    one after its use."""
    size = _span(array)
    for start in range(0, len(array), size):
        rows = slice(start, min(start + size, len(array)))
        yield rows
        release_pages(array[rows])


def rows_at(array: npt.NDArray[Any], positions: Positions) -> npt.NDArray[Any]:
    """Copy the rows of an array `(n, d)`, in memory or mapped, at positions of any shape, and release their
    pages."""
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


def return_memory() -> None:
    """Return freed memory to the system.

    The C library of Linux keeps freed blocks, and later work that needs blocks of other sizes would allocate
    more memory beside them.
    """
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(0)
