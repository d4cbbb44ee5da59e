"""Readers of event mentions, dictionaries and hierarchies: XLEL-WD and similar files, and JSON of Wikidata.

Every reader takes a file and `skipped`, the count of blank lines and the policy for malformed rows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from eventformers.datasets_scripts.document_splits import SPLITS
from eventformers.datasets_scripts.hierarchy_files import (
    EDGE_COLUMNS,
    EDGE_HEADERS,
    EVENT_COLUMNS,
    HIERARCHY_COLUMNS,
    HIERARCHY_FIELDS,
    MENTION_COLUMNS,
)
from eventformers.datasets_scripts.licenses import license_of_source
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.reading.fields import Record, check_keys
from eventformers.datasets_scripts.reading.lines import max_line_bytes, parse_json, read_lines
from eventformers.datasets_scripts.reading.tables import (
    csv_file_rows,
    ignored_keys,
    is_table,
    needed,
    read_records,
    table_columns,
)
from eventformers.errors import DataFormatError, shown

ACCEPTED_MENTION = (
    'one JSON object a line with "context_left", "mention", "context_right", "context_lang" and "label_id",'
    ' and optionally "context_title", "context_date" and a list "gold_label_ids"'
)
_DESCRIPTION_COLUMNS = ("Wikidata Item", "Wikipedia Language", "Wikipedia Title", "Wikipedia Description")
ACCEPTED_EVENT = {
    "dictionary": 'one JSON object a line with "label_id", "label_title", "label_desc" or '
    '"label_description", and "label_lang"',
    "description_table": f"the columns {', '.join(_DESCRIPTION_COLUMNS)}",
    "descriptions": 'one JSON object a line with "qid", "lang", "label" and "description"',
}
ACCEPTED_HIERARCHY = (
    'one JSON object a line with "label_id" and lists of ids such as "part_of" and "follows", or "P361" and'
    ' "P155"'
)


RELATIONS: dict[str, tuple[str, bool]] = {
    "part_of": ("hierarchy", True),
    "has_part": ("hierarchy", False),
    "followed_by": ("sequence", True),
    "follows": ("sequence", False),
    "P361": ("hierarchy", True),
    "P527": ("hierarchy", False),
    "P156": ("sequence", True),
    "P155": ("sequence", False),
}
"""By name or property of Wikidata: the config of an edge, and True if its subject comes first in a row of
that config, as child or as the earlier event."""

_RELATION_OF_COLUMNS = {("child_id", "parent_id"): "part_of", ("event_id", "next_event_id"): "followed_by"}

_TABLE_MENTION = ("<a>", "</a>")
_PADDING = re.compile(r"\A\s|\s\Z")

_ITEM_KEYS = frozenset({"label_id", "count", "title"})
_TABLE_COLUMNS = ignored_keys("tables_of_the_pipeline")


class LinkedMention(NamedTuple):
    """A mention and the event that it refers to, as read from a raw file.

    Args:
        line: its line, from 1.
        mention_id: the id in the file, else "".
        context_left: the text before the mention, with blanks at its ends.
        context_right: the text after it.
        title: the title of its document, "" if unknown.
        date: the date of its document, "" if unknown.
        event_id: the event, "" if none is stated.
        gold_events: the event and its ancestors, if the file states them; else None.
        source: the corpus stated in the row, else "".
        license: the terms of use stated in the row or known for its source; else "".
    """

    line: int
    mention_id: str
    language: str
    context_left: str
    mention: str
    context_right: str
    title: str
    date: str
    event_id: str
    gold_events: list[str] | None
    source: str
    license: str


class StatedTitle(NamedTuple):
    """An event in one language, as read from a raw file.

    Args:
        line: its line, from 1.
        title: its title, "" if the file has none.
        description: its description, "" if there is none.
    """

    line: int
    event_id: str
    language: str
    title: str
    description: str


class Statement(NamedTuple):
    """An edge between two events, as stated in a raw file.

    Args:
        subject: the subject of the statement.
        relation: a key of `RELATIONS`.
        object: the other event.
    """

    subject: str
    relation: str
    object: str


class HierarchyEntry(NamedTuple):
    """The content of a line of a file of hierarchies or edges.

    Args:
        event_id: the event of the line; None for a line of a single edge.
        split: the split that it states for the event, else None.
        statements: its edges.
    """

    event_id: str | None
    split: str | None
    statements: list[Statement]


def read_linked_mentions(path: Path, skipped: SkippedRows) -> Iterator[LinkedMention]:
    """Read the mentions of a JSON lines file, plain or compressed, or of a table with `MENTION_COLUMNS`.

    XLEL-WD's fields are `context_left`, `mention`, `context_right`, `context_lang` and `label_id`, for
    Wikinews also `context_title` and `context_date`. Optional fields are `gold_label_ids` (the event, then
    its ancestors), `id` or `mention_id`, `source` and `license`. The names in built rows are accepted, too:
    `language`, `title`, `date` and `event_ids`. Texts are unchanged, white space included.
    Keys that `columns.yaml` lists as ignored, such as the texts of the event, may be present.

    Raises:
        DataFormatError: a line cannot be read, has no field `mention` or names no language.
    """

    def mention(record: Record) -> LinkedMention:
        if "mention" not in record:
            raise record.fault('a line without "mention"', ACCEPTED_MENTION)
        language = record.text("context_lang", "language").strip()
        if not language:
            raise record.fault('a mention without "context_lang"', ACCEPTED_MENTION)
        stated = next((name for name in ("gold_label_ids", "event_ids") if record.get(name) is not None), "")
        gold_events = _ids(record, stated) or None
        event_id = _stated_id(record.text("label_id"))
        source, license_name = record.text("source"), record.text("license")
        return LinkedMention(
            line=record.line,
            mention_id=record.text("mention_id") or record.text("id"),
            language=language,
            context_left=record.text("context_left"),
            mention=record.text("mention"),
            context_right=record.text("context_right"),
            title=record.text("context_title", "title"),
            date=record.text("context_date", "date"),
            event_id=event_id or next(iter(gold_events or ()), ""),
            gold_events=gold_events,
            source=source,
            license=license_of_source(source, license_name) if source or license_name else "",
        )

    ignored = ignored_keys("linked_mentions")
    return read_records(path, skipped, MENTION_COLUMNS, ACCEPTED_MENTION, mention, ignored=ignored)


def read_mention_table(path: Path, skipped: SkippedRows) -> Iterator[LinkedMention]:
    """Read the mentions of a table of XLEL-WD's pipeline: tab-separated, no quoting, a header.

    The columns are `Wikidata Item`, `Wikipedia Language` or `Language`, `Context` with the mention inside
    `<a> … </a>`, and optionally the title and the date of the page that links to the event.

    Raises:
        DataFormatError: a row cannot be read.
    """

    def mention(line: int, row: Mapping[str, str]) -> LinkedMention:
        opening, closing = _TABLE_MENTION
        left, opened, rest = row["Context"].partition(opening)
        inside, closed, right = rest.partition(closing)
        if not opened or not closed:
            raise DataFormatError(path, line, "a Context without a mention", "<a> mention </a> in Context")
        language = row.get("Wikipedia Language") or row.get("Language") or ""
        if not language:
            raise DataFormatError(path, line, "a mention without a language", "a code such as en")
        return LinkedMention(
            line=line,
            mention_id="",
            language=language,
            context_left=left,
            # A single blank may follow `<a>` and precede `</a>`.
            mention=_PADDING.sub("", inside),
            context_right=right,
            title=row.get("Wikipedia Inlink Title") or row.get("Inlink Title") or "",
            date=row.get("Inlink Date") or "",
            event_id=_stated_id(row["Wikidata Item"]),
            gold_events=None,
            source="",
            license="",
        )

    return skipped.parsed_rows(_pipeline_rows(path, skipped, "Wikidata Item", "Context"), mention)


def _pipeline_rows(path: Path, skipped: SkippedRows, *names: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Read the rows of a table of XLEL-WD's pipeline, which needs some of its columns."""

    def header(found: Collection[str], path: Path) -> Collection[str]:
        needed(*names)(list(found), path)
        check_keys(dict.fromkeys(found), _TABLE_COLUMNS, path, 1, what="column")
        if len({*found}) < len(found):
            raise DataFormatError(path, 1, f"a column twice in {shown(','.join(found))}", "each column once")
        return found

    longest = max_line_bytes()
    return csv_file_rows(
        path, skipped, header, row="row", longest_field=longest, row_is_line=True, quotes=False
    )


_TITLES: dict[str, tuple[tuple[str, ...], ...]] = {
    "dictionary": (
        *(("label_id", "event_id"), ("label_lang", "language"), ("label_title", "title")),
        ("label_desc", "label_description", "description"),
    ),
    "description_table": tuple((name,) for name in _DESCRIPTION_COLUMNS),
    "descriptions": (("qid",), ("lang",), ("label",), ("description",)),
}
"""The names of id, language, title and description, by the kind of file."""


def read_titles(path: Path, skipped: SkippedRows, kind: str = "dictionary") -> Iterator[StatedTitle]:
    """Read the events of a file, one line for each event and language. NaN counts as no text.

    Args:
        kind: `dictionary`, JSON lines or a table as XLEL-WD publishes it, or with the names of built rows;
            `description_table` of XLEL-WD's pipeline, tab-separated, no quoting, a header; or `descriptions`
            of items in its `wd_item_descriptions.jsonl`.

    Raises:
        DataFormatError: a line cannot be read, or has no id or no language.
    """
    names = _TITLES[kind]

    def event(record: Record) -> StatedTitle:
        event_id, language, title, description = (record.text(*one) for one in names)
        if not event_id.strip() or not language.strip():
            missing = "a language" if event_id.strip() else "an id"
            raise record.fault(f"an event without {missing}", ACCEPTED_EVENT[kind])
        return StatedTitle(record.line, event_id, language.strip(), title.strip(), description.strip())

    if kind == "description_table":
        rows = _pipeline_rows(path, skipped, _DESCRIPTION_COLUMNS[0], _DESCRIPTION_COLUMNS[-1])
        return skipped.parsed_rows(rows, lambda line, row: event(Record(row, path, line)))
    columns, ignored = EVENT_COLUMNS, ignored_keys("events_of_hierarchies")
    if kind == "descriptions":
        columns, ignored = (), frozenset(name for one in names for name in one)
    return read_records(path, skipped, columns, ACCEPTED_EVENT[kind], event, ignored=ignored)


def read_hierarchy(path: Path, skipped: SkippedRows) -> Iterator[HierarchyEntry]:
    """Read the events of a file of hierarchies with their edges, one event per line.

    Edges are lists under a key of `RELATIONS`; their items are ids, or objects with a `label_id`, whose
    `count` and `title` are ignored. `split` is optional.

    Raises:
        DataFormatError: a line cannot be read or has no id, or a split is unknown.
    """

    def entry(record: Record) -> HierarchyEntry:
        event_id = _stated_id(record.text("label_id", "event_id"))
        if not event_id:
            raise record.fault("a line without the id of an event", ACCEPTED_HIERARCHY)
        statements = [
            Statement(event_id, relation, other)
            for relation in HIERARCHY_FIELDS
            for other in _ids(record, relation)
        ]
        stated = record.text("split")
        split = "validation" if stated in ("dev", "valid") else stated
        if split and split not in SPLITS:
            raise record.fault(f"the split {shown(stated)}", ", ".join(("dev", *SPLITS)))
        return HierarchyEntry(event_id, split or None, statements)

    ignored = ignored_keys("hierarchies")
    return read_records(path, skipped, HIERARCHY_COLUMNS, ACCEPTED_HIERARCHY, entry, ignored=ignored)


def read_edges(path: Path, skipped: SkippedRows) -> Iterator[HierarchyEntry]:
    """Read the edges of JSON lines or a table, one per row.

    The columns are `child_id`, `parent_id` and optionally `relation`; `event_id` and `next_event_id`; or
    `head_qid`, `property` and `tail_qid`.

    Raises:
        DataFormatError: a row cannot be read, or its relation is unknown.
    """

    def entry(record: Record) -> HierarchyEntry:
        columns = _edge_columns(record, path, record.line)
        values = [record.text(name) for name in columns]
        relation = values[1].strip() if len(values) == 3 else _RELATION_OF_COLUMNS[columns[0], columns[-1]]
        if relation not in RELATIONS:
            raise record.fault(f"the relation {shown(relation)}", ", ".join(RELATIONS))
        subject, other = _stated_id(values[0]), _stated_id(values[-1])
        if not subject or not other:
            raise record.fault("an edge without one of its events", "two ids")
        return HierarchyEntry(None, None, [Statement(subject, relation, other)])

    if is_table(path):
        # Raised once, also where malformed rows are skipped.
        _edge_columns(table_columns(path), path, 1)
    accepted = "one JSON object a line"
    ignored = ignored_keys("edges")
    return read_records(path, skipped, EDGE_COLUMNS, accepted, entry, ignored=ignored, row_is_line=True)


def _edge_columns(row: Collection[str], path: Path, line: int) -> tuple[str, ...]:
    """The first of `EDGE_HEADERS` whose columns a row has."""
    columns = next((names for names in EDGE_HEADERS if set(names) <= set(row)), None)
    if columns is None:
        accepted = " or ".join(",".join(names) for names in EDGE_HEADERS)
        raise DataFormatError(path, line, f"the columns {shown(','.join(row))}", accepted)
    return columns


def _stated_id(text: str) -> str:
    """Return an id as it is stated; "" if it is only white space."""
    return text if text.strip() else ""


def _ids(record: Record, name: str) -> list[str]:
    """Read a list of ids, without repeats; empty if it is absent."""
    value = record.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise record.fault(f'"{name}" of type {type(value).__name__}', "a list of ids")
    found: dict[str, None] = {}
    for item in value:
        if isinstance(item, dict):
            check_keys(item, _ITEM_KEYS, record.path, record.line)
        stated = item.get("label_id") if isinstance(item, dict) else item
        if not isinstance(stated, (str, int)) or isinstance(stated, bool) or not str(stated).strip():
            raise record.fault(f'{shown(item)} in "{name}"', "ids")
        found[str(stated)] = None
    return list(found)


ACCEPTED_ENTITY = 'one entity of Wikidata a line with "id" and "claims", as in the dumps latest-all.json'
ACCEPTED_PROPERTY = 'one JSON object a line with "qid", "pid" and a list "datavalue"'

EDGE_PROPERTIES = tuple(name for name in RELATIONS if name.startswith("P"))
"""Part of, has part, followed by, follows."""
TIME_PROPERTIES = (("P580", "P582"), ("P585",), ("P2047",))
"""Start with end, point in time, duration: XLEL-WD's event candidates have all properties of one of these."""
PLACE_PROPERTIES = ("P276", "P625")
"""Location, coordinates: event candidates also have one of these."""
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

    Raises:
        DataFormatError: a line is not an entity.
    """

    def lines() -> Iterator[tuple[int, str]]:
        """Yield the lines with a relevant property, without the separators between entities."""
        marks = _EDGE_MARKS if edges_only else (*_TIME_MARKS, *_EDGE_MARKS)
        for line, text in read_lines(path, skipped):
            entity_text = text.strip().strip("[],\t ")
            if entity_text and any(mark in entity_text for mark in marks):
                yield line, entity_text
            elif entity_text or not text.strip():
                skipped["entity_without_time_or_edges" if entity_text else "blank_line"] += 1

    def entity(line: int, entity_text: str) -> Entity | None:
        record = parse_json(entity_text, path, line, ACCEPTED_ENTITY)
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
        by_language: dict[str, dict[str, str]] = {"labels": {}, "descriptions": {}}
        for name, of_name in by_language.items():
            # PHP writes an empty object as an empty list here, too.
            if not isinstance(stated := record.get(name) or {}, dict):
                found = f'"{name}" of type {type(stated).__name__}'
                raise DataFormatError(path, line, found, "texts by language")
            for language, text in stated.items():
                if not isinstance(text, dict) or not isinstance(text.get("value"), str):
                    found = f'{shown(text)} in "{name}"'
                    raise DataFormatError(path, line, found, 'an object with a text as "value"')
                of_name[language] = text["value"].strip()
        titles, descriptions = by_language.values()
        texts = [
            StatedTitle(line, identifier, language, title, descriptions.get(language, ""))
            for language, title in titles.items()
        ]
        statements = list(_statements(identifier, claims, path, line, skipped))
        return Entity(line, identifier, is_event_candidate(claims), statements, texts)

    found = skipped.parsed_rows(lines(), entity, "entity")
    return (one for one in found if one is not None)


def read_item_properties(path: Path, skipped: SkippedRows) -> Iterator[Statement]:
    """Read the edges in `wd_item_props.jsonl`: `{"qid", "pid", "datavalue": […]}`, one line per item and
    property.

    The other item is at `datavalue[i]["value"]["id"]["value"]`, or directly at `"id"`.

    Args:
        skipped: counts of blank lines, of lines with other properties and of values that are not items;
            policy for malformed rows.

    Raises:
        DataFormatError: a line cannot be read.
    """

    def statements(record: Record) -> tuple[str, str, list[Any]]:
        values = record.get("datavalue")
        if not isinstance(values, list):
            raise record.fault('a line without a list "datavalue"', ACCEPTED_PROPERTY)
        subject, relation = record.text("qid").strip(), record.text("pid")
        if not subject or not relation:
            raise record.fault("a line without an item or a property", ACCEPTED_PROPERTY)
        return subject, relation, values

    keys = ("qid", "pid", "datavalue")
    rows = read_records(path, skipped, (), ACCEPTED_PROPERTY, statements, ignored=keys)
    for subject, relation, values in rows:
        if relation not in EDGE_PROPERTIES:
            skipped["property_of_no_edge"] += 1
            continue
        for value in values:
            other = _item_id(value)
            if other:
                yield Statement(subject, relation, other)
            else:
                skipped["statement_without_item"] += 1


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
