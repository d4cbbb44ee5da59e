"""What a text says of its events beyond their roles: one module for each group of columns.

A module has a function of the parsed text, its document and its events that returns the columns it fills, a
dictionary an event; what it does not know it leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eventformers.datasets_scripts.events import empty_details
from eventformers.extraction.details.actors import actor_details, mention_details
from eventformers.extraction.details.factuality import factuality_details
from eventformers.extraction.details.places import place_details
from eventformers.extraction.details.times import time_details

if TYPE_CHECKING:
    from spacy.tokens import Doc

    from eventformers.extraction.events import ExtractedEvent
    from eventformers.extraction.texts import TextDocument


def event_details(doc: Doc, document: TextDocument, events: Sequence[ExtractedEvent]) -> list[dict[str, Any]]:
    """Return the columns of `EVENT_SCHEMA` from `trigger_kind` on, for each event.

    Args:
        doc: the parsed text; places in it are those of the text in normal form (`place_given` maps them).
    """
    mentions = mention_details(doc, document, events)
    found = [[{**empty_details(), "trigger_kind": event.trigger_kind} for event in events], mentions]
    if doc.lang_ == "en":
        # The actors also add their ids to the participants, and factuality names them.
        found.append(actor_details(doc, document, events, mentions))
        found.append(time_details(doc, document, events))
        found.append(place_details(doc, document, events))
        found.append(factuality_details(doc, events))
    for columns, *others in zip(*found, strict=True):
        for more in others:
            columns.update(more)
    return found[0]
