"""Vectors in fewer bits, with the formulas of sentence-transformers' `quantize_embeddings`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from eventformers.errors import EventformersError, UnknownNameError, first_line
from eventformers.inference.encoding.vectors import release_pages

PRECISIONS = ("float32", "int8", "uint8", "binary", "ubinary")
"""The precisions. `int8` and `uint8` have a byte for each dimension, `binary` and `ubinary` a bit."""

_DECIDING = ("model_revision", "pooling", "normalize")
"""The facts about vectors on which their ranges depend."""

LEVELS = 255
"""Number of steps between the smallest and the largest value of a dimension."""

_BLOCK_VECTORS = 65_536

RANGES_KEY = "ranges"
"""Key of the ranges in the metadata of a Parquet file of vectors."""

Ranges = npt.NDArray[np.float32]
"""Smallest and largest value of each dimension, `(2, d)`."""


def needs_ranges(precision: str) -> bool:
    """True if a precision divides the range of each dimension; one that is not in `PRECISIONS` is an
    error."""
    if precision not in PRECISIONS:
        raise UnknownNameError("precision", precision, PRECISIONS)
    return precision.endswith("int8")


def ranges_of(vectors: npt.NDArray[np.float32]) -> Ranges:
    """Return the smallest and the largest value of each dimension of vectors `(N, d)`, two or more."""
    if vectors.ndim != 2 or len(vectors) < 2:
        raise EventformersError(
            "int8 and uint8: found one vector alone; accepted: two or more, or ranges, for example those of "
            "the file of vectors to search"
        )
    low, high = vectors[0], vectors[0]
    for start in range(0, len(vectors), _BLOCK_VECTORS):
        block = vectors[start : start + _BLOCK_VECTORS]
        low, high = np.minimum(low, block.min(axis=0)), np.maximum(high, block.max(axis=0))
        release_pages(block)
    return np.stack([low, high]).astype(np.float32)


def read_ranges(
    ranges: str | Path | npt.ArrayLike | None, precision: str, dimension: int, made: Mapping[str, str]
) -> Ranges | None:
    """Read the ranges for a precision, and check that they fit.

    Args:
        ranges: an array `(2, d)`, or a Parquet file that `embed` wrote with the precision int8 or uint8; None
            if the vectors themselves have them.
        made: what the vectors are made with, from `EventEncoder.described`.

    Raises:
        EventformersError: the file has no ranges or those of another kind of vectors, the shape is another
            one, a range is not finite, or the precision needs no ranges.
    """
    if ranges is None:
        return None
    if not needs_ranges(precision):
        raise EventformersError(f"ranges with the precision {precision}; accepted: int8 or uint8 with ranges")
    if isinstance(ranges, (str, Path)):
        try:
            metadata = pq.read_schema(ranges).metadata or {}
        except (pa.ArrowException, OSError) as error:
            raise EventformersError(
                f"{ranges}: found {first_line(error)}; accepted: a Parquet file that embed wrote"
            ) from error
        stated = metadata.get(RANGES_KEY.encode())
        if stated is None:
            raise EventformersError(
                f"{ranges}: found no ranges; accepted: a file that embed wrote with --precision int8 or uint8"
            )
        for name in _DECIDING:
            held = metadata.get(name.encode(), made[name].encode()).decode()
            if held != made[name]:
                raise EventformersError(
                    f"{ranges}: found the ranges of vectors with {name}={held or 'unknown'}; accepted: those "
                    f"of vectors with {name}={made[name] or 'unknown'}, as these"
                )
        ranges = json.loads(stated)
    found = np.asarray(ranges)
    if found.shape != (2, dimension):
        raise EventformersError(f"ranges of shape {found.shape}; accepted: (2, {dimension})")
    if not np.isfinite(found).all():
        raise EventformersError("found ranges that are not finite; accepted: finite numbers")
    return found.astype(np.float32)


def quantized(
    vectors: npt.NDArray[np.float32], precision: str, ranges: Ranges | None = None
) -> npt.NDArray[Any]:
    """Convert vectors, `(N, d)` or `(d,)`, to a precision.

    `int8` and `uint8` divide the range of each dimension into 256 equal parts, numbered from -128 or 0; a
    value outside of the range gets the first or last one. `binary` and `ubinary` pack one bit for each
    dimension, 1 above 0, into bytes, ⌈d / 8⌉ for each vector; `binary` subtracts 128 from each byte.

    Args:
        ranges: the ranges for `int8` and `uint8`; None uses those of these vectors, which a single one lacks.
    """
    if needs_ranges(precision):
        low, high = ranges_of(vectors) if ranges is None else ranges
        steps = (high - low) / LEVELS
        parts = np.clip(np.floor((vectors - low) / np.where(steps == 0, 1, steps)), 0, LEVELS)
        return (parts - 128).astype(np.int8) if precision == "int8" else parts.astype(np.uint8)
    if precision == "float32":
        return vectors
    bits = np.packbits(vectors > 0, axis=-1)
    return bits if precision == "ubinary" else (bits.astype(np.int16) - 128).astype(np.int8)


def restored(vectors: npt.NDArray[Any], ranges: Ranges) -> npt.NDArray[np.float32]:
    """Convert int8 or uint8 vectors, made with these ranges, back to float32: the middle of each part of the
    range.

    The integers themselves also serve for a search, but their cosines weigh all dimensions equally.
    """
    low, high = ranges
    parts = vectors.astype(np.float32) + (128 if vectors.dtype == np.int8 else 0)
    return low + (parts + 0.5) * ((high - low) / LEVELS)
