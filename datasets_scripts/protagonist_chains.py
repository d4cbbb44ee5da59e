"""Chains of events with a protagonist, found in the events of a document without coreference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from eventformers.datasets_scripts.chain_readers import PRONOUNS, RawDocument
from eventformers.datasets_scripts.events import Event, event_text
from eventformers.datasets_scripts.malformed import SkippedRows

NO_PROTAGONISTS: frozenset[str] = PRONOUNS | {"all", "some", "thou", "thee", "ye", "'s", "'em"}
"""Arguments that name nobody: equal ones need not be the same person. Pronouns, those of older English and
the two quantifiers and clitics that parsers often give as a head word."""


@dataclass(frozen=True)
class Chain:
    """The events of one protagonist in a document.

    Args:
        chain_id: the document's id and the protagonist, or what the raw file gives.
        document_id: the document.
        source: the corpus that it is from.
        license: its terms of use.
        protagonist: whom the events are about; in lower case where it is found by an equal argument.
        events: the distinct events in the order of the text; a repeated one stands where it comes first.
    """

    chain_id: str
    document_id: str
    source: str
    license: str
    protagonist: str
    events: list[Event]


def event_key(event: Event) -> str:
    """What two events have in common that read the same: their text in lower case."""
    return event_text(event).lower()


def distinct_events(events: Iterable[Event]) -> list[Event]:
    """The events without those that read like an earlier one."""
    distinct: dict[str, Event] = {}
    for event in events:
        distinct.setdefault(event_key(event), event)
    return list(distinct.values())


def document_chains(
    document: RawDocument, events: list[Event], min_length: int, skipped: SkippedRows
) -> Iterator[Chain]:
    """The chains of a document that have at least `min_length` distinct events.

    A chain of the raw file is that chain. The events of a whole document are grouped by an equal subject or
    object, whatever its case, that is not among `NO_PROTAGONISTS`: an event with two such arguments is in
    two chains, and the chains come in the order in which their protagonists are first mentioned.

    Args:
        document: a document or a chain as read.
        events: what is kept of its events, in the order of the text.
        min_length: the least number of distinct events.
        skipped: counts of what is left out, by reason; added to.
    """
    if document.chain_id:
        groups = {document.protagonist: events}
    else:
        groups = {}
        for event in events:
            for argument in dict.fromkeys((event["subject"].lower(), event["object"].lower())):
                if argument and argument not in NO_PROTAGONISTS:
                    groups.setdefault(argument, []).append(event)
    for protagonist, group in groups.items():
        distinct = distinct_events(group) if len(group) >= min_length else []
        if len(distinct) < min_length:
            skipped["chain_below_minimum_length"] += 1
            continue
        yield Chain(
            chain_id=document.chain_id or f"{document.document_id}/{protagonist}",
            document_id=document.document_id,
            source=document.source,
            license=document.license,
            protagonist=protagonist,
            events=distinct,
        )
