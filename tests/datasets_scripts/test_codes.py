"""Numbers instead of texts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from eventformers.datasets_scripts.known_pairs import codes_of, padded, text_column


def test_a_column_in_parts_is_one_array() -> None:
    table = pa.table({"name": pa.chunked_array([["b", "a"], ["b", None]])})
    column = text_column(table, "name")
    assert column.type == pa.large_string()
    assert column.to_pylist() == ["b", "a", "b", None]


def test_codes_are_places_among_the_distinct() -> None:
    distinct = pa.array(["b", "a"], type=pa.large_string())
    codes = codes_of(pa.array(["a", "c", "b", "a"], type=pa.large_string()), distinct)
    assert codes.dtype == np.int64
    assert codes.tolist() == [1, -1, 0, 1]


def test_rows_are_filled_up() -> None:
    rows = [np.array([4]), np.array([], dtype=np.int64), np.array([7, 5])]
    assert padded(rows).tolist() == [[4, -1], [-1, -1], [7, 5]]
    assert padded(rows, 3, fill=0).tolist() == [[4, 0, 0], [0, 0, 0], [7, 5, 0]]
    with pytest.raises(ValueError, match="broadcast"):
        padded(rows, 1)
