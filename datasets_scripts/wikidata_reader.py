"""Events and their edges from Wikidata's JSON: lines of an entity dump, and the files XLEL-WD makes of it."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from eventformers.datasets_scripts.hierarchy_readers import RELATIONS, EventText, Statement, plain_id
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.raw_files import read_json_values, read_lines, text_field
from eventformers.errors import DataFormatError

ACCEPTED_ENTITY = 'one entity of Wikidata a line with "id" and "claims", as in the dumps latest-all.json'
ACCEPTED_PROPERTY = 'one JSON object a line with "qid", "pid" and a list "datavalue"'
ACCEPTED_DESCRIPTION = 'one JSON object a line with "qid", "lang", "label" and "description"'

EDGE_PROPERTIES = tuple(name for name in RELATIONS if name.startswith("P"))
"""Part of, has part, followed by, follows."""
TIME_PROPERTIES = (("P580", "P582"), ("P585",), ("P2047",))
"""Start with end, point in time, duration: one of these an event candidate of XLEL-WD has all of."""
PLACE_PROPERTIES = ("P276", "P625")
"""Location, coordinates: one of these an event candidate has, too."""

_TIME_MARKS = tuple(f'"{name}"' for names in TIME_PROPERTIES for name in names)
_EDGE_MARKS = tuple(f'"{name}"' for name in EDGE_PROPERTIES)


class Entity(NamedTuple):
    """An item of Wikidata.

    Args:
        line: where it stands, from 1.
        event_id: its id without the Q.
        is_candidate: whether it has the time and the place of an event.
        statements: its edges.
        texts: its labels and descriptions by language.
    """

    line: int
    event_id: str
    is_candidate: bool
    statements: list[Statement]
    texts: list[EventText]


def read_entities(path: Path, skipped: SkippedRows, edges_only: bool = False) -> Iterator[Entity]:
    """The items of an entity dump (JSON, one entity a line) that could be events or have edges of events.

    One line is held at a time. A line that names none of the properties that decide is not even parsed, so
    that a dump is read about as fast as it is unpacked.

    Args:
        path: the dump, plain, gzip or bzip2, with its brackets and commas or as JSON lines.
        skipped: gets the numbers of entities that are no items, of deprecated statements, and of statements
            without an item as their value.
        edges_only: whether only items with edges are wanted.

    Raises:
        DataFormatError: a line is no entity.
    """
    marks = _EDGE_MARKS if edges_only else (*_TIME_MARKS, *_EDGE_MARKS)
    for line, text in read_lines(path):
        entity_text = text.strip().strip("[],\t ")
        if not entity_text:
            continue
        if not any(mark in entity_text for mark in marks):
            skipped["entity_without_time_or_edges"] += 1
            continue
        try:
            record = json.loads(entity_text)
        except (ValueError, RecursionError) as error:
            raise DataFormatError(path, line, f"no JSON ({error})", ACCEPTED_ENTITY) from error
        claims = record.get("claims") if isinstance(record, dict) else None
        identifier = record.get("id") if isinstance(record, dict) else None
        # An item without a claim has an empty list, as PHP writes an empty object.
        if not isinstance(identifier, str) or not isinstance(claims, (dict, list)):
            raise DataFormatError(path, line, 'an entity without "id" or "claims"', ACCEPTED_ENTITY)
        if not identifier.startswith("Q") or not isinstance(claims, dict):
            skipped["entity_that_is_no_item"] += 1
            continue
        event_id = plain_id(identifier)
        yield Entity(
            line=line,
            event_id=event_id,
            is_candidate=is_event_candidate(claims),
            statements=list(_statements(event_id, claims, skipped)),
            texts=list(_texts(event_id, record, line)),
        )


def read_item_properties(path: Path, skipped: SkippedRows) -> Iterator[Statement]:
    """The edges in `wd_item_props.jsonl`: `{"qid", "pid", "datavalue": […]}`, one line for each item and
    property. The other item stands at `datavalue[i]["value"]["id"]["value"]`, or straight at `"id"`.

    Args:
        path: the file.
        skipped: gets the numbers of blank lines, of lines of other properties and of values that are no item.

    Raises:
        DataFormatError: a line cannot be read.
    """
    for line, record in read_json_values(path, skipped, ACCEPTED_PROPERTY):
        values = record.get("datavalue") if isinstance(record, dict) else None
        if not isinstance(values, list):
            raise DataFormatError(path, line, 'a line without a list "datavalue"', ACCEPTED_PROPERTY)
        relation = text_field(record, "pid", path, line)
        subject = plain_id(text_field(record, "qid", path, line))
        if not subject or not relation:
            raise DataFormatError(path, line, "a line without an item or a property", ACCEPTED_PROPERTY)
        if relation not in EDGE_PROPERTIES:
            skipped["property_of_no_edge"] += 1
            continue
        for value in values:
            other = _item_id(value)
            if other:
                yield Statement(subject, relation, other)
            else:
                skipped["statement_without_item"] += 1


def read_item_descriptions(path: Path, skipped: SkippedRows) -> Iterator[EventText]:
    """The labels and descriptions in `wd_item_descriptions.jsonl`, one line for each item and language.

    Args:
        path: the file.
        skipped: gets the number of blank lines.

    Raises:
        DataFormatError: a line cannot be read.
    """
    for line, record in read_json_values(path, skipped, ACCEPTED_DESCRIPTION):
        if not isinstance(record, dict):
            raise DataFormatError(path, line, f"JSON that is {type(record).__name__}", ACCEPTED_DESCRIPTION)
        names = ("qid", "lang", "label", "description")
        item, language, label, description = (text_field(record, name, path, line).strip() for name in names)
        if not item or not language:
            raise DataFormatError(path, line, "a line without an item or a language", ACCEPTED_DESCRIPTION)
        yield EventText(line, plain_id(item), language, label, description)


def is_event_candidate(properties: Container[str]) -> bool:
    """Whether an item with these properties may be an event, as XLEL-WD chooses them: it has a time and a
    place."""
    has_time = any(all(name in properties for name in names) for names in TIME_PROPERTIES)
    return has_time and any(name in properties for name in PLACE_PROPERTIES)


def _statements(event_id: str, claims: Mapping[str, object], skipped: SkippedRows) -> Iterator[Statement]:
    for relation in EDGE_PROPERTIES:
        claim = claims.get(relation)
        for statement in claim if isinstance(claim, list) else []:
            if not isinstance(statement, dict):
                skipped["statement_without_item"] += 1
                continue
            if statement.get("rank") == "deprecated":
                skipped["statement_deprecated"] += 1
                continue
            snak = statement.get("mainsnak")
            other = _item_id(snak.get("datavalue")) if isinstance(snak, dict) else ""
            if other:
                yield Statement(event_id, relation, other)
            else:
                skipped["statement_without_item"] += 1


def _item_id(datavalue: object) -> str:
    """The item that a value of Wikidata is, without the Q; "" where it is none."""
    value = datavalue.get("value") if isinstance(datavalue, dict) else None
    if not isinstance(value, dict):
        return ""
    identifier = value.get("id")
    if isinstance(identifier, dict):
        identifier = identifier.get("value")
    if isinstance(identifier, str):
        return plain_id(identifier) if identifier.startswith("Q") else ""
    number = value.get("numeric-id")
    return str(number) if isinstance(number, int) and value.get("entity-type") == "item" else ""


def _texts(event_id: str, record: Mapping[str, object], line: int) -> Iterator[EventText]:
    labels, descriptions = record.get("labels"), record.get("descriptions")
    told = descriptions if isinstance(descriptions, dict) else {}
    for language, label in (labels if isinstance(labels, dict) else {}).items():
        yield EventText(line, event_id, language, _value(label), _value(told.get(language)))


def _value(text: object) -> str:
    value = text.get("value") if isinstance(text, dict) else None
    return value.strip() if isinstance(value, str) else ""
