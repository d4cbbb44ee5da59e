"""Chains of events with a protagonist, found in the events of a document without co-reference resolution."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from eventformers.datasets_scripts.chain_readers import PRONOUNS, RawDocument
from eventformers.datasets_scripts.events import Event, event_text
from eventformers.datasets_scripts.malformed import SkippedRows

NO_PROTAGONISTS: frozenset[str] = PRONOUNS | {"all", "some", "thou", "thee", "ye", "'s", "'em"}
"""Arguments that do not identify a person, so equal ones need not be the same person: pronouns, including
older English ones, and the two quantifiers and clitics that parsers often give as a head word."""


@dataclass(frozen=True)
class Chain:
    """The events of one protagonist in a document.

    Args:
        chain_id: id of the document and the protagonist, or the id in the raw file.
        document_id: the document.
        source: its corpus.
        license: its terms of use.
        protagonist: the protagonist; in lower case if it was found as an equal argument.
        events: the distinct events in the order of the text; a repeated event is at its first position.
    """

    chain_id: str
    document_id: str
    source: str
    license: str
    protagonist: str
    events: list[Event]


def event_key(event: Event) -> str:
    """The text of an event in lower case; events with the same key count as the same."""
    return event_text(event).lower()


def distinct_events(events: Iterable[Event]) -> list[Event]:
    """Remove events with the same key as an earlier one."""
    distinct: dict[str, Event] = {}
    for event in events:
        distinct.setdefault(event_key(event), event)
    return list(distinct.values())


def document_chains(
    document: RawDocument, events: list[Event], min_length: int, skipped: SkippedRows
) -> Iterator[Chain]:
    """The chains of a document that have at least `min_length` distinct events.

    A chain of the raw file is used as it is. The events of a whole document are grouped by equal subjects or
    objects, ignoring case, that are not in `NO_PROTAGONISTS`. An event with two such arguments is in two
    chains, and the chains are sorted by the first mention of their protagonists.

    Args:
        document: a document or a chain as read.
        events: its kept events, in the order of the text.
        min_length: minimum number of distinct events.
        skipped: counts of skipped items, by reason; added to.
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
