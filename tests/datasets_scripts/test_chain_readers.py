"""Readers of documents, chains, narrative cloze files and tuples."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from eventformers.datasets_scripts import load_built
from eventformers.datasets_scripts.chain_readers import (
    ClozeItem,
    EventFilter,
    RawDocument,
    RawEvent,
    checked_question,
    raw_file_kind,
    read_cloze_contexts,
    read_cloze_items,
    read_documents,
    read_records_of_events,
    read_tuple_chains,
)
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
from eventformers.errors import DataFormatError


def event(subject: str, predicate: str, object_: str = "") -> Event:
    return {"subject": subject, "predicate": predicate, "object": object_}


def read(path: Path, **options: str) -> list[RawDocument]:
    return list(read_documents([path], SkippedRows(), **options))


def test_extracted_events_keep_their_surface_and_negation(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl.gz"
    rows = [
        [0, 8, "showers", "continued throughout", "week", "continue", 0, 0],
        [0, 202, "levels", "restored", "", "restore", 1, 1],
    ]
    record = {"id": "reuters/1", "source": "reuters21578", "n_sent": 1, "events": rows}
    path.write_bytes(gzip.compress((json.dumps(record) + "\n").encode()))
    (document,) = read(path)
    assert (document.document_id, document.source, document.license) == (
        "reuters/1",
        "reuters21578",
        "research-only",
    )
    assert [raw.event for raw in document.events] == [
        event("showers", "continued throughout", "week"),
        event("levels", "not restored"),
    ]
    (document,) = read(path, predicate_form="lemma")
    assert [raw.event["predicate"] for raw in document.events] == ["continue", "not restore"]


def test_objects_may_have_a_lemma(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    item = {"subject": "waiter", "predicate": "brings", "object": "menu"}
    path.write_text(json.dumps({"events": [{**item, "lemma": "bring"}, item]}) + "\n", encoding="utf-8")
    (surface,), (lemma,) = read(path), read(path, predicate_form="lemma")
    assert [raw.event["predicate"] for raw in surface.events] == ["brings", "brings"]
    assert [raw.event["predicate"] for raw in lemma.events] == ["bring", "brings"]
    assert [raw.lemma for raw in surface.events] == ["bring", ""]


def test_plain_json_lines_take_lists_and_objects(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(
        '{"events": [["man", "shut", "door"], ["it", "rained", null], {"predicate": "ran  off"}]}\n'
        "\n"
        '{"document_id": 7, "source": "s", "license": "MIT", "events": []}\n',
        encoding="utf-8",
    )
    skipped = SkippedRows()
    first, second = read_records_of_events(path, skipped)
    assert [raw.event for raw in first.events] == [
        event("man", "shut", "door"),
        event("it", "rained"),
        event("", "ran off"),
    ]
    assert (first.document_id, first.source, first.license) == ("mine/1", "mine", "unspecified")
    assert (second.document_id, second.source, second.license, second.events) == ("7", "s", "MIT", [])
    assert skipped == {"blank_line": 1}


def test_cloze_items_give_their_context_alone_or_all_parts(tmp_path: Path) -> None:
    path = tmp_path / "mcnc_dev.txt"
    path.write_text(
        "rocket|rose at|station\nexploded\n\nHOLDOUT_SEP\n\nwe|on|voyage\nNEG_SEP\n\n"
        "a|b|c\nd|e|f\nDOC_SEP\n\n"
        "|fell|\nHOLDOUT_SEP\nx|y|z\nNEG_SEP\nu|v|w\n",
        encoding="utf-8",
    )
    skipped = SkippedRows()
    documents = list(read_cloze_contexts(path, skipped))
    assert [[raw.event for raw in document.events] for document in documents] == [
        [event("rocket", "rose at", "station"), event("", "exploded")],
        [event("", "fell")],
    ]
    assert [document.document_id for document in documents] == ["mcnc_dev/0", "mcnc_dev/1"]
    assert skipped == {"cloze_held_out_event": 2, "cloze_wrong_candidate": 3}
    first, second = read_cloze_items(path, SkippedRows())
    assert [event["predicate"] for event in first.context] == ["rose at", "exploded"]
    assert [event["predicate"] for event in first.held_out] == ["on"]
    assert [event["predicate"] for event in first.wrong] == ["b", "e"]
    assert [(item.item_id, item.line) for item in (first, second)] == [
        ("mcnc_dev/0", 11),
        ("mcnc_dev/1", 17),
    ]
    assert checked_question(second, path) is second


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ('{"events": [["a", "b", "c"]]}\n{"events": [["a", "b"]]}\n', 2, "an event of 2 fields"),
        ('{"events": [["", " ", ""]]}\n', 1, "an event without any word"),
        ('{"events": [["a", 3, ""]]}\n', 1, "a role of type int"),
        ('{"events": 3}\n', 1, 'no "events" list'),
        ("[]\n", 1, "JSON of type list"),
        ('{"events": [\n', 1, "invalid JSON"),
        (f'{{"events": {"[" * 100_000}\n', 1, "JSON"),
        (f'{{"events": {"1" * 5_000}\n', 1, "JSON"),
        ("", None, "an empty file"),
    ],
    ids=range(9),
)
def test_bad_json_lines_name_file_and_line(tmp_path: Path, text: str, line: int | None, found: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataFormatError) as caught:
        read(path)
    assert (caught.value.path, caught.value.line) == (path, line)
    assert found in str(caught.value)
    assert "accepted: " in str(caught.value)


def test_bytes_that_are_no_utf8_are_told_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"events": [["a", "b", "c"]]}\n{"events": [["caf\xe9", "b", "c"]]}\n')
    with pytest.raises(DataFormatError, match=r"line 2: found the byte 0xe9 at position 18; accepted: UTF-8"):
        read(path)


def test_broken_gzip_is_told(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"events": [["a", "b", "c"]]}\n' * 1000)[:-20])
    with pytest.raises(DataFormatError, match="broken gzip"):
        read(path)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a|b\n", "2 fields"),
        ("a|b|c\nNEG_SEP\n", "NEG_SEP at the wrong place"),
        ("a|b|c\nHOLDOUT_SEP\n", "the end of the file inside an item"),
        ("a|b|c\n", "the end of the file inside an item"),
        ("||\n", "an event without any word"),
        ("HOLDOUT_SEP\na|b|c\nNEG_SEP\nd|e|f\nDOC_SEP\n", "line 5: found an item without context"),
        ("a|b|c\nHOLDOUT_SEP\nNEG_SEP\nd|e|f\nDOC_SEP\n", "an item with 0 held-out events"),
        ("a|b|c\nHOLDOUT_SEP\na|b|c\nx|y|z\nNEG_SEP\nd|e|f\nDOC_SEP\n", "an item with 2 held-out events"),
        ("a|b|c\nHOLDOUT_SEP\nx|y|z\nNEG_SEP\nDOC_SEP\n", "line 5: found an item with one choice"),
    ],
)
def test_bad_cloze_items_are_refused(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "mcnc_dev.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataFormatError, match=found):
        [checked_question(item, path) for item in read_cloze_items(path, SkippedRows())]


def test_the_filter_says_why_an_event_goes() -> None:
    keep = EventFilter(frozenset({"say", "told"}), drop_pronoun_only=True)
    reasons = {
        ("^", "^", ""): "event_without_letters_or_digits",
        ("man", "told in", "court"): "event_with_excluded_predicate",
        ("man", "Told", ""): "event_with_excluded_predicate",
        ("man", "not told", ""): "event_with_excluded_predicate",
        ("he", "saw", "it"): "event_with_pronouns_only",
        ("he", "saw", "house"): None,
        ("", "rained", ""): None,
    }
    for roles, reason in reasons.items():
        assert keep.reason_to_drop(RawEvent(event(*roles))) == reason, roles
    assert keep.reason_to_drop(RawEvent(event("man", "said"), "say")) == "event_with_excluded_predicate"


def test_the_real_cloze_files_are_read_whole(shared_data: Path) -> None:
    skipped = SkippedRows()
    paths = [shared_data / "mcnc" / "mcnc_dev.txt", shared_data / "mcnc" / "cmcnc_dev.txt"]
    documents = list(read_documents(paths, skipped))
    assert Counter(document.source for document in documents) == {"mcnc_dev": 2000, "cmcnc_dev": 71}
    assert sum(len(document.events) for document in documents) == 29_659
    assert skipped == {"cloze_held_out_event": 2071, "cloze_wrong_candidate": 17_187}


LINE = "rescued crew_member cat from <TUP> fed crew_member cat _NULL_ <TUP> named boy cat _NULL_"


def test_verb_and_preposition_make_the_predicate(tmp_path: Path) -> None:
    path = tmp_path / "train_TUP.txt"
    path.write_text(f"{LINE} \n\n{LINE} <DIST> sang bird song _NULL_ <DIST> a b c d\n", encoding="utf-8")
    skipped = SkippedRows()
    first, repeated = read_tuple_chains(path, skipped)
    assert (first.chain_id, repeated.chain_id) == ("train_TUP/1", "train_TUP/3")
    assert first.events == repeated.events
    assert [tuple(raw.event.values()) for raw in first.events] == [
        ("crew member", "rescued from", "cat"),
        ("crew member", "fed", "cat"),
        ("boy", "named", "cat"),
    ]
    assert skipped == {"blank_line": 1, "wrong_continuation": 2}


@pytest.mark.parametrize(("event", "fields"), [("fed crew cat", 3), ("fed the crew cat from", 5), ("", 0)])
def test_another_number_of_fields_is_told_with_its_line(tmp_path: Path, event: str, fields: int) -> None:
    path = tmp_path / "train_TUP.txt"
    path.write_text(f"{LINE}\n{LINE} <TUP> {event}\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match=f"line 2: found an event of {fields} fields"):
        list(read_tuple_chains(path, SkippedRows()))


def test_a_folder_of_them_gives_chains_and_documents(tmp_path: Path) -> None:
    folder = tmp_path / "raw"
    folder.mkdir()
    path = folder / "train.txt"
    path.write_text("".join(f"{LINE} <TUP> bought boy toy{n} _NULL_\n" for n in range(5)), encoding="utf-8")
    (folder / "notes.txt").write_text("nothing of this\n", encoding="utf-8")
    assert (raw_file_kind(path), raw_file_kind(folder / "notes.txt")) == ("tuples", None)
    rows = load_built(folder, "chains", validation_share=0, test_share=0, min_chain_length=4)["train"]
    assert rows["chain_id"][:2] == ["train/1", "train/2"]
    assert set(rows["protagonist"]) == {""}
    assert set(rows["license"]) == {"unspecified"}
    assert len(rows[0]["events"]) == 4
    assert len(load_built(folder, "documents")["train"]) == 5


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
