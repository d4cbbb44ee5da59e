"""A user's own mentions: all formats read the same, and errors name the line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas
import pyarrow as pa
import pytest
from datasets import Dataset

from eventformers.datasets_scripts.building import build_dataset
from eventformers.datasets_scripts.malformed import malformed_parts
from eventformers.errors import DataFormatError, EventformersError
from eventformers.inference.encoding.mention_files import TextMention, load_text_mentions
from eventformers.models.grounding_tokens import MentionText

TEXT = "A storm hit the city, and the flood came."


def write_lines(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_all_ways_to_write_a_mention_are_one(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [
        {"context_left": "A ", "mention": "storm", "context_right": TEXT[7:], "language": "en"},
        {"context_left": "A ", "mention": "storm", "context_right": TEXT[7:], "context_lang": "en"},
        {"text": TEXT, "start_char": 2, "end_char": 7, "language": "en"},
        {"text": TEXT, "start_char": 2, "end_char": 7, "mention": "storm", "language": " en "},
    ]
    expected = MentionText("A ", "storm", TEXT[7:])
    found, counts = load_text_mentions(write_lines(tmp_path / "mine.jsonl", *records))
    assert found == [TextMention(f"mine/{line}", "en", expected) for line in (1, 2, 3, 4)]
    assert counts == {}
    assert found[0].span == (2, 7)
    in_memory, _ = load_text_mentions([*records, TEXT.replace("storm", "[[storm]]")])
    assert [mention.text for mention in in_memory] == [expected] * 5
    assert [mention.mention_id for mention in in_memory] == ["0", "1", "2", "3", "4"]
    assert [mention.language for mention in in_memory] == ["en"] * 4 + [""]


def test_what_is_known_of_the_document_is_read(tmp_path: Path) -> None:
    fields = {"context_left": "", "mention": "fire", "context_right": ""}
    rows = [
        {**fields, "id": 7, "title": "News", "date": "2020"},
        {**fields, "mention_id": "b", "context_title": "News", "context_date": "2020"},
    ]
    found, _ = load_text_mentions(write_lines(tmp_path / "mine.json", *rows))
    assert found == [
        TextMention(name, "", MentionText("", "fire", "", "News", "2020")) for name in ("7", "b")
    ]


def test_brackets_mark_mentions_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "news.txt.gz"
    lines = ["A [[storm]] hit, and the [[flood]] came.", "", "Nothing.", "[[Fire]]"]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    found, counts = load_text_mentions(path)
    whole = "A storm hit, and the flood came."
    assert [mention.mention_id for mention in found] == ["news/1.1", "news/1.2", "news/4"]
    for mention, name in zip(found, ("storm", "flood", "Fire"), strict=True):
        text = mention.text
        assert text.mention == name
        start, end = mention.span
        joined = text.context_left + text.mention + text.context_right
        assert joined == ("Fire" if name == "Fire" else whole)
        assert joined[start:end] == name
    assert counts == {"blank_line": 1, "text_without_mention": 1}


def test_characters_stay_as_they_are() -> None:
    # The last letter of the mention carries two combining marks; Hebrew runs from right to left.
    hebrew, combined = "ב[[מלחמת העולם]] השנייה", "le [[se\u0301isme\u0301\u0323]]\u200d fort"
    found, _ = load_text_mentions([hebrew, combined])
    assert [mention.text for mention in found] == [
        MentionText("ב", "מלחמת העולם", " השנייה"),
        MentionText("le ", "se\u0301isme\u0301\u0323", "\u200d fort"),
    ]
    assert found[1].span == (3, 12)


def test_ids_that_repeat_are_made_distinct() -> None:
    rows = [{"mention": "fire", "id": name} for name in ("a", "a", "a#2", "a", "b")]
    found, counts = load_text_mentions(rows)
    names = [mention.mention_id for mention in found]
    assert names[:2] == ["a", "a#2"]
    assert names[4] == "b"
    assert len(set(names)) == 5
    assert counts == {"mentions_with_repeated_id": 3}


def test_rows_of_a_built_dataset_are_read(tmp_path: Path) -> None:
    folder = build_dataset("event_hierarchies", "mentions", None, tmp_path / "built")
    found, _ = load_text_mentions(folder)
    assert len(found) > 50
    assert {mention.language for mention in found} == {"de", "en", "es", "fr"}
    assert all(mention.text.mention for mention in found)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"mention": " "}, "line 2: found a mention without text"),
        # A zero-width space, a joiner, a mark of direction and a control character.
        ({"mention": "\u200b \u200d\u202e\x01"}, "line 2: found a mention without text"),
        ({"context_left": "a"}, "line 2: found the fields context_left; accepted"),
        ([], "line 2: found JSON that is list; accepted: one JSON object a line with"),
        ({"mention": ["a"]}, 'line 2: found "mention" of type list'),
        ({"text": TEXT}, "line 2: found a mention from None to None"),
        ({"text": TEXT, "start_char": 0, "end_char": 99}, "mention from 0 to 99 in a text of 41 characters"),
        ({"text": TEXT, "start_char": -2, "end_char": 3}, "mention from -2 to 3"),
        ({"text": TEXT, "start_char": 3, "end_char": 3}, "mention from 3 to 3"),
        ({"text": TEXT, "start_char": True, "end_char": 3}, "mention from True to 3"),
        ({"text": TEXT, "start_char": 1, "end_char": 2}, "line 2: found a mention without text"),
        (
            {"text": TEXT, "start_char": 2, "end_char": 7, "mention": "fire"},
            "the mention 'fire', where the text has 'storm'",
        ),
        ({"mention": "\ud800"}, "half of a surrogate pair"),
        ({"mention": "a", "context_lft": "b"}, "the key 'context_lft' .did you mean 'context_left'"),
        ({"mention": "a", "Language": "en"}, "the key 'Language' .did you mean 'language'"),
        ({"text": TEXT, "start_char": "x" * 1000, "end_char": 3}, r"from 'x{199}… \(1,002 characters\) to 3"),
    ],
)
def test_a_wrong_line_is_told(record: object, message: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "mine.jsonl", {"mention": "fire"}, record)
    with pytest.raises(DataFormatError, match=message):
        load_text_mentions(path)
    with pytest.raises(EventformersError, match=r"text 1: found .*; accepted: ") as error:
        load_text_mentions(["[[fire]]", record])  # type: ignore[list-item]
    assert "line" not in str(error.value).split("found")[0]


@pytest.mark.parametrize("text", ["a [[b", "a b]]", "a [[b [[c]] d]]", "[[a]] b]]", "]]a[["])
def test_brackets_that_do_not_match_are_told(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(f"[[fire]]\n{text}\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match="line 2: found unbalanced brackets"):
        load_text_mentions(tmp_path / "a.txt")


def test_a_file_without_mentions_is_told(tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match="no such file"):
        load_text_mentions(tmp_path / "no.jsonl")
    (tmp_path / "mine.csv").write_text("text\n", encoding="utf-8")
    with pytest.raises(EventformersError, match=r"suffix '\.csv'"):
        load_text_mentions(tmp_path / "mine.csv")
    (tmp_path / "mine.txt").write_text("a storm\n", encoding="utf-8")
    with pytest.raises(EventformersError, match=r"no line has a mention between \[\[ and \]\]"):
        load_text_mentions(tmp_path / "mine.txt")
    (tmp_path / "blank.txt").write_text("[[ \u200b]]\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match=r"blank\.txt, line 1: found no text between"):
        load_text_mentions(tmp_path / "blank.txt")
    with pytest.raises(EventformersError, match="the texts: found no mention"):
        load_text_mentions([])
    with pytest.raises(EventformersError, match="text 0: found half of a surrogate pair"):
        load_text_mentions(["[[\ud800]]"])


def test_mentions_come_in_frames_and_other_types_are_refused() -> None:
    rows = {"text": [TEXT, TEXT], "start_char": [2, 30], "end_char": [7, 35], "cased": [True, False]}
    for frame in (pandas.DataFrame(rows), Dataset.from_dict(rows), pa.table(rows)):
        found, _ = load_text_mentions(frame)
        assert [mention.text.mention for mention in found] == ["storm", "flood"]
    for wrong in ({"a [[storm]]"}, b"a [[storm]]", 3, {"text": TEXT}):
        with pytest.raises(EventformersError, match=f"found {type(wrong).__name__}; accepted: a file"):
            load_text_mentions(wrong)


def test_many_brackets_are_read_in_linear_time() -> None:
    with pytest.raises(EventformersError, match="unbalanced brackets"):
        load_text_mentions(["[[" * 500_000])


def test_malformed_mentions_can_be_left_out(tmp_path: Path) -> None:
    lines = write_lines(tmp_path / "mine.jsonl", {"mention": "fire"}, {"mention": ["a"]}, {"mention": "war"})
    text = tmp_path / "mine.txt"
    text.write_text("a [[fire]]\n[[\na [[war]]\n", encoding="utf-8")
    for path, whole in ((lines, "row"), (text, "line")):
        with pytest.raises(DataFormatError, match=rf"line 2: .*skip each such {whole} with malformed=.skip"):
            load_text_mentions(path)
        with malformed_parts("skip"), pytest.warns(UserWarning, match="1 malformed part left out"):
            found, counts = load_text_mentions(path)
        assert [mention.text.mention for mention in found] == ["fire", "war"]
        assert counts == {f"malformed_{whole}": 1}
