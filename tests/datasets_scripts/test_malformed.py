"""Malformed parts are refused or left out: lines, chains and whole builds."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from eventformers import cli
from eventformers.datasets_scripts import BUILDERS, build_dataset, build_reports, load_built
from eventformers.datasets_scripts.base import SAMPLES, EventDatasetConfig, NoRowsError, setting_names
from eventformers.datasets_scripts.chain_readers import raw_file_kind, read_cloze_items, read_documents
from eventformers.datasets_scripts.event_chains import EventChains
from eventformers.datasets_scripts.malformed import SkippedRows, malformed_parts, place_text, takes_malformed
from eventformers.datasets_scripts.reading.fields import check_keys
from eventformers.datasets_scripts.reading.lines import (
    MAX_LINE_BYTES_VARIABLE,
    parse_json,
    read_json_values,
    read_lines,
)
from eventformers.errors import DataFormatError, EventformersError, UnknownNameError
from eventformers.evaluation.data import describe_data, load_data
from eventformers.evaluation.results import require_same_data
from eventformers.evaluation.tasks import TASKS

ROWS = '{"text": "a"}\n{"text": \n{"text": "b"}\n'


def test_strict_by_default_and_the_error_names_the_way_on(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(ROWS, encoding="utf-8")
    with pytest.raises(DataFormatError, match=r"line 2: .*malformed=.skip"):
        list(read_json_values(path, SkippedRows(), "an object"))


def test_skipped_lines_are_counted_and_listed(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(ROWS.encode() + b'{"text": "\xff"}\n{"text": "c"}\n')
    skipped = SkippedRows("skip")
    rows = list(read_json_values(path, skipped, "an object"))
    assert [(line, row["text"]) for line, row in rows] == [(1, "a"), (3, "b"), (5, "c")]
    assert skipped == {"malformed_line": 2}
    assert [(part["file"], part["line"]) for part in skipped.parts] == [(path.name, 2), (path.name, 4)]
    assert "the byte 0xff" in place_text(skipped.parts[1])


def test_a_second_pass_has_the_policy_and_no_counts() -> None:
    skipped = SkippedRows("skip")
    skipped.leave_out(DataFormatError("a.txt", 3, "nothing", "something"), "row")
    assert skipped.uncounted() == {}
    assert skipped.uncounted().parts == []
    assert skipped.uncounted().malformed == "skip"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a": 1, "a": 2}', "the key 'a' twice"),
        (r'{"a": ["\ud800"]}', "half of a surrogate pair"),
        ("1" * 10_000, "cannot be read"),
        ("{", "invalid JSON"),
    ],
)
def test_json_that_would_lose_or_break_something(text: str, found: str) -> None:
    with pytest.raises(DataFormatError, match=found):
        parse_json(text, Path("a.json"), 1, "an object")


def test_a_whole_surrogate_pair_is_a_character() -> None:
    assert parse_json(r'"\ud83d\ude00"', Path("a.json"), 1, "a text") == "😀"


def test_a_line_beyond_the_limit_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "long.txt"
    path.write_text("short\n" + "x" * 100 + "\n", encoding="utf-8")
    monkeypatch.setenv(MAX_LINE_BYTES_VARIABLE, "101")
    assert len(list(read_lines(path))) == 2
    monkeypatch.setenv(MAX_LINE_BYTES_VARIABLE, "100")
    with pytest.raises(DataFormatError, match="line 2: found a line of more than 100 bytes"):
        list(read_lines(path))
    monkeypatch.setenv(MAX_LINE_BYTES_VARIABLE, "-1")
    with pytest.raises(EventformersError, match=MAX_LINE_BYTES_VARIABLE):
        list(read_lines(path))


@pytest.mark.parametrize("key", ["Subject", "subj", "ѕubject", "subjct"])
def test_an_unknown_key_is_refused_with_the_nearest(key: str) -> None:
    with pytest.raises(DataFormatError, match="did you mean 'subject'"):
        check_keys({key: "a", "predicate": "b"}, ("subject", "predicate", "object"), Path("a"), 1)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        *[("Event_Type", "event_type"), ("eventType", "event_type"), ("event-types", "event_type")],
        *[("event_typ", "event_type"), ("TEXTS", "text"), ("my_type", None), ("original_type", None)],
        *[("text_id", None), ("sentence_id", None), ("type", None), ("textt", "text")],
    ],
)
def test_a_further_key_is_refused_where_it_may_be_a_missing_one(key: str, meant: str | None) -> None:
    known = ("event_type", "text", "sentence")
    path = Path(f"{key}.jsonl")
    if meant is None:
        with pytest.warns(UserWarning, match=f"{key}.jsonl: ignored the key '{key}'"):
            check_keys({key: "x"}, known, path, 1)
    else:
        with pytest.raises(DataFormatError, match=f"did you mean '{meant}'"):
            check_keys({key: "x"}, known, path, 1)
        with pytest.warns(UserWarning, match="ignored the key"):
            check_keys({key: "x", meant: "y"}, known, path, 1)


def test_another_name_of_a_known_key_stands_for_it_and_ignored_keys_are_named_once() -> None:
    path, known, same = Path("once.jsonl"), ("text", "sentence"), [("text", "sentence")]
    row = {"text": "a", "sentences": "b", "more": 1}
    with pytest.warns(UserWarning, match="ignored the keys 'sentences', 'more'"):
        check_keys(row, known, path, 1, same=same)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_keys(row, known, path, 2, same=same)


GOOD = '{"document_id": "a", "events": [["dog", "bites", "man"], ["man", "cries", ""]]}\n'
BAD = "no JSON\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "corpus.jsonl"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("builder", BUILDERS.values(), ids=str)
def test_every_builder_has_the_setting(builder: Any) -> None:
    assert issubclass(builder.BUILDER_CONFIG_CLASS, EventDatasetConfig)
    assert all(isinstance(config, EventDatasetConfig) for config in builder.BUILDER_CONFIGS)
    assert "malformed" in setting_names(builder.BUILDER_CONFIG_CLASS)


def test_an_unknown_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="Accepted: error, skip"):
        build_dataset("event_chains", "documents", write(tmp_path, GOOD), malformed="skp")


def test_parts_left_out_stand_in_report_card_and_warning(tmp_path: Path) -> None:
    raw = write(tmp_path, GOOD + BAD * 1_200)
    with pytest.warns(UserWarning, match=r"documents: 1,200 malformed parts left out: corpus.jsonl, line 2"):
        folder = build_dataset("event_chains", "documents", raw, tmp_path / "built", malformed="skip")
    report: Any = build_reports(folder)["documents"]
    assert report["rows"] == 1
    assert report["skipped"]["malformed_line"] == report["malformed"]["count"] == 1_200
    assert len(report["malformed"]["parts"]) == 1_000
    first = report["malformed"]["parts"][0]
    assert first.pop("found").startswith("invalid JSON")
    assert first == {"file": "corpus.jsonl", "line": 2, "whole": "line"}
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "malformed parts left out: 1,200" in card
    assert "a line of `corpus.jsonl`, line 2" in card


def test_rows_from_the_cache_warn_too_and_do_not_answer_a_strict_build(tmp_path: Path) -> None:
    raw = write(tmp_path, GOOD + BAD)
    for _ in range(2):
        with pytest.warns(UserWarning, match="1 malformed part left out"):
            assert len(load_built(raw, "documents", malformed="skip")["train"]) == 1
    with pytest.raises(DataFormatError):
        load_built(raw, "documents")


def test_malformed_parts_alone_leave_no_rows(tmp_path: Path) -> None:
    with pytest.raises(NoRowsError, match=r"2 malformed parts left out: corpus.jsonl, line 1"):
        build_dataset("event_chains", "documents", write(tmp_path, BAD * 2), malformed="skip")


@pytest.mark.parametrize(
    ("name", "content"), [("corpus.jsonl", b""), ("corpus.jsonl.gz", b"\x1f\x8b\x08\x00broken")]
)
def test_a_file_that_cannot_be_read_stays_an_error(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataFormatError):
        build_dataset("event_chains", "documents", tmp_path / name, malformed="skip")


def test_the_policy_in_force_reaches_every_build(tmp_path: Path) -> None:
    raw = write(tmp_path, GOOD + BAD)

    @takes_malformed
    def rows(*, malformed: str | None = None) -> int:
        return len(load_built(raw, "documents")["train"])

    with pytest.warns(UserWarning, match="left out"):
        assert rows(malformed="skip") == 1
    with malformed_parts("skip"), pytest.warns(UserWarning, match="left out"):
        assert rows() == 1
    with malformed_parts("skip"), pytest.raises(DataFormatError):
        rows(malformed="error")
    with pytest.raises(DataFormatError):
        rows()


def test_a_result_says_so_and_cannot_be_compared(tmp_path: Path) -> None:
    task = TASKS["type_induction"]
    lines = (SAMPLES / "event_types" / "mentions.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    records = []
    for name, text in (("whole", lines), ("part", [*lines[:-1], "broken\n"])):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(text), encoding="utf-8")
        with malformed_parts("skip"):
            records.append(describe_data(load_data(task, path, None), path))
    whole, part = records
    assert (whole.malformed, part.malformed) == (0, 1)
    assert whole.fingerprint != part.fingerprint
    results: Any = [SimpleNamespace(task=task.name, model="a", dataset=record) for record in records]
    with pytest.raises(EventformersError, match="1 malformed part left out"):
        require_same_data(results)


def test_the_option_of_the_commands(tmp_path: Path) -> None:
    raw = write(tmp_path, GOOD + BAD)
    command = ["data", "build", "event_chains", "--config", "documents", "--data-dir", str(raw), "-o"]
    strict = CliRunner().invoke(cli.app, [*command, str(tmp_path / "a")])
    assert isinstance(strict.exception, DataFormatError)
    assert "line 2: found invalid JSON" in str(strict.exception)
    with pytest.warns(UserWarning, match="1 malformed part left out"):
        lenient = CliRunner().invoke(cli.app, [*command, str(tmp_path / "b"), "--malformed", "skip"])
    assert lenient.exit_code == 0
    assert "1 malformed line" in lenient.output


GOOD_DOCUMENT = {"document_id": "good", "events": [["dog", "bites", "man"], {"predicate": "rained"}]}
EXTRACTED = [0, 8, "dog", "bites", "man", "bite", 0, 0]


def write_rows(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ({"Events": []}, "the key 'Events' (did you mean 'events'?)"),
        ({**GOOD_DOCUMENT, "sourсe": "a"}, "(did you mean 'source'?)"),
        ({**GOOD_DOCUMENT, "id": "other"}, '"document_id" and "id" that differ'),
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
        ({**GOOD_DOCUMENT, "chain_id": ["a"]}, '"chain_id" of type list'),
        ([GOOD_DOCUMENT], "JSON of type list"),
    ],
)
def test_a_malformed_document_is_refused_or_left_out(tmp_path: Path, row: object, found: str) -> None:
    path = write_rows(tmp_path / "events.jsonl", GOOD_DOCUMENT, row, GOOD_DOCUMENT)
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
