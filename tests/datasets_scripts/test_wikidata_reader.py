"""Wikidata's JSON: the lines of an entity dump, and the files that XLEL-WD's pipeline makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eventformers.datasets_scripts import hierarchy_readers
from eventformers.datasets_scripts.hierarchy_readers import (
    Statement,
    is_event_candidate,
    read_entities,
    read_item_descriptions,
    read_item_properties,
)
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.errors import DataFormatError


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
    assert [text[1:] for text in read_item_descriptions(path, SkippedRows())] == [("Q1", "de", "Sturz", "")]
    path.write_text('{"qid": "Q1", "label": "Sturz"}\n', encoding="utf-8")
    with pytest.raises(DataFormatError, match="line 1: found a line without an item or a language"):
        list(read_item_descriptions(path, SkippedRows()))


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
        list(read_item_descriptions(path, SkippedRows()))
    for reader in (read_item_properties, read_item_descriptions):
        skipped = SkippedRows("skip")
        assert list(reader(path, skipped)) == []
        assert skipped == {"malformed_row": 1}
