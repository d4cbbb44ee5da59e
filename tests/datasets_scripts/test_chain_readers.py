"""Readers of documents, chains, narrative cloze files and tuples."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from eventformers.datasets_scripts import load_built
from eventformers.datasets_scripts.chain_readers import (
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
