"""Tables inside a page: columns as bytes, compressed; `page_data.js` reads them."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SCORE_STEPS = 100
"""Steps of a score between 0 and 1: the page shows two digits."""

_ALIGNMENT = 4
_LEVEL = 6
_WHOLE_TYPES = (np.int8, np.uint8, np.int16, np.uint16, np.int32)


def packed(columns: Mapping[str, pa.Array | pa.ChunkedArray | np.ndarray]) -> str:
    """Pack columns of equal length for a page.

    Texts are stored once with the number of their text in each row, whole numbers in the smallest type that
    holds them, scores in hundredths, and lists as their values with the start of each row. The first bytes of
    all numbers of a column come first, then the second ones: so they compress to two thirds.

    Args:
        columns: texts, whole numbers, truth values, scores, or lists of them, by name; null texts are "".

    Returns:
        The base64 text of a gzip stream: the length of a JSON header, the header, and the bytes of the
        columns.
    """
    body = bytearray()
    described = {name: _column(_array(values), body) for name, values in columns.items()}
    rows = max((len(values) for values in columns.values()), default=0)
    header = json.dumps(
        {"rows": rows, "columns": described}, ensure_ascii=False, separators=(",", ":")
    ).encode()
    header += b" " * (-len(header) % _ALIGNMENT)
    return compressed(len(header).to_bytes(4, "little") + header + bytes(body))


def packed_texts(texts: list[str]) -> str:
    """Pack a list of texts as JSON."""
    return compressed(json.dumps(texts, ensure_ascii=False).encode())


def compressed(content: bytes) -> str:
    """Compress bytes with gzip; equal bytes give equal texts."""
    return base64.b64encode(gzip.compress(content, _LEVEL, mtime=0)).decode()


def _array(values: pa.Array | pa.ChunkedArray | np.ndarray) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    return pa.array(values) if isinstance(values, np.ndarray) else values


def _column(values: pa.Array, body: bytearray) -> dict[str, Any]:
    if pa.types.is_list(values.type):
        lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        return {"starts": _numbers(starts, body), **_column(values.flatten(), body)}
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        found = pc.fill_null(values, "").dictionary_encode()
        codes = found.indices.to_numpy(zero_copy_only=False)
        return {"texts": found.dictionary.to_pylist(), **_numbers(codes, body)}
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    return _numbers(pc.fill_null(values, 0).to_numpy(zero_copy_only=False), body)


def _numbers(values: np.ndarray, body: bytearray) -> dict[str, Any]:
    steps = SCORE_STEPS if np.issubdtype(values.dtype, np.floating) else 1
    whole = np.rint(values * steps) if steps > 1 else values
    low, high = (int(whole.min()), int(whole.max())) if len(whole) else (0, 0)
    fitting = next(kind for kind in _WHOLE_TYPES if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    place = len(body)
    body += whole.astype(fitting).view(np.uint8).reshape(len(whole), np.dtype(fitting).itemsize).T.tobytes()
    body += b"\0" * (-len(body) % _ALIGNMENT)
    described = {"type": np.dtype(fitting).name, "at": place, "length": len(whole)}
    return described | ({"steps": steps} if steps > 1 else {})
