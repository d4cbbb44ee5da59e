"""Steps that read the texts into a table, or copy the tables that `extract` or `explore` wrote."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from eventformers.datasets_scripts.chains import NO_PROTAGONISTS
from eventformers.datasets_scripts.events import (
    ACTOR_SCHEMA,
    ACTORS_TABLE,
    CHAIN_SCHEMA,
    DOCUMENT_SCHEMA,
    DOCUMENTS_TABLE,
    EVENT_SCHEMA,
    EVENTS_TABLE,
)
from eventformers.datasets_scripts.malformed import SkippedRows, malformed_policy
from eventformers.datasets_scripts.reading.tables import read_parquet
from eventformers.errors import EventformersError, counted
from eventformers.exploration.events import PROTAGONISTS_TABLE, SHORTEST_CHAIN
from eventformers.exploration.steps import Context, Step, StepRun
from eventformers.extraction.texts import TextFile, read_texts
from eventformers.files import file_digest
from eventformers.inference.encoding.event_tables import (
    ACCEPTED_TABLES,
    read_event_mentions,
    read_event_table,
)

LONGEST_DOCUMENT = 100_000
"""Maximum number of characters of a document: about a chapter, which a parser and a page can hold."""

_BLOCK_DOCUMENTS = 1_024

_READ_OTHERWISE = {
    "document_with_id_of_another": "with the id of another one, which have a number after it",
    "document_with_replaced_characters": 'with half of a surrogate pair, which was replaced by "?"',
    "document_with_unreadable_source": "with a source that is not a text, which is left out",
    "document_with_unreadable_license": "with a licence that is not a text, which is left out",
    "document_with_unreadable_title": "with a title that is not a text, which is left out",
    "document_with_unreadable_url": "with an address that is not a text, which is left out",
}


def read_documents(run: StepRun) -> None:
    """Read the texts into the table of documents: each distinct one that has text."""
    found, columns = run.context.texts, run.context.settings.columns
    read: Counter[str] = Counter()
    skipped = SkippedRows()
    skipped.update(found.skipped)
    documents = read_texts(
        *(found.sources, read, skipped),
        license_name=run.context.settings.license_name,
        columns=columns,
        longest=LONGEST_DOCUMENT,
    )
    number = 0

    def blocks() -> Iterator[pa.Table]:
        nonlocal number
        while block := list(islice(documents, _BLOCK_DOCUMENTS)):
            number += len(block)
            rows = [{name: getattr(one, name) for name in DOCUMENT_SCHEMA.names} for one in block]
            yield pa.Table.from_pylist(rows, schema=DOCUMENT_SCHEMA)

    run.write_parts(DOCUMENTS_TABLE, DOCUMENT_SCHEMA, blocks())
    skipped.warn()
    if not number:
        given = counted(read["files"], "file") if read["files"] else counted(read["documents"], "row")
        raise EventformersError(f"no document with text among {given}; accepted: at least one text")
    run.counts["documents"] = number
    run.malformed = skipped.to_dict()
    if parts := read["document_split_into_parts"]:
        run.notes.append(
            f"Documents of more than {LONGEST_DOCUMENT:,} characters, split into parts between paragraphs: "
            f"{parts:,}."
        )
    if unreadable := read["document_with_unreadable_date"]:
        run.notes.append(
            f"Documents with a date that is not in ISO 8601, which count as undated: {unreadable:,}. "
            "--date-column date names the first one."
        )
    for reason, told in _READ_OTHERWISE.items():
        if count := read[reason]:
            run.notes.append(f"Documents {told}: {count:,}.")
    run.note_skipped(skipped)


def _settings(context: Context) -> Mapping[str, Any]:
    digest = sha256()
    for place in context.texts.sources:
        if isinstance(place, TextFile):
            part = [place.name, place.source, file_digest(place.path)]
            digest.update(json.dumps(part).encode())
        else:
            digest.update(json.dumps([place.name, place.source]).encode())
            for row in place.rows:
                digest.update(json.dumps(row, default=str).encode())
    return {
        "texts": digest.hexdigest(),
        "columns": context.settings.columns.named(),
        "license": context.settings.license_name,
        "malformed": malformed_policy(),
    }


DOCUMENTS = Step("documents", read_documents, writes=(DOCUMENTS_TABLE,), settings=_settings)


def copy_documents(run: StepRun) -> None:
    """Copy the table of documents, with its columns checked."""
    documents = read_event_table(_tables_folder(run.context), DOCUMENTS_TABLE, DOCUMENT_SCHEMA)
    run.write(DOCUMENTS_TABLE, documents)
    run.counts["documents"] = documents.num_rows


def copy_events(run: StepRun) -> None:
    """Copy the table of events, with its places checked; find chains by equal arguments."""
    folder = _tables_folder(run.context)
    events = read_event_table(folder, EVENTS_TABLE, EVENT_SCHEMA)
    read_event_mentions(folder)
    run.write(EVENTS_TABLE, events)
    # Extractions of earlier versions have no actors.
    path, actors = folder / ACTORS_TABLE, ACTOR_SCHEMA.empty_table()
    if path.exists():
        actors = read_parquet(path, ACTOR_SCHEMA.names).cast(ACTOR_SCHEMA)
    run.write(ACTORS_TABLE, actors)
    run.write(PROTAGONISTS_TABLE, chains_of_arguments(events))
    run.counts["events"] = events.num_rows
    run.notes.append(
        "The events are those of an earlier extraction; their chains follow equal subjects and objects."
    )


def chains_of_arguments(events: pa.Table) -> pa.Table:
    """Find the chains of each document: the distinct events with the same subject or object.

    Args:
        events: columns `event_id`, `document_id`, `subject`, `object` and `text`; the events of a document
            follow each other.

    Returns:
        The chains of at least two events, with the columns of `CHAIN_SCHEMA`.
    """
    rows = events.select(["event_id", "document_id", "subject", "object", "text"]).to_pylist()
    chains = []
    for document_id, found in groupby(rows, itemgetter("document_id")):
        groups: dict[str, dict[str, str]] = {}
        for row in found:
            for argument in dict.fromkeys((row["subject"], row["object"])):
                if argument not in NO_PROTAGONISTS and any(map(str.isalnum, argument)):
                    groups.setdefault(argument, {}).setdefault(row["text"].lower(), row["event_id"])
        chains += [
            {
                "chain_id": f"{document_id}/{argument}",
                "document_id": document_id,
                "protagonist": argument,
                "event_ids": list(of_text.values()),
            }
            for argument, of_text in groups.items()
            if len(of_text) >= SHORTEST_CHAIN
        ]
    return pa.Table.from_pylist(chains, schema=CHAIN_SCHEMA)


def _tables_folder(context: Context) -> Path:
    return cast("Path", context.texts.tables)


def _settings_of(name: str) -> Callable[[Context], Mapping[str, Any]]:
    def settings(context: Context) -> Mapping[str, Any]:
        path = _tables_folder(context) / name
        if not path.is_file():
            raise EventformersError(f"{path}: no such file; accepted: {ACCEPTED_TABLES}")
        return {"extracted": file_digest(path)}

    return settings


EXTRACTED_DOCUMENTS = Step(
    "documents", copy_documents, writes=(DOCUMENTS_TABLE,), settings=_settings_of(DOCUMENTS_TABLE)
)
EXTRACTED_EVENTS = Step(
    "events",
    copy_events,
    reads=(DOCUMENTS_TABLE,),
    writes=(EVENTS_TABLE, PROTAGONISTS_TABLE, ACTORS_TABLE),
    settings=_settings_of(EVENTS_TABLE),
)
