"""Chains of protagonists, and questions about chains."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from eventformers.datasets_scripts.chain_readers import ClozeItem, RawDocument, read_documents
from eventformers.datasets_scripts.chains import (
    CHOICES,
    NAMES_NOBODY,
    NO_PROTAGONISTS,
    Chain,
    EventPool,
    argument_texts,
    distinct_events,
    document_chains,
    draw_choices,
    event_key,
    place_held_out,
    question_columns,
)
from eventformers.datasets_scripts.document_splits import SeededDraws
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


def test_excluded_words_are_no_protagonists() -> None:
    events = [event("Door", f"did {n}", "man") for n in range(3)]
    assert {"door", "dlrs", "pct", "time"} <= NAMES_NOBODY
    assert not NAMES_NOBODY & {"company", "government", "king", "wolf", "people", "bank"}
    document = RawDocument("d/1", "wikinews", "CC-BY-2.5", [])
    found = document_chains(document, events, 2, SkippedRows(), excluded=NAMES_NOBODY)
    assert [chain.protagonist for chain in found] == ["man"]


def test_long_chains_are_cut_and_counted() -> None:
    skipped = SkippedRows()
    document = RawDocument("d/1", "wikinews", "CC-BY-2.5", [])
    events = [event("man", f"did {n % 7}") for n in range(20)]
    (chain,) = document_chains(document, events, 2, skipped, max_length=5)
    assert chain.events == events[:5]
    assert skipped == {"event_beyond_maximum_chain_length": 2}


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


CHAIN = [event("wolf", f"did {number}", f"thing{number}") for number in range(9)]
KEYS = {event_key(item) for item in CHAIN}
POOL = EventPool.of_events(
    [event(f"person{n}", f"acted {n}", "" if n % 2 else f"object{n}") for n in range(500)]
)


def draws(*parts: object) -> SeededDraws:
    return SeededDraws(13, *parts)


def test_a_distractor_is_an_event_of_the_pool_with_one_argument_of_the_chain() -> None:
    pool = {event_key(POOL.draw(draws(n))) for n in range(5000)}
    assert len(pool) == 500
    arguments = argument_texts(CHAIN)
    slots: Counter[str] = Counter()
    labels: Counter[int] = Counter()
    protagonists = 0
    for number in range(1000):
        question = draw_choices(CHAIN[-1], arguments, KEYS, POOL, draws(number))
        assert question is not None
        choices, label = question["choices"], question["label"]
        labels[label] += 1
        assert len(choices) == CHOICES
        assert choices[label] == CHAIN[-1]
        assert len({event_key(choice) for choice in choices}) == CHOICES
        for place, choice in enumerate(choices):
            if place == label:
                continue
            assert event_key(choice) not in KEYS
            number_of_pool = int(choice["predicate"].split()[1])
            before = event(
                f"person{number_of_pool}",
                choice["predicate"],
                "" if number_of_pool % 2 else f"object{number_of_pool}",
            )
            changed = [role for role in ("subject", "object") if choice[role] != before[role]]
            assert len(changed) == 1
            assert choice[changed[0]] in arguments
            protagonists += choice[changed[0]] == "wolf"
            slots[changed[0]] += 1
    assert abs(slots["subject"] / 4000 - 1 / 3) < 0.03
    assert abs(protagonists / 4000 - 1 / 2) < 0.03
    assert max(abs(count - 200) for count in labels.values()) < 60


def test_the_protagonist_can_stand_in_every_choice() -> None:
    chain = [event("Tom", f"did {number}", "lamb") for number in range(9)]
    roles: Counter[str] = Counter()
    for number in range(300):
        keys = {event_key(item) for item in chain}
        question = question_columns("mcnc", chain, keys, POOL, draws(number), "tom")
        assert question is not None
        choices, label = question["choices"], question["label"]
        assert isinstance(choices, list)
        for place, choice in enumerate(choices):
            filled = [role for role in ("subject", "object") if choice[role] == "Tom"]
            assert len(filled) == 1
            if place != label:
                roles[filled[0], "odd" if int(choice["predicate"].split()[1]) % 2 else "even"] += 1
    # Odd events of the pool have no object, which stays so.
    assert roles["object", "odd"] == 0
    assert abs(roles["object", "even"] / (roles["object", "even"] + roles["subject", "even"]) - 0.5) < 0.05


def test_draws_do_not_depend_on_the_order_of_the_pool() -> None:
    events = [event(f"person{n % 7}", f"acted {n % 50}", "") for n in range(300)]
    one, other = EventPool.of_events(events), EventPool.of_events(events[::-1])
    assert len(one) == len(other) == 300
    assert [one.draw(draws(n)) for n in range(200)] == [other.draw(draws(n)) for n in range(200)]
    # Frequent events are drawn more often.
    skewed = EventPool.of_events([event("a", "b")] * 90 + [event("c", "d")] * 10)
    assert 50 < sum(skewed.draw(draws(n))["subject"] == "c" for n in range(1000)) < 150


def test_distractors_that_cannot_be_drawn_end_the_question() -> None:
    chain = [event("man", "ran", "man"), event("man", "fell", "man")]
    keys = {event_key(item) for item in chain}
    own = EventPool.of_events(chain)
    assert draw_choices(chain[-1], ["man"], keys, own, draws()) is None
    assert question_columns("multistep", chain, keys, own, draws()) is None
    three = EventPool.of_events([event("man", verb, "man") for verb in ("sat", "stood", "lay")])
    assert draw_choices(chain[-1], ["man"], keys, three, draws()) is None
    silent = [event("", "rained"), event("", "poured")]
    assert draw_choices(silent[-1], argument_texts(silent), set(), POOL, draws()) is None


def test_the_columns_of_both_kinds() -> None:
    question = question_columns("mcnc", CHAIN, KEYS, POOL, draws())
    assert question is not None
    assert list(question) == ["context", "choices", "label"]
    assert question["context"] == CHAIN[:8]
    steps = question_columns("multistep", CHAIN[:5], KEYS, POOL, draws())
    assert steps is not None
    assert list(steps) == ["start", "steps", "labels"]
    assert steps["start"] == CHAIN[0]
    lists, labels = steps["steps"], steps["labels"]
    assert isinstance(lists, list)
    assert isinstance(labels, list)
    picked = [choices[label] for choices, label in zip(lists, labels, strict=True)]
    assert picked == CHAIN[1:5]


def test_the_held_out_event_stands_anywhere() -> None:
    wrong = [event("a", "b"), event("c", "d"), event("e", "f")]
    item = ClozeItem("x/0", CHAIN[:3], [CHAIN[3]], wrong)
    labels = set()
    for number in range(100):
        placed = place_held_out(item, draws(number))
        assert placed["choices"][placed["label"]] == CHAIN[3]
        assert [choice for choice in placed["choices"] if choice != CHAIN[3]] == wrong
        labels.add(placed["label"])
    assert labels == {0, 1, 2, 3}
