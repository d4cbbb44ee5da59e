"""Tables of documents and chains of events: one event a row, or one document a row with a list of events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from eventformers.datasets_scripts.event_tables import EVENT_SCHEMA
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.raw_files import event_of, text_field, text_of_either
from eventformers.datasets_scripts.record_files import Column, first_record, is_table, read_records
from eventformers.errors import DataFormatError, shown

_ORIGIN_COLUMNS = (
    Column("source", "text", "corpus of the document; without it, the name of the file"),
    Column("license", "text", "terms of use, as an identifier of SPDX"),
    Column("chain_id", "text", "id of the chain, in a table of chains"),
    Column("protagonist", "text", "person or thing that the chain is about, in a table of chains"),
)

EVENT_COLUMNS = (
    Column("document_id", "text", "document; its rows follow each other", required=True, other_names=("id",)),
    Column("subject", "text", "subject; empty if absent"),
    Column("predicate", "text", "predicate", required=True),
    Column("object", "text", "object; empty if absent"),
    Column("lemma", "text", "lemma of the verb, for `predicate_form=lemma`"),
    Column("negated", "flag", "1 or true if the event is negated: its predicate begins with `not`"),
    *_ORIGIN_COLUMNS,
)
"""Columns of a table with one event a row. The others of the table that `extract` writes are ignored."""

DOCUMENT_COLUMNS = (
    Column("document_id", "text", "document; without it, the file and the line", other_names=("id",)),
    Column("events", "list of events", "events in the order of the text", required=True),
    *_ORIGIN_COLUMNS,
)
"""Columns of a table with one document or chain a row."""

_IGNORED = frozenset(EVENT_SCHEMA.names) | {"n_sent"}
_ORIGIN = ("source", "license", "chain_id", "protagonist")


def holds_documents(columns: Mapping[str, object]) -> bool:
    """True if a table with these columns holds documents or chains."""
    return "events" in columns or "predicate" in columns


def read_document_records(path: Path, skipped: SkippedRows, accepted: str) -> Iterator[tuple[int, Any]]:
    """Read the documents or chains of JSON lines or a table, each as an object of JSON with its line.

    Args:
        path: the file.
        skipped: count of blank lines, and policy for malformed lines and rows.
        accepted: the accepted content of a line of JSON, for errors.

    Raises:
        DataFormatError: the file cannot be read, a table lacks a column, a row is no event, or a document
            continues after another one.
    """
    columns = first_record(path) if is_table(path) else None
    if columns is None or "events" in columns:
        return read_records(path, skipped, DOCUMENT_COLUMNS, accepted, ignored=_IGNORED)
    rows = read_records(path, skipped, EVENT_COLUMNS, accepted, ignored=_IGNORED)
    return _documents_of(skipped.parsed(rows, lambda row: _event_row(*row, path)), path, skipped)


def _event_row(line: int, row: Mapping[str, Any], path: Path) -> tuple[int, str, dict[str, Any], list[Any]]:
    """Read the line of an event, its document, the facts about its document, and its fields."""
    document_id = text_of_either(row, ("document_id", "id"), path, line)
    if not document_id:
        raise DataFormatError(path, line, "an event without document_id", "the id of its document")
    event = event_of({role: row.get(role) for role in ("subject", "predicate", "object")}, path, line)
    origin = {name: text_field(row, name, path, line) for name in _ORIGIN if name in row}
    marks = [text_field(row, "lemma", path, line), 0, int(bool(row.get("negated")))]
    # The fields of an extracted event, which begin with its sentence and place.
    return line, document_id, origin, [0, 0, *event.values(), *marks]


def _documents_of(
    rows: Iterator[tuple[int, str, dict[str, Any], list[Any]]], path: Path, skipped: SkippedRows
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Join the rows of each document or chain, which must follow each other and agree in its facts."""
    complete: set[int] = set()
    key: tuple[str, str] | None = None
    first, record = 0, dict[str, Any]()
    for line, document_id, origin, fields in rows:
        found = (document_id, origin.get("chain_id") or origin.get("protagonist", ""))
        name = shown(found[1] or document_id)
        if hash(found) in complete:
            text = f"an event of {name} after other documents"
            skipped.leave_out(DataFormatError(path, line, text, "all events of a document together"), "row")
            continue
        if found != key:
            if key is not None:
                yield first, record
                complete.add(hash(key))
            key, first, record = found, line, {"document_id": document_id, **origin, "events": []}
        # A table may state the facts of a document in one of its rows alone.
        stated = {fact: text for fact, text in origin.items() if text}
        if other := next((fact for fact, text in stated.items() if record[fact] not in ("", text)), None):
            text = f"the {other} {shown(origin[other])} of {name}, which has {shown(record[other])} above"
            skipped.leave_out(DataFormatError(path, line, text, f"one {other} for a document"), "row")
            continue
        record.update(stated)
        record["events"].append(fields)
    if key is not None:
        yield first, record
