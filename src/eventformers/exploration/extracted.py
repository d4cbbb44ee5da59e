"""The first steps of an exploration of events that `extract` found before: the tables are copied."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from eventformers.datasets_scripts.chains import NO_PROTAGONISTS
from eventformers.datasets_scripts.events import (
    CHAIN_SCHEMA,
    DOCUMENT_SCHEMA,
    DOCUMENTS_TABLE,
    EVENT_SCHEMA,
    EVENTS_TABLE,
)
from eventformers.errors import EventformersError
from eventformers.exploration.events import PROTAGONISTS_TABLE, SHORTEST_CHAIN
from eventformers.exploration.settings import Context
from eventformers.exploration.steps import Step, StepRun
from eventformers.files import file_digest
from eventformers.inference.encoding.event_tables import (
    ACCEPTED_TABLES,
    read_event_mentions,
    read_event_table,
)


def copy_documents(run: StepRun) -> None:
    """Copy the table of documents, with its columns checked."""
    documents = read_event_table(_folder(run.context), DOCUMENTS_TABLE, DOCUMENT_SCHEMA)
    run.write(DOCUMENTS_TABLE, documents)
    run.counts["documents"] = documents.num_rows


def copy_events(run: StepRun) -> None:
    """Copy the table of events, with its places checked; find chains by equal arguments."""
    folder = _folder(run.context)
    events = read_event_table(folder, EVENTS_TABLE, EVENT_SCHEMA)
    read_event_mentions(folder)
    run.write(EVENTS_TABLE, events)
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


def _folder(context: Context) -> Path:
    return cast("Path", context.texts.tables)


def _settings_of(name: str) -> Callable[[Context], Mapping[str, Any]]:
    def settings(context: Context) -> Mapping[str, Any]:
        path = _folder(context) / name
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
    writes=(EVENTS_TABLE, PROTAGONISTS_TABLE),
    settings=_settings_of(EVENTS_TABLE),
)
