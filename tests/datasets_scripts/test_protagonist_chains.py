"""Chains by equal arguments, and chains as a raw file gives them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from eventformers.datasets_scripts.chain_readers import RawDocument, read_documents
from eventformers.datasets_scripts.chains import NO_PROTAGONISTS, Chain, distinct_events, document_chains
from eventformers.datasets_scripts.events import Event
from eventformers.datasets_scripts.malformed import SkippedRows


def event(subject: str, predicate: str, object_: str = "") -> Event:
    return {"subject": subject, "predicate": predicate, "object": object_}


def chains(events: list[Event], min_length: int = 2, **fields: str) -> tuple[list[Chain], Counter[str]]:
    skipped = SkippedRows()
    document = RawDocument("d/1", "wikinews", "CC-BY-2.5", [], **fields)
    return list(document_chains(document, events, min_length, skipped)), skipped


def test_equal_arguments_in_either_role_make_a_chain() -> None:
    events = [
        event("Wolf", "saw", "lamb"),
        event("he", "ran"),
        event("lamb", "hid from", "wolf"),
        event("wolf", "bit", "wolf"),
        event("it", "rained"),
        event("lamb", "fled"),
    ]
    found, skipped = chains(events)
    assert [(chain.protagonist, len(chain.events)) for chain in found] == [("wolf", 3), ("lamb", 3)]
    assert [chain.chain_id for chain in found] == ["d/1/wolf", "d/1/lamb"]
    assert found[0].events == [events[0], events[2], events[3]]
    assert (found[0].document_id, found[0].source, found[0].license) == ("d/1", "wikinews", "CC-BY-2.5")
    assert not skipped


@pytest.mark.parametrize("pronoun", ["he", "It", "who", "all", "thee", "'s"])
def test_pronouns_are_no_protagonists(pronoun: str) -> None:
    assert pronoun.lower() in NO_PROTAGONISTS
    assert chains([event(pronoun, "came"), event(pronoun, "saw"), event(pronoun, "won")])[0] == []


def test_an_event_that_is_told_twice_stands_once_where_it_comes_first() -> None:
    events = [event("man", "ran"), event("man", "fell"), event("Man", "ran"), event("man", "rose")]
    assert distinct_events(events) == [events[0], events[1], events[3]]
    (chain,), _ = chains(events, 3)
    assert chain.events == [events[0], events[1], events[3]]


def test_short_chains_are_counted() -> None:
    equal = [event("man", "ran")] * 6
    found, skipped = chains([*equal, event("dog", "barked")])
    assert found == []
    assert skipped == {"chain_below_minimum_length": 2}


def test_a_chain_of_the_raw_file_stays_one() -> None:
    events = [event("wolf", "saw", "lamb"), event("he", "ate", "grass"), event("he", "ate", "grass")]
    (chain,), _ = chains(events, chain_id="c7", protagonist="The Wolf")
    assert (chain.chain_id, chain.protagonist) == ("c7", "The Wolf")
    assert chain.events == events[:2]


def test_the_published_counts_of_documents_events_and_chains(shared_data: Path) -> None:
    """Its README counts the chains of five events and more, repeated events and all."""
    documents = events = chains = 0
    for document in read_documents([shared_data / "chains" / "events.jsonl.gz"], SkippedRows()):
        lengths: Counter[str] = Counter()
        for raw in document.events:
            lengths.update({raw.event["subject"], raw.event["object"]} - NO_PROTAGONISTS - {""})
        documents += 1
        events += len(document.events)
        chains += sum(length >= 5 for length in lengths.values())
    assert (documents, events, chains) == (19_465, 757_133, 20_758)
