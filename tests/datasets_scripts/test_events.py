"""The event and its text."""

from __future__ import annotations

import pytest

from eventformers.datasets_scripts.events import EVENT_FEATURE, EVENT_ORDERS, Event, event_text


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
