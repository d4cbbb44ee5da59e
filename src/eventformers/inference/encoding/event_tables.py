"""Reader of the tables of documents and their events that `extract` and `explore` write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeGuard, cast

import pyarrow as pa

from eventformers.datasets_scripts.chain_readers import EXTRACTION_REPORT
from eventformers.datasets_scripts.events import (
    DOCUMENTS_TABLE,
    EVENT_ORDERS,
    EVENT_SCHEMA,
    EVENTS_TABLE,
    Event,
    empty_details,
)
from eventformers.datasets_scripts.reading.lines import read_json_object
from eventformers.datasets_scripts.reading.tables import parquet_file_rows
from eventformers.errors import DataFormatError, EventformersError, first_line, shown
from eventformers.files import refuse_unfinished

EventTables: TypeAlias = Mapping[str, Any]
"""`documents` and `events`: Arrow tables, frames or datasets with the columns that `extract` writes."""

ACCEPTED_TABLES = (
    f"a folder that extract or explore wrote ({DOCUMENTS_TABLE}, {EVENTS_TABLE}), or a dict with the tables "
    "or frames documents and events"
)

_ROLES = EVENT_ORDERS["subject_predicate_object"]
_PLACES = ("sentence_start", "trigger_start", "trigger_end", "sentence_end")
"""Columns with places, in the order of the text."""

_MENTION_TEXTS = ("event_id", "document_id", "trigger", "predicate", "object", "lemma")


class Document(NamedTuple):
    """A document; what is unknown is empty."""

    document_id: str
    text: str
    title: str = ""
    date: str = ""
    source: str = ""
    license: str = ""


class EventMention(NamedTuple):
    """An event in its sentence, which has no space around it; the trigger has places in it, in code points,
    end exclusive."""

    event_id: str
    document: Document
    sentence: str
    trigger_start: int
    trigger_end: int
    lemma: str
    predicate: str
    object: str


def are_event_tables(source: object) -> TypeGuard[str | Path | EventTables]:
    """True for a folder with a table of events, and for a mapping with tables."""
    if isinstance(source, Mapping):
        return not {"documents", "events"}.isdisjoint(source)
    return isinstance(source, (str, Path)) and (Path(source).expanduser() / EVENTS_TABLE).is_file()


def pipeline_language(source: object) -> str | None:
    """Return the language of the pipeline of a folder of `extract` or `explore`; None for anything else."""
    if not are_event_tables(source) or not isinstance(source, (str, Path)):
        return None
    report = Path(source).expanduser() / EXTRACTION_REPORT
    content = read_json_object(report) if report.exists() else {}
    for path in (("made_of", "pipeline"), ("settings", "events", "pipeline")):
        found: object = content
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        if isinstance(found, str):
            # The name of a pipeline begins with its language.
            return found.partition("_")[0]
    return None


def read_event_mentions(tables: str | Path | EventTables) -> list[EventMention]:
    """Read the events of tables with their documents.

    Args:
        tables: a folder with `documents.parquet` and `events.parquet`; or a mapping with `documents` and
            `events`: Arrow tables, frames or datasets with the columns of these files. Other columns are
            ignored, and `title`, `date`, `source` and `license` may be absent.

    Raises:
        DataFormatError: a file is not Parquet or has no row.
        EventformersError: a table or a column is absent, a document is absent or occurs twice, or places do
            not match the text of the document.
    """
    documents: dict[str, Document] = {}
    what = _name_of(tables, DOCUMENTS_TABLE)
    for number, row in enumerate(_rows(tables, DOCUMENTS_TABLE, ("document_id", "text"), Document._fields)):
        values = {name: _string(row[name], name, what, number) for name in Document._fields if name in row}
        if values["document_id"] in documents:
            raise EventformersError(
                f"{what}, row {number}: found the document_id {shown(values['document_id'])} twice; "
                "accepted: each document once"
            )
        documents[values["document_id"]] = Document(**values)
    what = _name_of(tables, EVENTS_TABLE)
    found = []
    for number, row in enumerate(_rows(tables, EVENTS_TABLE, (*_MENTION_TEXTS, *_PLACES))):
        texts = {name: _string(row[name], name, what, number) for name in _MENTION_TEXTS}
        if (document := documents.get(texts["document_id"])) is None:
            raise EventformersError(
                f"{what}, row {number}: found the document_id {shown(texts['document_id'])}, which is not "
                "among the documents; accepted: the documents of all events"
            )
        where, text, trigger = f"{what}, row {number}", document.text, texts["trigger"]
        places = {name: row[name] for name in _PLACES}
        stated = ", ".join(f"{name} {shown(place)}" for name, place in places.items())
        if any(type(place) is not int for place in places.values()):
            raise EventformersError(f"{where}: found {stated}; accepted: whole numbers")
        first, start, end, last = places.values()
        if not 0 <= first <= start < end <= last <= len(text):
            raise EventformersError(
                f"{where}: found {stated} in a text of {len(text):,} characters; accepted: the places of a "
                "trigger in its sentence, ends exclusive"
            )
        if text[start:end] != trigger:
            raise EventformersError(
                f"{where}: found the trigger {shown(trigger)}, where the text has {shown(text[start:end])}; "
                "accepted: places in characters (code points) of the text in documents"
            )
        sentence = text[first:last]
        first += len(sentence) - len(sentence.lstrip())
        found.append(
            EventMention(
                texts["event_id"],
                document,
                sentence.strip(),
                start - first,
                end - first,
                lemma=texts["lemma"],
                predicate=texts["predicate"],
                object=texts["object"],
            )
        )
    if not found:
        raise EventformersError(f"{what}: found no event; accepted: at least one")
    return found


def read_table_events(tables: str | Path | EventTables) -> Iterator[Event]:
    """Yield the roles of the events of tables, as for `read_event_mentions`; a negated event has the
    predicate "not …". Documents are not read.

    Raises:
        DataFormatError: the file is not Parquet or has no row.
        EventformersError: the table of events or a column is absent, or a role is no text.
    """
    what = _name_of(tables, EVENTS_TABLE)
    for number, row in enumerate(_rows(tables, EVENTS_TABLE, (*_ROLES, "negated"))):
        subject, predicate, object_ = (_string(row[role], role, what, number) for role in _ROLES)
        yield {
            "subject": subject,
            "predicate": f"not {predicate}" if row["negated"] else predicate,
            "object": object_,
        }


def read_event_table(folder: Path, name: str, schema: pa.Schema) -> pa.Table:
    """Read a table that `extract` or `explore` wrote, with the columns of a schema.

    Raises:
        DataFormatError: the file is not Parquet or has no row, or a column has another type.
        EventformersError: the file or a column is absent.
    """
    details = empty_details() if schema == EVENT_SCHEMA else {"url": ""}
    required = [name for name in schema.names if name not in details]
    rows = [{**details, **row} for row in _rows(folder, name, required, tuple(details))]
    try:
        return pa.Table.from_pylist(rows, schema=schema)
    except (pa.ArrowException, ValueError) as error:
        raise DataFormatError(
            folder / name, None, first_line(error), "the columns that extract and explore write"
        ) from error


def _rows(
    tables: str | Path | EventTables, name: str, required: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table, with the required columns and those optional ones that it has."""
    what = _name_of(tables, name)

    def header(columns: Sequence[str], _: Path) -> list[str]:
        if missing := [column for column in required if column not in columns]:
            raise EventformersError(
                f"{what}: found no column {', '.join(missing)}; accepted: the columns that extract and "
                f"explore write ({', '.join(required)})"
            )
        return [column for column in (*required, *optional) if column in columns]

    if not isinstance(tables, Mapping):
        path = Path(tables).expanduser() / name
        refuse_unfinished(path.parent)
        if not path.is_file():
            raise EventformersError(f"{path}: no such file; accepted: {ACCEPTED_TABLES}")
        return (row for _, row in parquet_file_rows(path, header, row=path.stem.removesuffix("s")))
    key = Path(name).stem
    if key not in tables:
        raise EventformersError(
            f"the tables: found {', '.join(map(str, tables))}; accepted: documents and events"
        )
    # This loads the libraries of models; `explore` looks for tables before.
    from eventformers.inference.encoding.event_reader import values_in

    accepted = f"for {what}, an Arrow table, a frame or a dataset"
    return cast("Iterator[dict[str, Any]]", values_in(tables[key], header, accepted))


def _string(value: object, name: str, what: str, number: int) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise EventformersError(f"{what}, row {number}: found the {name} {shown(value)}; accepted: a text")
    return value


def _name_of(tables: str | Path | EventTables, name: str) -> str:
    return Path(name).stem if isinstance(tables, Mapping) else str(Path(tables).expanduser() / name)
