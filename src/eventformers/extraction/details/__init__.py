"""What a text says of its events beyond their roles: one module for each group of columns.

A module has a function of the parsed text, its document and its events that returns the columns it fills, a
dictionary an event; what it does not know it leaves out. Later functions see the columns of earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from eventformers.datasets_scripts.events import empty_details
from eventformers.extraction.details.actors import actor_details
from eventformers.extraction.details.factuality import factuality_details
from eventformers.extraction.details.mentions import mention_details
from eventformers.extraction.details.places import place_details
from eventformers.extraction.details.times import time_details

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from eventformers.extraction.events import ExtractedEvent
    from eventformers.extraction.texts import TextDocument

Details = Callable[
    ["Doc", "TextDocument", Sequence["ExtractedEvent"], Sequence[dict[str, Any]]], list[dict[str, Any]]
]
"""Of the text, its document, its events, and the columns that are known so far."""

DETAILS: tuple[Details, ...] = (
    mention_details,
    actor_details,
    time_details,
    place_details,
    factuality_details,
)
"""All but the first read English texts only."""


def event_details(doc: Doc, document: TextDocument, events: Sequence[ExtractedEvent]) -> list[dict[str, Any]]:
    """Return the columns of `EVENT_SCHEMA` from `trigger_kind` on, for each event.

    Args:
        doc: the parsed text; places in it are those of the text in normal form (`place_given` maps them).
        document: the document of the text.
        events: the events that are kept, in order.
    """
    empty = empty_details()
    known = [{**empty, "trigger_kind": event.trigger_kind} for event in events]
    for of_document in DETAILS if doc.lang_ == "en" else DETAILS[:1]:
        for columns, new in zip(known, of_document(doc, document, events, known), strict=True):
            columns.update(new)
    return known
