"""Frames and mentions of event types as their owners publish them."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from eventformers.datasets_scripts.frame_reader import (
    Frame,
    frame_descendants,
    frame_files,
    plain_definition,
    plain_examples,
    read_frames,
)
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.mention_reader import Mention, _places, nearest, read_mentions
from eventformers.errors import DataFormatError

FRAME = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<?xml-stylesheet type="text/xsl" href="frame.xsl"?>\n'
    '<frame xmlns="http://framenet.icsi.berkeley.edu" name="{name}" ID="{number}">\n'
    "  <definition>&lt;def-root&gt;A &lt;fen&gt;Doer&lt;/fen&gt; acts.\n\n"
    "&lt;ex&gt;&lt;fex name=&quot;Doer&quot;&gt;She&lt;/fex&gt; acted.&lt;/ex&gt; See R&amp;amp;D."
    "&lt;/def-root&gt;</definition>\n"
    '  <FE name="Doer"><definition>someone</definition></FE>\n'
    '  <frameRelation type="Inherits from"><relatedFrame ID="9">{parent}</relatedFrame></frameRelation>\n'
    '  <frameRelation type="Uses"><relatedFrame ID="8">Other</relatedFrame></frameRelation>\n'
    "</frame>\n"
)
RELATIONS = (
    '<frameRelations xmlns="http://framenet.icsi.berkeley.edu">\n'
    '<frameRelationType ID="1" name="Inheritance" superFrameName="Parent" subFrameName="Child">\n'
    '<frameRelation ID="1" superFrameName="Act" subFrameName="Run" supID="1" subID="2"/>\n'
    '<frameRelation ID="2" superFrameName="Move" subFrameName="Run" supID="3" subID="2"/>\n'
    "</frameRelationType>\n"
    '<frameRelationType ID="2" name="Using" superFrameName="Parent" subFrameName="Child">\n'
    '<frameRelation ID="3" superFrameName="Other" subFrameName="Act" supID="4" subID="1"/>\n'
    "</frameRelationType></frameRelations>\n"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "frame").mkdir()
    for number, name in enumerate(("Act", "Run"), start=1):
        text = FRAME.format(name=name, number=number, parent="Event")
        (tmp_path / "frame" / f"{name}.xml").write_text(text, encoding="utf-8")
    return tmp_path


def test_parents_come_from_the_relations_or_else_from_the_frames(folder: Path) -> None:
    text = "A Doer acts. See R&D."
    examples = ["She acted."]
    own = [
        Frame("1", "Act", text, ["Event"], examples),
        Frame("2", "Run", text, ["Event"], examples),
    ]
    assert list(read_frames(frame_files(folder), SkippedRows())) == own
    assert frame_files(folder / "frame") == frame_files(folder)
    (folder / "frRelation.xml").write_text(RELATIONS, encoding="utf-8")
    rows = list(read_frames(frame_files(folder), SkippedRows()))
    assert [(row.name, row.parents) for row in rows] == [("Act", []), ("Run", ["Act", "Move"])]


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "frames.jsonl"
    rows = [
        {"id": 7, "name": "A", "definition": " a\n b ", "parents": ["B"], "examples": ["An a."]},
        {"name": "B", "examples": None},
    ]
    path.write_text("\n\n".join(map(json.dumps, rows)), encoding="utf-8")
    skipped = SkippedRows()
    expected = [Frame("7", "A", "a b", ["B"], ["An a."]), Frame("B", "B", "", [], [])]
    assert list(read_frames([path], skipped)) == expected
    assert skipped == {"blank_line": 1}


INHERITS = '<frameRelation type="Inherits from">\n<relatedFrame/></frameRelation>'
NO_CHARACTER = f"<definition>&amp;#{'9' * 5_000};</definition>"
UNNAMED = '<a><frameRelationType name="Inheritance">\n<frameRelation/></frameRelationType></a>'


@pytest.mark.parametrize(
    ("name", "text", "line", "found"),
    [
        ("a.jsonl", '{"name": "A"}\n{"definition": "b"}', 2, "a line without the name of a frame"),
        ("a.jsonl", '{"name": "A"}\n{"name": "A"}', 2, "the frame 'A' again, after a.jsonl"),
        *(
            ("a.jsonl", f'{{"name": "A", {more}}}', 1, found)
            for more, found in (
                ('"parents": "B"', "the parents 'B' of 'A'"),
                ('"defintion": "b"', "(did you mean 'definition'?)"),
                ('"parents": 0', "the parents 0 of 'A'"),
                ('"parents": {}', "the parents {} of 'A'"),
                ('"parents": [""]', "the parents [''] of 'A'"),
                ('"examples": "a"', "the examples 'a' of 'A'"),
                ('"examples": [" "]', "the examples [' '] of 'A'"),
                ('"definition": "\\ud800"', "half of a surrogate pair"),
                ('"frame_id": 1, "id": 2', '"frame_id" and "id" that differ'),
            )
        ),
        ("a.xml", '<frame name="A">\n<defintion/></frame>', 2, "(did you mean 'definition'?)"),
        ("a.xml", f'<frame name="A">\n{NO_CHARACTER}</frame>', 2, "a reference to no character"),
        ("a.xml", f'<frame name="A">{INHERITS}</frame>', 2, "<relatedFrame> without a name"),
        ("a.xml", "<lexUnit/>", 1, "<lexUnit> without a frame"),
        ("a.xml", '<!DOCTYPE frame SYSTEM "http://a.org/f.dtd">\n<frame/>', 1, "a document type outside"),
        ("frRelation.xml", UNNAMED, 2, "<frameRelation> without subFrameName"),
    ],
)
def test_what_is_refused(tmp_path: Path, name: str, text: str, line: int, found: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataFormatError, match=re.escape(found)) as caught:
        list(read_frames([path], SkippedRows()))
    assert caught.value.line == line


def test_descendants_are_found_through_others_and_circles_end() -> None:
    rows = [
        {"name": "b", "parents": ["a"]},
        {"name": "c", "parents": ["b", "x"]},
        {"name": "d", "parents": ["c"]},
        {"name": "x", "parents": ["d"]},
    ]
    assert frame_descendants(rows) == {
        "a": {"b", "c", "d", "x"},
        "b": {"c", "d", "x"},
        "c": {"d", "x"},
        "d": {"c", "x"},
        "x": {"c", "d"},
    }


def test_definitions_and_examples_lose_markup() -> None:
    markup = '<def-root>An <fex name="x">Agent</fex>\nacts <ex>Not\n<t>this</t></ex>on <b>it</b>.</def-root>'
    assert plain_definition(markup) == "An Agent acts on it."
    assert plain_examples(markup + "<ex>R&amp;D <fex>began</fex>.</ex><ex> </ex><ex>no end") == [
        "Not this",
        "R&D began.",
    ]


def test_malformed_frames_are_left_out_and_counted(folder: Path) -> None:
    (folder / "frame" / "Broken.xml").write_text("<frame", encoding="utf-8")
    text = FRAME.format(name="Act", number=3, parent="Event")
    (folder / "frame" / "Twice.xml").write_text(text, encoding="utf-8")
    relations = RELATIONS.replace(' superFrameName="Act"', "", 1)
    (folder / "frRelation.xml").write_text(relations, encoding="utf-8")
    skipped = SkippedRows("skip")
    rows = list(read_frames(frame_files(folder), skipped))
    assert [(row.name, row.parents) for row in rows] == [("Act", []), ("Run", ["Move"])]
    assert skipped == {"malformed_row": 1, "malformed_document": 2}
    assert [part["file"] for part in skipped.parts] == ["frRelation.xml", "Broken.xml", "Twice.xml"]


@pytest.mark.parametrize(
    ("markup", "plain"),
    [
        ("a <ex>b", "a b"),
        ("a <ex>b</ex> c <ex>d", "a c d"),
        ("a <b", "a <b"),
        ("<i>a</i> <b", "a <b"),
        ("a </ex> b", "a b"),
    ],
)
def test_markup_without_an_end_stays(markup: str, plain: str) -> None:
    assert plain_definition(markup) == plain


TEXT = "Fire fighters fired at the fire."


def read(tmp_path: Path, *rows: object) -> tuple[list[Mention], Counter[str]]:
    path = tmp_path / "own.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    notes: Counter[str] = Counter()
    return list(read_mentions(path, SkippedRows(), notes)), notes


def test_a_row_of_the_published_form_and_the_least_one(tmp_path: Path) -> None:
    published = {
        "id": "m:1",
        "source": "geneva",
        "doc_id": "d",
        "sentence": TEXT,
        "tokens": TEXT.split(),
        "trigger": {"text": "fired", "start_token": 2, "start_char": 14, "end_char": 19},
        "event_type": "Shoot",
        "parent_type": None,
        "frames": ["Shoot_projectiles"],
    }
    least = {"text": "It rained.", "trigger": "rained"}
    rows, notes = read(tmp_path, published, least, {"text": "Nothing."})
    assert rows[0] == (
        "m:1",
        "d",
        "geneva",
        "CC-BY-3.0",
        TEXT,
        "fired",
        14,
        19,
        "Shoot",
        ["Shoot_projectiles"],
    )
    assert rows[1] == ("own/2", "", "own", "unspecified", "It rained.", "rained", 3, 9, "", [])
    assert rows[2][5:9] == ("", -1, -1, "")
    assert notes == {"mentions_without_trigger": 1}


def test_built_rows_can_be_read_again(tmp_path: Path) -> None:
    rows, _ = read(tmp_path, {"text": TEXT, "trigger": {"text": "fire", "start_char": 27}}, {"text": TEXT})
    again, notes = read(tmp_path, *[row._asdict() for row in rows])
    assert again == rows
    assert notes == {"mentions_without_trigger": 1}


@pytest.mark.parametrize(
    ("trigger", "span", "note"),
    [
        ({"text": "fire", "start_char": 27, "end_char": 31}, (27, 31), None),
        ({"start_char": 0, "end_char": 13}, (0, 13), None),
        ({"text": "fire"}, (27, 31), None),
        ("fired", (14, 19), None),
        ("  ", (-1, -1), "mentions_without_trigger"),
        ({"text": "", "start_char": -1, "end_char": -1}, (-1, -1), "mentions_without_trigger"),
        ({}, (-1, -1), "mentions_without_trigger"),
        # Offsets that miss their text by a few, or whose end is not exclusive.
        ({"text": "fired", "start_char": 12, "end_char": 17}, (14, 19), "triggers_moved_to_their_text"),
        ({"text": "fired", "start_char": 14, "end_char": 18}, (14, 19), "triggers_moved_to_their_text"),
        # A whole word goes before a nearer part of one.
        ({"text": "fire", "start_char": 13, "end_char": 17}, (27, 31), "triggers_moved_to_their_text"),
        ("fighters  fired", (5, 19), None),
        ("FIRED", (14, 19), None),
        ("ire", (1, 4), "triggers_at_several_places"),
    ],
)
def test_where_triggers_are(tmp_path: Path, trigger: object, span: tuple[int, int], note: str | None) -> None:
    ((row,), notes) = read(tmp_path, {"text": TEXT, "trigger": trigger})
    assert (row.trigger_start, row.trigger_end) == span
    assert row.trigger == (TEXT[slice(*span)] if span[0] >= 0 else "")
    assert notes == ({note: 1} if note else {})


def test_offsets_count_characters(tmp_path: Path) -> None:
    text = "👍🏽 Zoë hat geheiratet."
    ((row,), _) = read(tmp_path, {"text": text, "trigger": "geheiratet"})
    assert text[row.trigger_start : row.trigger_end] == row.trigger == "geheiratet"


def test_types_of_ace_have_the_frames_of_the_paper(tmp_path: Path) -> None:
    rows, _ = read(
        tmp_path,
        {"text": "a", "event_type": "Die", "parent_type": "Life"},
        {"text": "a", "event_type": "Life.Die"},
        {"text": "a", "event_type": "Life:Die", "frames": ["Killing"]},
        {"text": "a", "event_type": "Die"},
    )
    assert [row.frames for row in rows] == [["Death"], ["Death"], ["Killing"], []]


def test_a_licence_that_a_row_states_goes_first(tmp_path: Path) -> None:
    rows, _ = read(tmp_path, {"text": "a", "source": "geneva", "license": "CC BY 4.0"})
    assert rows[0].license == "CC-BY-4.0"


def test_the_nearest_place() -> None:
    text = "x" * 100 + " go " + "y" * 100 + " go "
    assert nearest(text, "go", 110) == (101, 103)
    assert nearest(text, "go", 150) == (101, 103)
    assert nearest(text, "go", 160) == (205, 207)
    assert nearest("go " + "y" * 80, "go", 71) is None
    assert nearest("a b  c\nd", "b c d", 0) == (2, 8)


RAIN = {"id": "m", "text": "It rained."}


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ([1], "JSON of type list"),
        ({"trigger": "a"}, "no sentence in the mention own/2"),
        ({"id": "m", "text": " "}, "no sentence in the mention m"),
        ({"id": "m", "sentence": 3}, '"sentence" of type int in the mention m'),
        ({"text": "a", "id": [1]}, '"id" of type list'),
        ({"text": "a", "frames": "Death"}, "the frames 'Death'"),
        ({"text": "a \ud83d b"}, "half of a surrogate pair"),
        ({"text": "a", "event_typ": "Die"}, "the key 'event_typ' (did you mean 'event_type'?)"),
        ({"tеxt": "a"}, "(did you mean 'text'?)"),
        ({"text": "a", "trigger": {"text": "a"}, "trigger_start": 0}, "the key 'trigger_start'"),
        ({"text": "a", "sentence": "b"}, '"text" and "sentence" that differ'),
        ({**RAIN, "trigger": "It", "trigger_end": 2}, "a trigger with one offset"),
        ({"text": "a", "event_type": False}, '"event_type" of type bool'),
        ({"text": "a", "frames": {}}, "the frames {}"),
        ({"id": "m" * 1000, "text": "a", "trigger": "b"}, "… (1,002 characters), which"),
        *(
            ({**RAIN, "trigger": trigger}, found)
            for trigger, found in (
                ("snowed", "the trigger 'snowed' of the mention m"),
                (
                    {"text": "snowed", "start_char": 3, "end_char": 9},
                    "'snowed' of the mention m at 3, where it has 'rained'",
                ),
                (
                    {"start_char": 3, "end_char": 30},
                    "a trigger from 3 to 30 in the mention m of 10 characters",
                ),
                ({"text": "It", "start_char": "0"}, "the offset '0' in the mention m"),
                ({"text": "It", "start_char": -3}, "the offset -3 in the mention m"),
                (["It"], "a trigger of type list in the mention m"),
                ({"txt": "It"}, "the key of a trigger 'txt' (did you mean 'text'?)"),
                ({"start_char": 0}, "a trigger with one offset in the mention m"),
            )
        ),
    ],
)
def test_what_is_refused_of_mentions(tmp_path: Path, row: Any, found: str) -> None:
    with pytest.raises(DataFormatError, match=re.escape(found)) as caught:
        read(tmp_path, {"text": "fine"}, row)
    assert (caught.value.path.name, caught.value.line) == ("own.jsonl", 2)


def test_a_malformed_row_is_left_out_and_takes_no_note(tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    rows = [{"text": "a"}, {"text": "b", "frames": 3}, {"text": "It rained.", "trigger": "b"}, {"text": "c"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    skipped, notes = SkippedRows("skip"), Counter[str]()
    assert [row.mention_id for row in read_mentions(path, skipped, notes)] == ["own/1", "own/4"]
    assert skipped == {"malformed_row": 2}
    assert [part["line"] for part in skipped.parts] == [2, 3]
    assert notes == {"mentions_without_trigger": 2}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("aaaa", "aa"),
        ("a  a\t a a", "a a"),
        ("ab ab ab ab", "ab ab a"),
        ("abababcabab", "abab"),
        ("Aa aA", "aa"),
        (" a", "a"),
        ("a b", "b a"),
    ],
)
def test_places_are_those_of_a_pattern_that_overlaps(text: str, wanted: str) -> None:
    pattern = r"\s+".join(map(re.escape, wanted.split()))
    for fold in (False, True):
        flags = re.IGNORECASE if fold else 0
        expected = [match.span(1) for match in re.finditer(f"(?=({pattern}))", text, flags)]
        assert list(_places(text, wanted, fold=fold)) == expected
        assert list(_places(text, wanted, 1, 3, fold=fold)) == [
            span for span in expected if 1 <= span[0] <= 3
        ]
