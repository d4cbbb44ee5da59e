"""Tables of extracted events, chains and documents: their rows, and shards of them on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eventformers.datasets_scripts.events import (
    CHAIN_SCHEMA,
    DOCUMENT_SCHEMA,
    EVENT_SCHEMA,
    event_id,
    event_text,
)
from eventformers.extraction.extractor import ExtractedDocument, plain_event
from eventformers.extraction.shards import shard_path
from eventformers.files import replaced_file


def event_rows(extracted: ExtractedDocument) -> Iterator[dict[str, Any]]:
    """Yield the events of a document, with the columns of `EVENT_SCHEMA`."""
    document = extracted.document
    for number, placed in enumerate(extracted.events):
        event = placed.event
        yield {
            "event_id": event_id(document.document_id, number),
            "document_id": document.document_id,
            "number": number,
            "sentence": event.sentence,
            "sentence_start": placed.sentence_start,
            "sentence_end": placed.sentence_end,
            "trigger": document.text[event.offset : placed.trigger_end],
            "trigger_start": event.offset,
            "trigger_end": placed.trigger_end,
            "subject": event.subject,
            "predicate": event.predicate,
            "object": event.object,
            "text": event_text(plain_event(event)),
            "lemma": event.lemma,
            "negated": event.negated,
            "passive": event.passive,
        }


def chain_rows(extracted: ExtractedDocument) -> Iterator[dict[str, Any]]:
    """Yield the chains of a document, with the columns of `CHAIN_SCHEMA`."""
    for chain, numbers in zip(extracted.chain_rows, extracted.chain_numbers, strict=True):
        yield {
            "chain_id": chain["chain_id"],
            "document_id": chain["document_id"],
            "protagonist": chain["protagonist"],
            "event_ids": [event_id(chain["document_id"], number) for number in numbers],
        }


def write_tables(extracted: Sequence[ExtractedDocument], results: Path, shard: int) -> None:
    """Write the events and the chains of a shard as Parquet files."""
    events = [row for document in extracted for row in event_rows(document)]
    chains = [row for document in extracted for row in chain_rows(document)]
    for kind, rows, schema in (("events", events, EVENT_SCHEMA), ("chains", chains, CHAIN_SCHEMA)):
        _write_shard(results, shard, kind, pa.Table.from_pylist(rows, schema=schema))


def write_documents(extracted: Sequence[ExtractedDocument], results: Path, shard: int) -> None:
    """Write the documents of a shard as a Parquet file."""
    rows = [{name: getattr(one.document, name) for name in DOCUMENT_SCHEMA.names} for one in extracted]
    _write_shard(results, shard, "documents", pa.Table.from_pylist(rows, schema=DOCUMENT_SCHEMA))


def read_shards(results: Path, shards: int, kind: str) -> Iterable[pa.Table]:
    """Read the written tables of all shards, in order: `events`, `chains` or `documents`."""
    return (pq.read_table(shard_path(results, shard, f"{kind}.parquet")) for shard in range(shards))


def merge_tables(results: Path, shards: int, kind: str, schema: pa.Schema, path: Path) -> None:
    """Write the tables of one kind of all shards into one file."""
    with pq.ParquetWriter(path, schema) as writer:
        for table in read_shards(results, shards, kind):
            writer.write_table(table)


def _write_shard(results: Path, shard: int, kind: str, table: pa.Table) -> None:
    with replaced_file(shard_path(results, shard, f"{kind}.parquet")) as temporary:
        pq.write_table(table, temporary)
