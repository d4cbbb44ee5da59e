"""Mentions of events, dictionaries of events and hierarchies: XLEL-WD's files and those of their kind."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from eventformers.datasets_scripts.document_splits import SPLITS
from eventformers.datasets_scripts.hierarchy_files import EDGE_HEADERS, HIERARCHY_FIELDS
from eventformers.datasets_scripts.licenses import license_of_source, standard_license
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.raw_files import is_json_lines, read_json_values, read_lines, text_field
from eventformers.errors import DataFormatError

ACCEPTED_MENTION = (
    'one JSON object a line with "context_left", "mention", "context_right", "context_lang" and "label_id",'
    ' and where they are known "context_title", "context_date" and a list "gold_label_ids"'
)
ACCEPTED_EVENT = (
    'one JSON object a line with "label_id", "label_title", "label_desc" or "label_description", and'
    ' "label_lang"'
)
ACCEPTED_HIERARCHY = (
    'one JSON object a line with "label_id" and lists of ids such as "part_of" and "follows", or "P361" and'
    ' "P155"'
)
ACCEPTED_CSV = "fields with commas between them, and a quote at the end of each that begins with one"
ACCEPTED_TABLE = "as many fields as the header has, separated by tabs"

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
"""By name or property of Wikidata: what an edge belongs to, and whether its subject stands first in a row of
that config, as child or as the earlier event."""

_RELATION_OF_COLUMNS = {("child_id", "parent_id"): "part_of", ("event_id", "next_event_id"): "followed_by"}

_TABLE_MENTION = re.compile(r"<a>\s?(.*?)\s?</a>", re.DOTALL)


class LinkedMention(NamedTuple):
    """A mention and the event that it refers to, as a raw file has them.

    Args:
        line: where it stands, from 1.
        mention_id: the id that the file states, else "".
        language: the code of its language.
        context_left: the text before the mention, blanks at its ends kept.
        mention: the words of the mention.
        context_right: the text after it.
        title: the title of its document, "" where it is unknown.
        date: the date of its document, "" where it is unknown.
        event_id: the event, "" where none is stated.
        gold_events: the event and its ancestors as the file states them; None where it does not.
        source: the corpus that the row states, else "".
        license: the terms of use that the row states, or that are known of its source; else "".
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


class EventText(NamedTuple):
    """An event in one language, as a raw file has it.

    Args:
        line: where it stands, from 1.
        event_id: the event.
        language: the code of the language.
        title: its title, "" where the file has none.
        description: what is told of it, "" where nothing is.
    """

    line: int
    event_id: str
    language: str
    title: str
    description: str


class Statement(NamedTuple):
    """An edge between two events as a raw file states it.

    Args:
        subject: the event that it is stated of.
        relation: a key of `RELATIONS`.
        object: the other event.
    """

    subject: str
    relation: str
    object: str


class HierarchyEntry(NamedTuple):
    """What a line of a file of hierarchies or edges tells.

    Args:
        event_id: the event that it is about; None where it is about an edge alone.
        split: the split that it states for the event, else None.
        statements: its edges.
    """

    event_id: str | None
    split: str | None
    statements: list[Statement]


def plain_id(stated: str) -> str:
    """The id of an event as XLEL-WD writes it: that of a Wikidata item without its Q, any other as it is."""
    text = stated.strip()
    return text[1:] if re.fullmatch(r"Q\d+", text) else text


def read_linked_mentions(path: Path, skipped: SkippedRows) -> Iterator[LinkedMention]:
    """The mentions of a file of JSON lines, plain or compressed, one after another.

    XLEL-WD's fields are `context_left`, `mention`, `context_right`, `context_lang` and `label_id`, for
    Wikinews also `context_title` and `context_date`. Further ones are `gold_label_ids` (the event, then its
    ancestors), `id` or `mention_id`, `source` and `license`. The names of built rows serve as well:
    `language`, `title`, `date` and `event_ids`. Texts stay as they are, white space included.

    Args:
        path: the file.
        skipped: gets the number of blank lines.

    Raises:
        DataFormatError: a line cannot be read, has no field `mention` or names no language.
    """
    for line, record in read_json_values(path, skipped, ACCEPTED_MENTION):
        if not isinstance(record, dict):
            raise DataFormatError(path, line, f"JSON that is {type(record).__name__}", ACCEPTED_MENTION)
        if "mention" not in record:
            raise DataFormatError(path, line, 'a line without "mention"', ACCEPTED_MENTION)
        language = _first_text(record, ("context_lang", "language"), path, line).strip()
        if not language:
            raise DataFormatError(path, line, 'a mention without "context_lang"', ACCEPTED_MENTION)
        gold_events = _gold_events(record, path, line)
        event_id = plain_id(_text(record, "label_id", path, line))
        source = _text(record, "source", path, line)
        stated = _text(record, "license", path, line)
        yield LinkedMention(
            line=line,
            mention_id=_text(record, "mention_id", path, line) or _text(record, "id", path, line),
            language=language,
            context_left=_text(record, "context_left", path, line),
            mention=_text(record, "mention", path, line),
            context_right=_text(record, "context_right", path, line),
            title=_first_text(record, ("context_title", "title"), path, line),
            date=_first_text(record, ("context_date", "date"), path, line),
            event_id=event_id or next(iter(gold_events or ()), ""),
            gold_events=gold_events,
            source=source,
            license=license_of_source(source, standard_license(stated) if stated else None) if source else "",
        )


def read_mention_table(path: Path, skipped: SkippedRows) -> Iterator[LinkedMention]:
    """The mentions of a table of XLEL-WD's own pipeline: tabs, no quoting, a header.

    The columns are `Wikidata Item`, `Wikipedia Language` or `Language`, `Context` with the mention inside of
    `<a> … </a>`, and where they are there the title and the date of the page that links to the event.

    Args:
        path: the file.
        skipped: gets the number of blank lines.

    Raises:
        DataFormatError: a row cannot be read.
    """
    for line, row in _table_rows(path, skipped):
        context = row["Context"]
        match = _TABLE_MENTION.search(context)
        if match is None:
            raise DataFormatError(path, line, "a Context without a mention", "<a> mention </a> in Context")
        language = row.get("Wikipedia Language") or row.get("Language") or ""
        if not language:
            raise DataFormatError(path, line, "a mention without a language", "a code such as en")
        yield LinkedMention(
            line=line,
            mention_id="",
            language=language,
            context_left=context[: match.start()],
            mention=match.group(1),
            context_right=context[match.end() :],
            title=row.get("Wikipedia Inlink Title") or row.get("Inlink Title") or "",
            date=row.get("Inlink Date") or "",
            event_id=plain_id(row["Wikidata Item"]),
            gold_events=None,
            source="",
            license="",
        )


def read_dictionary(path: Path, skipped: SkippedRows) -> Iterator[EventText]:
    """The events of a dictionary of JSON lines, one line for each event and language.

    The fields are `label_id`, `label_title`, `label_desc` or `label_description`, and `label_lang`, or those
    of built rows: `event_id`, `title`, `description` and `language`. NaN is no text.

    Args:
        path: the file.
        skipped: gets the number of blank lines.

    Raises:
        DataFormatError: a line cannot be read, or has no id or no language.
    """
    for line, record in read_json_values(path, skipped, ACCEPTED_EVENT):
        if not isinstance(record, dict):
            raise DataFormatError(path, line, f"JSON that is {type(record).__name__}", ACCEPTED_EVENT)
        event_id = plain_id(_first_text(record, ("label_id", "event_id"), path, line))
        language = _first_text(record, ("label_lang", "language"), path, line).strip()
        if not event_id or not language:
            missing = "a language" if event_id else "an id"
            raise DataFormatError(path, line, f"an event without {missing}", ACCEPTED_EVENT)
        yield EventText(
            line=line,
            event_id=event_id,
            language=language,
            title=_first_text(record, ("label_title", "title"), path, line).strip(),
            description=_first_text(
                record, ("label_desc", "label_description", "description"), path, line
            ).strip(),
        )


def read_description_table(path: Path, skipped: SkippedRows) -> Iterator[EventText]:
    """The events of a table of XLEL-WD's own pipeline, with `Wikidata Item`, `Wikipedia Language`, `Wikipedia
    Title` and `Wikipedia Description`: tabs, no quoting, a header.

    Args:
        path: the file.
        skipped: gets the number of blank lines.

    Raises:
        DataFormatError: a row cannot be read, or has no id or no language.
    """
    for line, row in _table_rows(path, skipped):
        event_id, language = plain_id(row["Wikidata Item"]), row.get("Wikipedia Language", "").strip()
        if not event_id or not language:
            missing = "a language" if event_id else "an id"
            raise DataFormatError(path, line, f"an event without {missing}", "both of them")
        title = row.get("Wikipedia Title", "").strip()
        yield EventText(line, event_id, language, title, row["Wikipedia Description"].strip())


def read_hierarchy(path: Path, skipped: SkippedRows) -> Iterator[HierarchyEntry]:
    """The events of a file of hierarchies with their edges, one event a line.

    Edges are lists by a key of `RELATIONS`; their items are ids, or objects with a `label_id`. `split`, where
    it is there, is the split of the event.

    Args:
        path: the file.
        skipped: gets the number of blank lines.

    Raises:
        DataFormatError: a line cannot be read or has no id, or a split is unknown.
    """
    for line, record in read_json_values(path, skipped, ACCEPTED_HIERARCHY):
        event_id = ""
        if isinstance(record, dict):
            event_id = plain_id(_first_text(record, ("label_id", "event_id"), path, line))
        if not event_id:
            raise DataFormatError(path, line, "a line without the id of an event", ACCEPTED_HIERARCHY)
        statements = [
            Statement(event_id, relation, other)
            for relation in HIERARCHY_FIELDS
            for other in _ids(record, relation, path, line)
        ]
        yield HierarchyEntry(event_id, _stated_split(record, path, line), statements)


def read_edges(path: Path, skipped: SkippedRows) -> Iterator[HierarchyEntry]:
    """The edges of a CSV file or of JSON lines, one a row.

    The columns are `child_id`, `parent_id` and maybe `relation`; `event_id` and `next_event_id`; or
    `head_qid`, `property` and `tail_qid`.

    Args:
        path: the file.
        skipped: gets the number of blank lines.

    Raises:
        DataFormatError: a row cannot be read, or its relation is unknown.
    """
    rows = _json_rows(path, skipped) if is_json_lines(path) else _csv_rows(path)
    for line, row in rows:
        columns = next((names for names in EDGE_HEADERS if set(names) <= row.keys()), None)
        if columns is None:
            accepted = " or ".join(",".join(names) for names in EDGE_HEADERS)
            raise DataFormatError(path, line, f"the columns {','.join(row)}", accepted)
        values = [_text(row, name, path, line).strip() for name in columns]
        relation = values[1] if len(values) == 3 else _RELATION_OF_COLUMNS[columns[0], columns[-1]]
        if relation not in RELATIONS:
            raise DataFormatError(path, line, f"the relation {relation!r}", ", ".join(RELATIONS))
        subject, other = plain_id(values[0]), plain_id(values[-1])
        if not subject or not other:
            raise DataFormatError(path, line, "an edge without one of its events", "two ids")
        yield HierarchyEntry(None, None, [Statement(subject, relation, other)])


def _json_rows(path: Path, skipped: SkippedRows) -> Iterator[tuple[int, Mapping[str, object]]]:
    for line, record in read_json_values(path, skipped, "one JSON object a line"):
        if not isinstance(record, dict):
            raise DataFormatError(path, line, f"JSON that is {type(record).__name__}", "one object a line")
        yield line, record


def _csv_rows(path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    line = 1

    def texts() -> Iterator[str]:
        nonlocal line
        for line, text in read_lines(path):  # noqa: B007 - read where a fault is told
            yield text + "\n"

    start = 1
    try:
        # Not strict, a quote that is never closed would take all edges behind it into one field.
        rows = csv.DictReader(texts(), strict=True)
        start = line + 1 if rows.fieldnames else line
        for row in rows:
            # Fields beyond the header have no name.
            yield line, {name: value for name, value in row.items() if isinstance(name, str)}
            start = line + 1
    except csv.Error as error:
        raise DataFormatError(path, start, f"no CSV ({error})", ACCEPTED_CSV) from error


def _text(record: Mapping[str, object], name: str, path: Path, line: int) -> str:
    """A text of a JSON object; "" also for NaN, by which tables say that there is none."""
    value = record.get(name)
    if isinstance(value, float) and value != value:
        return ""
    return text_field(record, name, path, line)


def _first_text(record: Mapping[str, object], names: tuple[str, ...], path: Path, line: int) -> str:
    """The first of several fields that has a text."""
    return next((text for name in names if (text := _text(record, name, path, line))), "")


def _gold_events(record: Mapping[str, object], path: Path, line: int) -> list[str] | None:
    """The events that a line states for its mention; None where it states none but the atomic one."""
    name = next((name for name in ("gold_label_ids", "event_ids") if record.get(name) is not None), None)
    return _ids(record, name, path, line) if name is not None else None


def _ids(record: Mapping[str, object], name: str, path: Path, line: int) -> list[str]:
    """The ids of a list in a JSON object, without repeats; empty where the list is absent."""
    value = record.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise DataFormatError(path, line, f'"{name}" that is {type(value).__name__}', "a list of ids")
    found: dict[str, None] = {}
    for item in value:
        stated = item.get("label_id") if isinstance(item, dict) else item
        if not isinstance(stated, (str, int)) or isinstance(stated, bool) or not str(stated).strip():
            raise DataFormatError(path, line, f'{item!r} in "{name}"', "ids")
        found[plain_id(str(stated))] = None
    return list(found)


def _stated_split(record: Mapping[str, object], path: Path, line: int) -> str | None:
    stated = _text(record, "split", path, line)
    split = "validation" if stated in ("dev", "valid") else stated
    if split and split not in SPLITS:
        raise DataFormatError(path, line, f"the split {stated!r}", ", ".join(("dev", *SPLITS)))
    return split or None


def _table_rows(path: Path, skipped: SkippedRows) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a table by its header, with their lines. Quotes are characters like any other."""
    lines = read_lines(path)
    header = next(lines)[1].split("\t")
    if "Wikidata Item" not in header:
        raise DataFormatError(path, 1, f"the columns {', '.join(header)}", "a column Wikidata Item")
    for line, text in lines:
        if not text.strip():
            skipped["blank_line"] += 1
            continue
        fields = text.split("\t")
        if len(fields) != len(header):
            raise DataFormatError(path, line, f"{len(fields)} fields", f"{ACCEPTED_TABLE}: {len(header)}")
        yield line, dict(zip(header, fields, strict=True))
