"""What the readers of events and chains refuse, and what they leave out, counted, under `skip`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eventformers.datasets_scripts.chain_readers import raw_file_kind, read_cloze_items, read_documents
from eventformers.datasets_scripts.event_chains import EventChains
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.errors import DataFormatError

GOOD = {"document_id": "good", "events": [["dog", "bites", "man"], {"predicate": "rained"}]}
EXTRACTED = [0, 8, "dog", "bites", "man", "bite", 0, 0]


def write_rows(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ({"Events": []}, "the key 'Events' (did you mean 'events'?)"),
        ({**GOOD, "sourсe": "a"}, "(did you mean 'source'?)"),
        ({**GOOD, "id": "other"}, '"document_id" and "id" that differ'),
        ({"events": [{"subj": "dog", "predicate": "bites"}]}, "the role 'subj' (did you mean 'subject'?)"),
        ({"events": [{"prеdicate": "bites", "subject": "dog"}]}, "(did you mean 'predicate'?)"),
        *(
            ({"events": [event]}, f"a role of type {type(value).__name__}")
            for value in (0, False, [], {}, 1.5)
            for event in ({"subject": value, "predicate": "bites"}, ["dog", "bites", value])
        ),
        ({"events": [[*EXTRACTED[:5], 0, 0, 0]]}, "a role of type int"),
        ({"events": [["0", *EXTRACTED[1:]]]}, "the places ['0', 8]"),
        ({"events": [[0, -1, *EXTRACTED[2:]]]}, "the places [0, -1]"),
        ({"events": [[*EXTRACTED[:7], "0"]]}, "the marks [0, '0']"),
        ({"events": [[*EXTRACTED[:6], None, 0]]}, "the marks [None, 0]"),
        ({"events": [["\ud800", "bites", "man"]]}, "half of a surrogate pair"),
        ({"events": [["x" * 1000]]}, "an event of 1 fields"),
        ({"events": ["x" * 1000]}, "… (1,002 characters)"),
        ({**GOOD, "chain_id": ["a"]}, '"chain_id" of type list'),
        ([GOOD], "JSON of type list"),
    ],
)
def test_a_malformed_document_is_refused_or_left_out(tmp_path: Path, row: object, found: str) -> None:
    path = write_rows(tmp_path / "events.jsonl", GOOD, row, GOOD)
    with pytest.raises(DataFormatError) as caught:
        list(read_documents([path], SkippedRows()))
    assert found in caught.value.found
    assert caught.value.line == 2
    assert 'malformed="skip"' in str(caught.value)
    skipped = SkippedRows("skip")
    documents = list(read_documents([path], skipped))
    assert [document.document_id for document in documents] == ["good", "good"]
    assert sum(skipped.values()) == 1
    assert [part["line"] for part in skipped.parts] == [2]


def test_null_roles_and_documented_keys_are_accepted(tmp_path: Path) -> None:
    rows = [
        {
            "id": "a",
            "n_sent": 1,
            "events": [EXTRACTED, ["dog", "barks", None], {"predicate": None, "object": "x"}],
        },
        {"document_id": "b", "id": "b", "chain_id": "b/dog", "protagonist": "dog", "events": []},
    ]
    first, second = read_documents([write_rows(tmp_path / "events.jsonl", *rows)], SkippedRows())
    assert [list(raw.event.values()) for raw in first.events] == [
        ["dog", "bites", "man"],
        ["dog", "barks", ""],
        ["", "", "x"],
    ]
    assert second.chain_id == "b/dog"


def test_each_malformed_document_is_counted_with_one_split(tmp_path: Path) -> None:
    events = [[f"dog {number}", "bites", "man"] for number in range(3)]
    good = [
        {"document_id": f"d{number}", "events": [["man", f"sees {number}", ""], *events]}
        for number in range(40)
    ]
    bad = [{"document_id": f"bad{number}", "events": [["a", "b"]]} for number in range(20)]
    path = write_rows(tmp_path / "events.jsonl", *good, *bad, {"evnts": []}, "text")
    settings = {"min_chain_length": 2, "malformed": "skip", "validation_share": 0.3, "test_share": 0.3}
    builder = EventChains("chains", data_dir=path, cache_dir=tmp_path / "cache", **settings)
    builder.download_and_prepare()
    counts = {split: report.skipped["malformed_document"] for split, report in builder.reports.items()}
    assert sum(counts.values()) == 22
    assert all(counts.values())
    lines = [part["line"] for report in builder.reports.values() for part in report.skipped.parts]
    assert sorted(lines) == list(range(41, 63))


CLOZE = [
    "a|b|c\nHOLDOUT_SEP\nx|y|z\nNEG_SEP\nu|v|w\nDOC_SEP\n",
    "d|e|f\nHOLDOUT_SEP\nx|y|z\nNEG_SEP\nu|v|w\nDOC_SEP\n",
]


@pytest.mark.parametrize(
    ("item", "found"),
    [
        ("a|b|c\nHOLDOUT_SEP\nx|y|z\nNEG_SEP\nu|v\nDOC_SEP\n", "2 fields"),
        ("a|b|c\nHOLDOUT_SEP\nx|y|z\nu|v|w\nDOC_SEP\n", "DOC_SEP at the wrong place"),
        ("a|b|c\nHOLDOUT_SEP\n||\nNEG_SEP\nu|v|w\nDOC_SEP\n", "an event without any word"),
        ("a|b|c\nHOLDOUT_SEP\nx|y|z\nNEG-SEP\nu|v|w\nDOC_SEP\n", "the separator 'NEG-SEP'"),
        ("a|b|c\nHOLDOUT_SEP\nx|y|z\nNEG_SEP\nu|v|w\nDOC_SEPP\nDOC_SEP\n", "the separator 'DOC_SEPP'"),
        ("a|b|c\nHOLDOUT_SEP\nx|caf\udce9|z\nNEG_SEP\nu|v|w\nDOC_SEP\n", "the byte 0xe9"),
        ("DOC_SEP\n", "DOC_SEP at the wrong place"),
    ],
)
def test_a_malformed_cloze_item_is_left_out_as_a_whole(tmp_path: Path, item: str, found: str) -> None:
    path = tmp_path / "mcnc_dev.txt"
    path.write_text(CLOZE[0] + item + CLOZE[1], encoding="utf-8", errors="surrogateescape")
    with pytest.raises(DataFormatError, match=r"malformed=.skip") as caught:
        list(read_cloze_items(path, SkippedRows()))
    assert found in caught.value.found
    assert 7 <= (caught.value.line or 0) <= 6 + item.count("\n")
    skipped = SkippedRows("skip")
    items = list(read_cloze_items(path, skipped))
    # The others keep their ids, from which the place of the true event is drawn.
    assert [one.item_id for one in items] == ["mcnc_dev/0", "mcnc_dev/2"]
    assert items[1].context[0]["subject"] == "d"
    assert skipped == {"malformed_item": 1}


def test_an_item_that_cannot_be_asked_is_left_out_of_the_questions(tmp_path: Path) -> None:
    path = tmp_path / "cmcnc_dev.txt"
    path.write_text(CLOZE[0] + "a|b|c\nHOLDOUT_SEP\nNEG_SEP\nu|v|w\nDOC_SEP\n" + CLOZE[1], encoding="utf-8")
    builder = EventChains("coherent_mcnc", data_dir=path, cache_dir=tmp_path / "cache", malformed="skip")
    builder.download_and_prepare()
    report = builder.reports["validation"]
    assert (report.read["items"], report.skipped) == (2, {"malformed_item": 1})


def test_a_malformed_row_of_tuples_is_left_out(tmp_path: Path) -> None:
    chain = "buy man bread _NULL_ <TUP> eat man bread _NULL_"
    path = tmp_path / "valid.txt"
    path.write_text(
        f"{chain}\nbuy man <TUP> a b c d <DIST> x\n{chain} <DIST> e f g _NULL_\n", encoding="utf-8"
    )
    with pytest.raises(DataFormatError, match=r"line 2: .*malformed=.skip"):
        list(read_documents([path], SkippedRows()))
    skipped = SkippedRows("skip")
    assert len(list(read_documents([path], skipped))) == 2
    assert skipped == {"malformed_row": 1, "wrong_continuation": 1}


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("mine.txt", b"\xff\n\nno tuples\na b c d <TUP> e f g h\n", "tuples"),
        ("mine.jsonl", b'{"chain_id"\n\xff\n{"chain_id": "a", "events": []}\n', "chains"),
        ("mine.jsonl", b"[" * 100_000, "documents"),
        ("mine.txt", b"text\n", None),
    ],
)
def test_the_kind_of_a_file_shows_behind_malformed_lines(
    tmp_path: Path, name: str, text: bytes, kind: str | None
) -> None:
    path = tmp_path / name
    path.write_bytes(text)
    assert raw_file_kind(path) == kind
