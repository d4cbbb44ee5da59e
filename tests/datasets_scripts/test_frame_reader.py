"""Frames from FrameNet's XML and from JSON lines, and what inherits from what."""

from __future__ import annotations

import json
import re
from pathlib import Path

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
