"""The event: the unit of text that all datasets, models and metrics of eventformers share.

An event is a predicate with at most two arguments. An absent role is the empty string, so that the columns of
a dataset stay flat and free of nulls.
"""

from __future__ import annotations

from typing import Literal, TypedDict

from datasets import Value


class Event(TypedDict):
    """Who did what to whom; an absent role is the empty string."""

    subject: str
    predicate: str
    object: str


EventOrder = Literal["subject_predicate_object", "predicate_first"]

EVENT_ORDERS: dict[str, tuple[Literal["subject", "predicate", "object"], ...]] = {
    "subject_predicate_object": ("subject", "predicate", "object"),
    "predicate_first": ("predicate", "subject", "object"),
}
"""The order of the roles in the text, by name. `predicate_first` is the order of SWCC (Gao et al., ACL 2022,
Eq. 1)."""

EVENT_FEATURE: dict[str, Value] = {
    "subject": Value("string"),
    "predicate": Value("string"),
    "object": Value("string"),
}
"""The column type of one event; `List(EVENT_FEATURE)` is the type of a list of events."""


def event_text(event: Event, order: EventOrder = "subject_predicate_object") -> str:
    """The text of an event: its roles in the given order, joined by one blank, without absent ones.

    Args:
        event: the event.
        order: a key of `EVENT_ORDERS`.

    Raises:
        ValueError: the order is not one of `EVENT_ORDERS`.
    """
    roles = EVENT_ORDERS.get(order)
    if roles is None:
        raise ValueError(f"unknown event order {order!r}; accepted: {', '.join(EVENT_ORDERS)}")
    return " ".join(event[role] for role in roles if event[role])
