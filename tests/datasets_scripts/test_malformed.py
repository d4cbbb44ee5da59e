"""Malformed parts of raw files: an error, or left out, counted and listed."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from eventformers.datasets_scripts.malformed import SkippedRows, place_text
from eventformers.datasets_scripts.reading.fields import check_keys
from eventformers.datasets_scripts.reading.lines import (
    MAX_LINE_BYTES_VARIABLE,
    parse_json,
    read_json_values,
    read_lines,
)
from eventformers.errors import DataFormatError, EventformersError

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
