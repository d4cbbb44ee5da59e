"""Tables of documents and their events, which `extract` and `explore` write: names of files, and columns."""

from __future__ import annotations

import pyarrow as pa

DOCUMENTS_TABLE = "documents.parquet"
EVENTS_TABLE = "events.parquet"
VECTORS_TABLE = "vectors.parquet"
CHAINS_TABLE = "chains.parquet"
EXTRACTED_DOCUMENTS = "events.jsonl.gz"
"""Documents of events as JSON lines, which `extract` writes beside `EVENTS_TABLE`."""

_TEXT, _PLACE, _FLAG = pa.string(), pa.int32(), pa.bool_()

DOCUMENT_SCHEMA = pa.schema(
    [(name, _TEXT) for name in ("document_id", "title", "date", "source", "license", "text")]
)
"""Columns of documents. `title` and `date` (ISO) are "" if unknown."""

EVENT_SCHEMA = pa.schema(
    [
        ("event_id", _TEXT),
        ("document_id", _TEXT),
        *((name, _PLACE) for name in ("number", "sentence", "sentence_start", "sentence_end")),
        ("trigger", _TEXT),
        *((name, _PLACE) for name in ("trigger_start", "trigger_end")),
        *((name, _TEXT) for name in ("subject", "predicate", "object", "text", "lemma")),
        *((name, _FLAG) for name in ("negated", "passive")),
    ]
)
"""Columns of events. Places are characters (code points) of the document's text, ends exclusive; `text` is
the text of the event, with "not" if it is negated."""

CHAIN_SCHEMA = pa.schema(
    [
        *((name, _TEXT) for name in ("chain_id", "document_id", "protagonist")),
        ("event_ids", pa.list_(_TEXT)),
    ]
)
"""Columns of chains: the distinct events of a protagonist in a document, in the order of the text."""

LINK_SCHEMA = pa.schema(
    [
        ("event_id", _TEXT),
        ("rank", pa.int32()),
        ("knowledge_base_id", _TEXT),
        ("title", _TEXT),
        ("score", pa.float32()),
        ("linked", _FLAG),
        ("ancestors", pa.list_(_TEXT)),
    ]
)
"""Columns of links to a knowledge base, best first; an event without a linked row is NULL."""


def event_id(document_id: str, number: int) -> str:
    """Return the id of an event: its document and its number there, from 0."""
    return f"{document_id}#{number}"
