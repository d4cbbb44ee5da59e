"""Tables of documents and events, as `extract` and `explore` write them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eventformers.datasets_scripts.events import (
    DOCUMENT_SCHEMA,
    DOCUMENTS_TABLE,
    EVENT_SCHEMA,
    EVENTS_TABLE,
    event_id,
)

DOCUMENTS = {
    "a": "“Police” arrested a thief.\n The river flooded the road.",
    "b": "The judge did not free the thief. A storm hit the city.",
}
EVENTS = (
    ("a", 0, "arrested", "arrest", ("police", "arrested", "thief"), False),
    ("a", 1, "flooded", "flood", ("river", "flooded", "road"), False),
    ("b", 0, "free", "free", ("judge", "free", "thief"), True),
    ("b", 1, "hit", "hit", ("storm", "hit", "city"), False),
)


def event_tables() -> dict[str, pa.Table]:
    """The tables of two documents with two events each; one sentence starts with white space."""
    documents = [
        {
            "document_id": name,
            "title": f"Report {name}",
            "date": "2020-01-02",
            "source": "news",
            "license": "CC0-1.0",
            "text": text,
        }
        for name, text in DOCUMENTS.items()
    ]
    events: list[dict[str, Any]] = []
    for document_id, sentence, trigger, lemma, roles, negated in EVENTS:
        text = DOCUMENTS[document_id]
        end = text.index(".") + 1
        first, last = (0, end) if sentence == 0 else (end, len(text))
        start = text.index(trigger, first)
        subject, predicate, object_ = roles
        events.append(
            {
                "event_id": event_id(document_id, sentence),
                "document_id": document_id,
                **{"number": sentence, "sentence": sentence, "sentence_start": first, "sentence_end": last},
                **{"trigger": trigger, "trigger_start": start, "trigger_end": start + len(trigger)},
                **{"subject": subject, "predicate": predicate, "object": object_},
                "text": f"{subject} {'not ' if negated else ''}{predicate} {object_}",
                "lemma": lemma,
                **{"negated": negated, "passive": False},
            }
        )
    return {
        "documents": pa.Table.from_pylist(documents, schema=DOCUMENT_SCHEMA),
        "events": pa.Table.from_pylist(events, schema=EVENT_SCHEMA),
    }


def write_event_tables(folder: Path) -> Path:
    """Write the tables of `event_tables` to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = event_tables()
    pq.write_table(tables["documents"], folder / DOCUMENTS_TABLE)
    pq.write_table(tables["events"], folder / EVENTS_TABLE)
    return folder
