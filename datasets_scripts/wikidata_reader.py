"""Readers of events and edges from Wikidata's JSON: an entity dump, and the files of XLEL-WD's pipeline."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from eventformers.datasets_scripts.hierarchy_readers import RELATIONS, StatedTitle, Statement
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.raw_files import (
    json_object,
    parse_json,
    read_json_values,
    read_lines,
    text_field,
)
from eventformers.errors import DataFormatError, shown

ACCEPTED_ENTITY = 'one entity of Wikidata a line with "id" and "claims", as in the dumps latest-all.json'
ACCEPTED_PROPERTY = 'one JSON object a line with "qid", "pid" and a list "datavalue"'
ACCEPTED_DESCRIPTION = 'one JSON object a line with "qid", "lang", "label" and "description"'

EDGE_PROPERTIES = tuple(name for name in RELATIONS if name.startswith("P"))
"""Part of, has part, followed by, follows."""
TIME_PROPERTIES = (("P580", "P582"), ("P585",), ("P2047",))
"""Start with end, point in time, duration: XLEL-WD's event candidates have all properties of one of these."""
PLACE_PROPERTIES = ("P276", "P625")
"""Location, coordinates: event candidates also have one of these."""

_PROPERTY_KEYS = frozenset({"qid", "pid", "datavalue"})
_DESCRIPTION_KEYS = frozenset({"qid", "lang", "label", "description"})
_ITEM = re.compile(r"Q[0-9]+")

_TIME_MARKS = tuple(f'"{name}"' for names in TIME_PROPERTIES for name in names)
_EDGE_MARKS = tuple(f'"{name}"' for name in EDGE_PROPERTIES)


class Entity(NamedTuple):
    """An item of Wikidata.

    Args:
        line: its line, from 1.
        event_id: its id, such as Q42.
        is_candidate: True if it has the time and the place of an event.
        statements: its edges.
        texts: its labels and descriptions by language.
    """

    line: int
    event_id: str
    is_candidate: bool
    statements: list[Statement]
    texts: list[StatedTitle]


def read_entities(path: Path, skipped: SkippedRows, edges_only: bool = False) -> Iterator[Entity]:
    """Read the items of an entity dump (JSON, one entity per line) that may be events or have edges of
    events.

    Memory holds one line at a time. A line without any of the relevant properties is not parsed, so that
    reading a dump takes about as long as decompressing it. Unused keys are ignored: Wikibase adds some from
    time to time.

    Args:
        path: the dump, plain, gzip or bzip2, with its brackets and commas or as JSON lines.
        skipped: counts of blank lines, of entities that are not items, of deprecated statements, and of
            statements whose value is not an item; policy for malformed entities.
        edges_only: read only items with edges.

    Raises:
        DataFormatError: a line is not an entity.
    """

    def entity(line: int, text: str) -> Entity | None:
        record = parse_json(text, path, line, ACCEPTED_ENTITY)
        claims = record.get("claims") if isinstance(record, dict) else None
        identifier = record.get("id") if isinstance(record, dict) else None
        # PHP writes an empty object as an empty list, so an item without claims has a list.
        if not isinstance(identifier, str) or not isinstance(claims, (dict, list)):
            raise DataFormatError(path, line, 'an entity without "id" or "claims"', ACCEPTED_ENTITY)
        if not identifier.startswith("Q") or not isinstance(claims, dict):
            skipped["entity_that_is_no_item"] += 1
            return None
        if not _ITEM.fullmatch(identifier):
            raise DataFormatError(path, line, f"the item {shown(identifier)}", "Q and a number")
        texts = list(_texts(identifier, record, path, line))
        return Entity(
            line=line,
            event_id=identifier,
            is_candidate=is_event_candidate(claims),
            statements=list(_statements(identifier, claims, path, line, skipped)),
            texts=texts,
        )

    found = skipped.parsed_rows(_entity_lines(path, skipped, edges_only), entity, "entity")
    return (one for one in found if one is not None)


def _entity_lines(path: Path, skipped: SkippedRows, edges_only: bool) -> Iterator[tuple[int, str]]:
    """Yield the lines of a dump with a relevant property, without the separators between entities."""
    marks = _EDGE_MARKS if edges_only else (*_TIME_MARKS, *_EDGE_MARKS)
    for line, text in read_lines(path, skipped):
        entity_text = text.strip().strip("[],\t ")
        if entity_text:
            if any(mark in entity_text for mark in marks):
                yield line, entity_text
            else:
                skipped["entity_without_time_or_edges"] += 1
        elif not text.strip():
            skipped["blank_line"] += 1


def read_item_properties(path: Path, skipped: SkippedRows) -> Iterator[Statement]:
    """Read the edges in `wd_item_props.jsonl`: `{"qid", "pid", "datavalue": […]}`, one line per item and
    property.

    The other item is at `datavalue[i]["value"]["id"]["value"]`, or directly at `"id"`.

    Args:
        path: the file.
        skipped: counts of blank lines, of lines with other properties and of values that are not items;
            policy for malformed rows.

    Raises:
        DataFormatError: a line cannot be read.
    """

    def statements(line: int, value: object) -> tuple[str, str, list[Any]]:
        record = json_object(value, _PROPERTY_KEYS, path, line, ACCEPTED_PROPERTY)
        values = record.get("datavalue")
        if not isinstance(values, list):
            raise DataFormatError(path, line, 'a line without a list "datavalue"', ACCEPTED_PROPERTY)
        relation = text_field(record, "pid", path, line)
        subject = text_field(record, "qid", path, line).strip()
        if not subject or not relation:
            raise DataFormatError(path, line, "a line without an item or a property", ACCEPTED_PROPERTY)
        return subject, relation, values

    rows = read_json_values(path, skipped, ACCEPTED_PROPERTY)
    for subject, relation, values in skipped.parsed_rows(rows, statements):
        if relation not in EDGE_PROPERTIES:
            skipped["property_of_no_edge"] += 1
            continue
        for value in values:
            other = _item_id(value)
            if other:
                yield Statement(subject, relation, other)
            else:
                skipped["statement_without_item"] += 1


def read_item_descriptions(path: Path, skipped: SkippedRows) -> Iterator[StatedTitle]:
    """Read the labels and descriptions in `wd_item_descriptions.jsonl`, one line per item and language.

    Raises:
        DataFormatError: a line cannot be read.
    """

    def event(line: int, value: object) -> StatedTitle:
        record = json_object(value, _DESCRIPTION_KEYS, path, line, ACCEPTED_DESCRIPTION)
        names = ("qid", "lang", "label", "description")
        item, language, label, description = (text_field(record, name, path, line).strip() for name in names)
        if not item or not language:
            raise DataFormatError(path, line, "a line without an item or a language", ACCEPTED_DESCRIPTION)
        return StatedTitle(line, item, language, label, description)

    return skipped.parsed_rows(read_json_values(path, skipped, ACCEPTED_DESCRIPTION), event)


def is_event_candidate(properties: Container[str]) -> bool:
    """True if an item with these properties may be an event for XLEL-WD: it has a time and a place."""
    has_time = any(all(name in properties for name in names) for names in TIME_PROPERTIES)
    return has_time and any(name in properties for name in PLACE_PROPERTIES)


def _statements(
    event_id: str, claims: Mapping[str, object], path: Path, line: int, skipped: SkippedRows
) -> Iterator[Statement]:
    for relation in EDGE_PROPERTIES:
        claim = claims.get(relation, [])
        if not isinstance(claim, list):
            found = f"{relation} of type {type(claim).__name__}"
            raise DataFormatError(path, line, found, "a list of statements")
        for statement in claim:
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
    """The item in a value of Wikidata, "" if the value is not an item."""
    value = datavalue.get("value") if isinstance(datavalue, dict) else None
    if not isinstance(value, dict):
        return ""
    identifier = value.get("id")
    if isinstance(identifier, dict):
        identifier = identifier.get("value")
    if isinstance(identifier, str):
        return identifier if _ITEM.fullmatch(identifier) else ""
    number = value.get("numeric-id")
    is_number = isinstance(number, int) and not isinstance(number, bool)
    return f"Q{number}" if is_number and value.get("entity-type") == "item" else ""


def _texts(event_id: str, record: Mapping[str, object], path: Path, line: int) -> Iterator[StatedTitle]:
    labels, descriptions = (_by_language(record, name, path, line) for name in ("labels", "descriptions"))
    for language, label in labels.items():
        yield StatedTitle(line, event_id, language, label, descriptions.get(language, ""))


def _by_language(record: Mapping[str, object], name: str, path: Path, line: int) -> dict[str, str]:
    """Read the labels or descriptions of an entity; empty if it has none, which PHP writes as a list."""
    held = record.get(name) or {}
    if not isinstance(held, dict):
        raise DataFormatError(path, line, f'"{name}" of type {type(held).__name__}', "texts by language")
    texts = {}
    for language, text in held.items():
        if not isinstance(text, dict) or not isinstance(text.get("value"), str):
            raise DataFormatError(
                path, line, f'{shown(text)} in "{name}"', 'an object with a text as "value"'
            )
        texts[language] = text["value"].strip()
    return texts
