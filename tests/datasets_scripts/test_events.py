"""Events, and arrays of codes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from eventformers.datasets_scripts.events import EVENT_FEATURE, EVENT_ORDERS, Event, event_text
from eventformers.datasets_scripts.known_pairs import codes_of, padded, text_column


def test_roles_are_joined_in_order_and_absent_ones_skipped() -> None:
    event: Event = {"subject": "man", "predicate": "shut", "object": "door"}
    assert event_text(event) == "man shut door"
    assert event_text(event, "predicate_first") == "shut man door"
    assert event_text({"subject": "", "predicate": "rained", "object": ""}) == "rained"
    assert (
        event_text({"subject": "", "predicate": "shut", "object": "door"}, "predicate_first") == "shut door"
    )


def test_every_order_holds_every_role() -> None:
    assert all(set(roles) == set(EVENT_FEATURE) for roles in EVENT_ORDERS.values())


def test_an_unknown_order_is_refused() -> None:
    with pytest.raises(ValueError, match="accepted: subject_predicate_object, predicate_first"):
        event_text({"subject": "a", "predicate": "b", "object": "c"}, "object_first")  # type: ignore[arg-type]


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
