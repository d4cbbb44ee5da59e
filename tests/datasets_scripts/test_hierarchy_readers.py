"""Readers of mentions, dictionaries and hierarchies, and of JSON of Wikidata."""

from __future__ import annotations

import bz2
import gzip
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hierarchy_builds import write

from eventformers.datasets_scripts import hierarchy_readers
from eventformers.datasets_scripts.hierarchy_readers import (
    Statement,
    is_event_candidate,
    read_edges,
    read_entities,
    read_hierarchy,
    read_item_properties,
    read_linked_mentions,
    read_mention_table,
    read_titles,
)
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.reading.lines import read_lines
from eventformers.errors import DataFormatError

MENTION = {
    "context_left": " Before the ",
    "mention": "fall",
    "context_right": " came pride. ",
    "context_lang": "en",
    "label_id": "830917",
}


def test_a_mention_of_xlel_wd(tmp_path: Path) -> None:
    (mention,) = read_linked_mentions(write(tmp_path / "m.jsonl", MENTION), SkippedRows())
    assert mention._asdict() == {
        "line": 1,
        "mention_id": "",
        "language": "en",
        "context_left": " Before the ",
        "mention": "fall",
        "context_right": " came pride. ",
        "title": "",
        "date": "",
        "event_id": "830917",
        "gold_events": None,
        "source": "",
        "license": "",
    }


def test_further_fields_of_mentions(tmp_path: Path) -> None:
    more = {
        "context_title": "News",
        "context_date": "2012-08-12",
        "id": "m1",
        "gold_label_ids": ["Q7", 8, "7"],
        "source": "own",
        "license": "cc by 4.0",
    }
    (mention,) = read_linked_mentions(write(tmp_path / "m.jsonl", {**MENTION, **more}), SkippedRows())
    assert (mention.title, mention.date, mention.mention_id) == ("News", "2012-08-12", "m1")
    assert mention.gold_events == ["Q7", "8", "7"]
    assert (mention.source, mention.license) == ("own", "CC-BY-4.0")


FAULTS: dict[Any, list[tuple[Any, str]]] = {
    read_linked_mentions: [
        ([], "JSON of type list"),
        ({"context_lang": "en"}, 'a line without "mention"'),
        ({**MENTION, "context_lang": ""}, 'a mention without "context_lang"'),
        ({**MENTION, "mention": ["fall"]}, '"mention" of type list'),
        ({**MENTION, "gold_label_ids": "7"}, '"gold_label_ids" of type str'),
        ({**MENTION, "gold_label_ids": [""]}, "'' in \"gold_label_ids\""),
        ({**MENTION, "mention": "\ud800"}, "half of a surrogate pair"),
        ({**MENTION, "language": "de"}, '"context_lang" and "language" that differ'),
        (
            {"mention": "a", "context_lang": "en", "Label_id": "5"},
            "the key 'Label_id' (did you mean 'label_id'?)",
        ),
    ],
    read_titles: [
        ({"label_title": "Fall", "label_lang": "en"}, "an event without an id"),
        ({"label_id": "1", "label_title": "Fall"}, "an event without a language"),
        ("Fall", "JSON of type str"),
        ({"label_id": "1", "label_titel": "Fall"}, "the key 'label_titel' (did you mean 'label_title'?)"),
    ],
    read_hierarchy: [
        ({"part_of": ["1"]}, "a line without the id of an event"),
        ({"label_id": "1", "part_of": "2"}, '"part_of" of type str'),
        ({"label_id": "1", "part_of": [{"count": 2}]}, "{'count': 2} in \"part_of\""),
        ({"label_id": "1", "split": "exam"}, "the split 'exam'"),
        ({"label_id": "1", "part-of": ["2"]}, "the key 'part-of' (did you mean 'part_of'?)"),
        ({"label_id": "1", "part_of": [{"label_Id": "2"}]}, "the key 'label_Id' (did you mean 'label_id'?)"),
    ],
    read_edges: [
        ([], "JSON of type list"),
        (
            {"child_id": "1", "parent_id": "2", "Relation": "follows"},
            "the key 'Relation' (did you mean 'relation'?)",
        ),
    ],
}


@pytest.mark.parametrize(
    ("reader", "row", "found"), [(reader, *fault) for reader, faults in FAULTS.items() for fault in faults]
)
def test_faults_of_json_name_the_line(tmp_path: Path, reader: Any, row: Any, found: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match=r"rows\.jsonl, line 1: .*malformed=.skip") as caught:
        list(reader(path, SkippedRows()))
    assert f"found {found}" in str(caught.value)


@pytest.mark.parametrize("name", ["label_desc", "label_description"])
def test_both_spellings_of_the_description(tmp_path: Path, name: str) -> None:
    row = {"label_id": "Q5", "label_title": " Fall ", name: "It fell.", "label_lang": "en"}
    (event,) = read_titles(write(tmp_path / "d.jsonl", row), SkippedRows())
    assert event[1:] == ("Q5", "en", "Fall", "It fell.")


def test_a_description_that_is_not_a_number_is_none(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    path.write_text('{"label_id": 5, "label_title": "Fall", "label_desc": NaN, "label_lang": "en"}\n\n')
    skipped = SkippedRows()
    (event,) = read_titles(path, skipped)
    assert event[1:] == ("5", "en", "Fall", "")
    assert skipped == {"blank_line": 1}


def test_hierarchies_by_name_and_by_property(tmp_path: Path) -> None:
    path = write(
        tmp_path / "h.jsonl",
        {"label_id": "1", "part_of": [{"label_id": "2", "count": 4}], "follows": ["3"], "split": "dev"},
        {"label_id": "2", "P527": ["Q1"], "P361": [], "P155": [], "P156": [4]},
    )
    first, second = read_hierarchy(path, SkippedRows())
    assert first == ("1", "validation", [Statement("1", "part_of", "2"), Statement("1", "follows", "3")])
    assert second == ("2", None, [Statement("2", "P527", "Q1"), Statement("2", "P156", "4")])


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("child_id,child,relation,parent_id\n1,a,follows,2\n", ("1", "follows", "2")),
        ("child_id,parent_id,source\n1,2,own\n", ("1", "part_of", "2")),
        ('head_qid,property,tail_qid,stated_in\nQ1,P361,Q2,"a,b"\n', ("Q1", "P361", "Q2")),
    ],
)
def test_edges_of_csv_files(tmp_path: Path, text: str, statement: tuple[str, str, str]) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(text, encoding="utf-8")
    (entry,) = read_edges(path, SkippedRows())
    assert entry == (None, None, [Statement(*statement)])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a,b\n1,2\n", "line 1: found the columns 'a,b'"),
        ("child_id,relation,parent_id\n1,part_of,2\n1,near,2\n", "line 3: found the relation 'near'"),
        ("child_id,parent_id\n1,\n", "line 2: found an edge without one of its events"),
        (
            "head_qid,property,tail_qid\nQ1\n",
            "line 2: found 1 column; accepted: 3 columns, as in the header",
        ),
        ('child_id,parent_id\n1,2\n2,"3\n4,5\n', "line 3: found broken CSV (unexpected end of data)"),
        ('child_id,parent_id\n1,"2"3\n', "line 2: found broken CSV ("),
        (f"child_id,parent_id\n1,{'2' * 200_000}\n", "line 2: found broken CSV (field larger than"),
    ],
)
def test_faults_of_csv_files(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataFormatError) as caught:
        list(read_edges(path, SkippedRows()))
    assert found in str(caught.value)


def test_edges_of_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "edges.jsonl"
    rows = [{"child_id": "1", "parent_id": 2}, {"event_id": "Q1", "next_event_id": "3", "source": "own"}]
    statements = [entry.statements for entry in read_edges(write(path, *rows), SkippedRows())]
    assert statements == [[Statement("1", "part_of", "2")], [Statement("Q1", "followed_by", "3")]]


def test_tables_of_the_pipeline(tmp_path: Path) -> None:
    path = tmp_path / "xlec-data.tsv"
    header = "Wikidata Item\tWikipedia Language\tWikipedia Title\tWikipedia Inlink Title\tContext\n"
    path.write_text(header + 'Q5\ten\tFall\tPride\tA "quote <a> great fall </a> came.\n\n', encoding="utf-8")
    skipped = SkippedRows()
    (mention,) = read_mention_table(path, skipped)
    assert (mention.context_left, mention.mention, mention.context_right) == (
        'A "quote ',
        "great fall",
        " came.",
    )
    assert (mention.event_id, mention.title, mention.date, mention.language) == ("Q5", "Pride", "", "en")
    assert skipped == {"blank_line": 1}
    path.write_text(header + "Q5\ten\tFall\tPride\tno mention\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match="line 2: found a Context without a mention"):
        list(read_mention_table(path, SkippedRows()))
    path.write_text(header + "Q5\ten\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match=r"line 2: found 2 columns; accepted: 5 columns"):
        list(read_mention_table(path, SkippedRows()))
    described = tmp_path / "label_desc.tsv"
    names = "Wikidata Item\tWikipedia Language\tWikipedia Title\tWikipedia Description\n"
    described.write_text(names + "Q5\tde\tSturz\tEr fiel.\n", encoding="utf-8")
    assert [event[1:] for event in read_titles(described, SkippedRows(), "description_table")] == [
        ("Q5", "de", "Sturz", "Er fiel.")
    ]
    # A carriage return inside a line ends no record, and a row of separators is blank.
    described.write_text(f'{names}\t\t\t\nQ5\tde\tStu\rrz\t"Er fiel.\n', encoding="utf-8", newline="")
    skipped = SkippedRows()
    assert [event[3:] for event in read_titles(described, skipped, "description_table")] == [
        ("Stu\rrz", '"Er fiel.')
    ]
    assert skipped == {"blank_line": 1}
    described.write_text(f"{names[:-1]}\tWikipedia Title\nQ5\tde\tA\tB\tC\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match=r"line 1: found a column twice in .*each column once"):
        list(read_titles(described, SkippedRows(), "description_table"))


@pytest.mark.parametrize(("suffix", "module"), [(".gz", gzip), (".bz2", bz2)])
def test_compressed_files(tmp_path: Path, suffix: str, module: Any) -> None:
    path = tmp_path / f"m.jsonl{suffix}"
    path.write_bytes(module.compress((json.dumps(MENTION) + "\n").encode()))
    assert len(list(read_linked_mentions(path, SkippedRows()))) == 1
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DataFormatError, match=r"broken .* data"):
        list(read_lines(path))
    path.write_bytes(b"plain text")
    with pytest.raises(DataFormatError, match=r"line 1: found broken .* data"):
        list(read_lines(path))


@pytest.mark.parametrize(
    ("reader", "good", "bad"),
    [
        (read_linked_mentions, MENTION, {**MENTION, "context_lang": ""}),
        (read_titles, {"label_id": "1", "label_lang": "en"}, {"label_lang": "en"}),
        (read_hierarchy, {"label_id": "1", "part_of": ["2"]}, {"label_id": "1", "part_of": "2"}),
        (read_edges, {"child_id": "1", "parent_id": "2"}, {"child_id": "1", "parent_id": ""}),
    ],
)
def test_malformed_rows_of_json_are_left_out(tmp_path: Path, reader: Any, good: Any, bad: Any) -> None:
    path = write(tmp_path / "rows.jsonl", good, bad, good)
    path.write_text(path.read_text(encoding="utf-8") + "\n{\n", encoding="utf-8")
    skipped = SkippedRows("skip")
    assert len(list(reader(path, skipped))) == 2
    assert skipped == {"malformed_row": 1, "malformed_line": 1, "blank_line": 1}
    assert [part["line"] for part in skipped.parts] == [2, 5]


def test_a_quote_that_is_never_closed_costs_its_own_edge(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text('child_id,parent_id\n1,2\n2,"3\n\n4,5\n5,6,7\n6,"\n7"\n', encoding="utf-8")
    skipped = SkippedRows("skip")
    statements = [statement for entry in read_edges(path, skipped) for statement in entry.statements]
    assert [(one.subject, one.object) for one in statements] == [("1", "2"), ("4", "5")]
    assert skipped == {"malformed_row": 4, "blank_line": 1}
    assert [part["line"] for part in skipped.parts] == [3, 6, 7, 8]


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("child_id,parent_id,Relation", "the column 'Relation' (did you mean 'relation'?)"),
        ("child_id,parent_id,child_id", "the column 'child_id' twice"),
        ("", "the columns ''"),
    ],
)
def test_headers_of_edges_are_errors_also_where_rows_may_be_left_out(
    tmp_path: Path, header: str, found: str
) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(f"{header}\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match=re.escape(found)):
        list(read_edges(path, SkippedRows("skip")))


def test_malformed_rows_of_tables_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "xlec-data.tsv"
    path.write_text(
        "Wikidata Item\tWikipedia Language\tContext\nQ5\ten\tA <a>fall</a>.\nQ5\ten\nQ6\ten\tno mark\n",
        encoding="utf-8",
    )
    skipped = SkippedRows("skip")
    assert [mention.mention for mention in read_mention_table(path, skipped)] == ["fall"]
    assert skipped == {"malformed_row": 2}
    path.write_text("Wikidata Item\tWikipedia Languge\tContext\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match="did you mean 'Wikipedia Language'"):
        list(read_mention_table(path, skipped))


def test_many_marks_without_an_end_are_read_in_linear_time(tmp_path: Path) -> None:
    # In quadratic time it takes hours.
    path = tmp_path / "xlec-data.tsv"
    path.write_text(f"Wikidata Item\tLanguage\tContext\nQ5\ten\t{'<a>' * 1_000_000}\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match="a Context without a mention"):
        list(read_mention_table(path, SkippedRows()))


def test_an_empty_list_of_gold_events_states_none(tmp_path: Path) -> None:
    rows = ({**MENTION, "gold_label_ids": ids} for ids in ([], ["830917"]))
    read = read_linked_mentions(write(tmp_path / "m.jsonl", *rows), SkippedRows())
    assert [mention.gold_events for mention in read] == [None, ["830917"]]


def test_a_licence_without_a_source_is_kept(tmp_path: Path) -> None:
    rows = ({**MENTION, "license": "cc by 4.0"}, {**MENTION, "source": "wikinews"}, MENTION)
    read = read_linked_mentions(write(tmp_path / "m.jsonl", *rows), SkippedRows())
    assert [(mention.source, mention.license) for mention in read] == [
        ("", "CC-BY-4.0"),
        ("wikinews", "CC-BY-2.5"),
        ("", ""),
    ]


def item_claim(name: str, other: str, rank: str = "normal") -> dict[str, Any]:
    value = {"entity-type": "item", "numeric-id": int(other[1:]), "id": other}
    snak = {"snaktype": "value", "property": name, "datavalue": {"value": value, "type": "wikibase-entityid"}}
    return {"mainsnak": snak, "type": "statement", "rank": rank}


def entity(identifier: str, claims: object, **texts: tuple[str, str]) -> dict[str, Any]:
    return {
        "type": "item",
        "id": identifier,
        "labels": {
            language: {"language": language, "value": label} for language, (label, _) in texts.items()
        },
        "descriptions": {
            language: {"language": language, "value": told} for language, (_, told) in texts.items() if told
        },
        "claims": claims,
    }


def dump(path: Path, *entities: dict[str, Any]) -> Path:
    lines = ",\n".join(json.dumps(one) for one in entities)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    return path


def test_the_items_of_a_dump(tmp_path: Path) -> None:
    unknown = {"mainsnak": {"snaktype": "somevalue", "property": "P361"}, "rank": "normal"}
    numbered = item_claim("P527", "Q9")
    del numbered["mainsnak"]["datavalue"]["value"]["id"]
    claims = {
        "P361": [item_claim("P361", "Q2"), item_claim("P361", "Q3", rank="deprecated"), unknown],
        "P527": [numbered],
        "P155": [item_claim("P155", "Q4")],
        "P585": [{}],
        "P276": [{}],
    }
    path = dump(
        tmp_path / "dump.json",
        entity("Q1", claims, en=("Fall", "a fall"), de=("Sturz", "")),
        entity("Q5", {"P31": [item_claim("P31", "Q6")]}, en=("No event", "")),
        entity("Q7", {"P585": [{}]}),
        entity("P361", {"P361": [item_claim("P361", "Q2")]}),
    )
    skipped = SkippedRows()
    first, second = read_entities(path, skipped)
    assert (first.line, first.event_id, first.is_candidate) == (2, "Q1", True)
    assert first.statements == [
        Statement("Q1", "P361", "Q2"),
        Statement("Q1", "P527", "Q9"),
        Statement("Q1", "P155", "Q4"),
    ]
    assert [text[1:] for text in first.texts] == [("Q1", "en", "Fall", "a fall"), ("Q1", "de", "Sturz", "")]
    assert (second.event_id, second.is_candidate, second.statements) == ("Q7", False, [])
    assert skipped == {
        "statement_deprecated": 1,
        "statement_without_item": 1,
        "entity_without_time_or_edges": 1,
        "entity_that_is_no_item": 1,
    }


def test_lines_that_cannot_matter_are_not_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = dump(
        tmp_path / "dump.json",
        *(entity(f"Q{number}", {"P585": [{}], "P276": [{}]}) for number in range(1, 9)),
        entity("Q9", {"P361": [item_claim("P361", "Q1")]}),
    )
    parsed = []
    monkeypatch.setattr(
        hierarchy_readers, "parse_json", lambda text, *_: parsed.append(text) or json.loads(text)
    )
    assert [one.event_id for one in read_entities(path, SkippedRows(), edges_only=True)] == ["Q9"]
    assert len(parsed) == 1


@pytest.mark.parametrize(
    ("properties", "is_event"),
    [
        ("P580 P582 P276", True),
        ("P580 P276", False),
        ("P585 P625", True),
        ("P2047 P276", True),
        ("P585", False),
        ("P276 P625", False),
    ],
)
def test_events_have_a_time_and_a_place(properties: str, is_event: bool) -> None:
    assert is_event_candidate(properties.split()) is is_event


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ('{"id": "Q1", "P361"', "invalid JSON"),
        ('{"id": "Q1", "P361": 1}', 'an entity without "id" or "claims"'),
    ],
)
def test_faults_of_a_dump(tmp_path: Path, line: str, found: str) -> None:
    path = tmp_path / "dump.json"
    path.write_text(f"[\n{line}\n]\n", encoding="utf-8")
    with pytest.raises(DataFormatError) as caught:
        list(read_entities(path, SkippedRows()))
    assert f"line 2: found {found}" in str(caught.value)


def test_item_properties(tmp_path: Path) -> None:
    rows = [
        {
            "qid": "Q1",
            "pid": "P361",
            "datavalue": [{"value": {"id": {"value": "Q2"}}}, {"value": {"time": "1900"}}],
        },
        {"qid": "Q1", "pid": "P155", "datavalue": [{"value": {"id": "Q3"}}]},
        {"qid": "Q1", "pid": "P585", "datavalue": [{"value": {"time": "1900"}}]},
    ]
    path = tmp_path / "wd_item_props.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    skipped = SkippedRows()
    assert list(read_item_properties(path, skipped)) == [
        Statement("Q1", "P361", "Q2"),
        Statement("Q1", "P155", "Q3"),
    ]
    assert skipped == {"property_of_no_edge": 1, "statement_without_item": 1}
    path.write_text('{"qid": "Q1", "pid": "P361"}\n', encoding="utf-8")
    with pytest.raises(DataFormatError, match='line 1: found a line without a list "datavalue"'):
        list(read_item_properties(path, SkippedRows()))
    path.write_text('{"pid": "P361", "datavalue": []}\n', encoding="utf-8")
    with pytest.raises(DataFormatError, match="line 1: found a line without an item or a property"):
        list(read_item_properties(path, SkippedRows()))


def test_item_descriptions(tmp_path: Path) -> None:
    path = tmp_path / "wd_item_descriptions.jsonl"
    path.write_text('{"qid": "Q1", "lang": "de", "label": "Sturz", "description": null}\n', encoding="utf-8")
    assert [text[1:] for text in read_titles(path, SkippedRows(), "descriptions")] == [
        ("Q1", "de", "Sturz", "")
    ]
    path.write_text('{"qid": "Q1", "label": "Sturz"}\n', encoding="utf-8")
    with pytest.raises(DataFormatError, match="line 1: found an event without a language"):
        list(read_titles(path, SkippedRows(), "descriptions"))


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"labels": "Fall"}, '"labels" of type str'),
        ({"labels": {"en": {"value": 5}}}, "{'value': 5} in \"labels\""),
        ({"claims": {"P361": {}}}, "P361 of type dict"),
        ({"id": "Q\u0661"}, "the item 'Q\u0661'"),
        ({"labels": {"en": {"value": "\ud800"}}}, "half of a surrogate pair"),
    ],
)
def test_wrong_types_of_an_entity_are_refused_or_left_out(
    tmp_path: Path, changes: dict[str, Any], found: str
) -> None:
    good = entity("Q2", {"P361": [item_claim("P361", "Q1")]}, en=("Rise", ""))
    path = dump(tmp_path / "dump.json", {**good, **changes, "sitelinks": {}}, good)
    with pytest.raises(DataFormatError) as caught:
        list(read_entities(path, SkippedRows()))
    assert f"line 2: found {found}" in str(caught.value)
    skipped = SkippedRows("skip")
    assert [one.event_id for one in read_entities(path, skipped)] == ["Q2"]
    assert skipped == {"malformed_entity": 1}


def test_malformed_rows_of_item_files_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"qid": "Q1", "pid": "P361", "datavalues": []}\n', encoding="utf-8")
    with pytest.raises(DataFormatError, match="did you mean 'datavalue'"):
        list(read_item_properties(path, SkippedRows()))
    path.write_text('{"qid": "Q1", "lang": "de", "labels": "Sturz"}\n', encoding="utf-8")
    with pytest.raises(DataFormatError, match="did you mean 'label'"):
        list(read_titles(path, SkippedRows(), "descriptions"))
    for reader in (read_item_properties, partial(read_titles, kind="descriptions")):
        skipped = SkippedRows("skip")
        assert list(reader(path, skipped)) == []
        assert skipped == {"malformed_row": 1}
