"""Shards of an extraction on disk: waiting texts, complete results as lines and tables, and their merge."""

from __future__ import annotations

import dataclasses
import gzip
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from eventformers.datasets_scripts.events import (
    CHAIN_SCHEMA,
    DOCUMENT_SCHEMA,
    EVENT_SCHEMA,
    event_id,
    event_text,
)
from eventformers.extraction.extractor import EventExtractor, ExtractedDocument, ExtractionCounts, plain_event
from eventformers.extraction.texts import TextDocument
from eventformers.files import replaced_file, write_text

SHARD_CHARACTERS = 1_000_000
"""Characters of text in a shard: about twenty seconds of work for a small pipeline."""

BLOCK_CHARACTERS = 2_000
"""Number of characters of text in a block, on average, unless its last text is longer."""

Item = TypeVar("Item")

_TEXTS, _EVENTS, _CHAINS, _COUNTS = "jsonl.gz", "events.jsonl.gz", "chains.jsonl.gz", "counts.json"

ShardWriter = Callable[[Sequence[ExtractedDocument], Path, int], None]
"""Writes the results of a shard, given its documents, the folder of results and its number."""


def in_blocks(items: Iterable[Item], text_of: Callable[[Item], str]) -> Iterator[list[Item]]:
    """Divide texts into blocks that follow from the texts alone, and are read without their neighbours.

    A parse or a vector depends in its last bits on what is computed with it. A block ends after a text by its
    digest, the sooner the longer it is, so a new text changes only its own block, and all others are found
    again ("content-defined chunking").

    Args:
        items: the texts, or what belongs to them, in order.
        text_of: returns the text of an item.
    """
    block: list[Item] = []
    for item in items:
        block.append(item)
        text = text_of(item)
        drawn = int.from_bytes(sha256(text.encode()).digest()[:4], "big") / 2**32
        if drawn * BLOCK_CHARACTERS < len(text):
            yield block
            block = []
    if block:
        yield block


def write_texts(documents: Iterable[TextDocument], folder: Path) -> int:
    """Write texts as shards of about `SHARD_CHARACTERS`, each of whole blocks, in order.

    Returns:
        The number of shards.
    """
    folder.mkdir(parents=True)
    lines: list[str] = []
    number, characters = 0, 0
    for block in in_blocks(documents, _text):
        lines += [json.dumps(dataclasses.astuple(document), ensure_ascii=False) for document in block]
        characters += sum(len(document.text) for document in block)
        if characters >= SHARD_CHARACTERS:
            _write_gzip(shard_path(folder, number, _TEXTS), lines)
            lines, number, characters = [], number + 1, 0
    if lines:
        _write_gzip(shard_path(folder, number, _TEXTS), lines)
        number += 1
    return number


def read_all_texts(folder: Path, shards: int) -> Iterator[str]:
    """Yield the texts of all shards, in order."""
    for shard in range(shards):
        yield from map(_text, _read_texts(shard_path(folder, shard, _TEXTS)))


def is_extracted(folder: Path, shard: int) -> bool:
    """True if a shard's results are complete: its counts are written last."""
    return shard_path(folder, shard, _COUNTS).exists()


def write_lines(extracted: Sequence[ExtractedDocument], results: Path, shard: int) -> None:
    """Write the events and the chains of a shard as JSON lines."""
    _write_gzip(shard_path(results, shard, _EVENTS), event_lines(extracted))
    _write_gzip(shard_path(results, shard, _CHAINS), chain_lines(extracted))


def extract_shard(
    extractor: EventExtractor, texts: Path, results: Path, shard: int, write: ShardWriter
) -> None:
    """Extract the texts of a shard, block by block, and write the results, the counts of each block last."""
    extracted: list[ExtractedDocument] = []
    counts = []
    for block in in_blocks(_read_texts(shard_path(texts, shard, _TEXTS)), _text):
        of_block = ExtractionCounts()
        extracted += extractor.extract(block, of_block)
        counts.append(of_block.to_dict())
    write(extracted, results, shard)
    write_text(shard_path(results, shard, _COUNTS), json.dumps(counts))


def read_counts(results: Path, shards: int) -> list[ExtractionCounts]:
    """Read the counts of all blocks of all shards."""
    recorded = (
        json.loads(shard_path(results, shard, _COUNTS).read_text(encoding="utf-8")) for shard in range(shards)
    )
    return [ExtractionCounts.from_dict(counts) for counts in chain.from_iterable(recorded)]


def merge_shards(results: Path, shards: int, events: Path, chains: Path) -> ExtractionCounts:
    """Write the results of all shards into one file of events and one of chains, and add up their counts.

    A file that would be empty is not written.
    """
    counts = ExtractionCounts()
    for of_block in read_counts(results, shards):
        counts.add(of_block)
    if counts.written["documents"]:
        with open(events, "wb") as merged:
            for shard in range(shards):
                # Concatenated gzip files are a valid gzip file.
                with open(shard_path(results, shard, _EVENTS), "rb") as part:
                    shutil.copyfileobj(part, merged)
    if counts.written["chains"]:
        with open(chains, "wb") as merged:
            for shard in range(shards):
                with gzip.open(shard_path(results, shard, _CHAINS), "rb") as part:
                    shutil.copyfileobj(part, merged)
    return counts


def event_lines(extracted: Iterable[ExtractedDocument]) -> list[str]:
    """The rows of events as JSON lines."""
    return [json.dumps(document.event_row, ensure_ascii=False) for document in extracted]


def chain_lines(extracted: Iterable[ExtractedDocument]) -> list[str]:
    """The rows of chains as JSON lines."""
    rows: Iterator[dict[str, Any]] = (row for document in extracted for row in document.chain_rows)
    return [json.dumps(row, ensure_ascii=False) for row in rows]


def _text(document: TextDocument) -> str:
    return document.text


def _read_texts(path: Path) -> Iterator[TextDocument]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield TextDocument(*json.loads(line))


def _write_gzip(path: Path, lines: Iterable[str]) -> None:
    with replaced_file(path) as temporary:
        text = "".join(f"{line}\n" for line in lines)
        temporary.write_bytes(gzip.compress(text.encode(), compresslevel=6, mtime=0))


def shard_path(folder: Path, shard: int, kind: str) -> Path:
    """Return the path of a part of a shard, which is named by its suffixes."""
    return folder / f"{shard:06d}.{kind}"


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
    for row, numbers in zip(extracted.chain_rows, extracted.chain_numbers, strict=True):
        yield {
            "chain_id": row["chain_id"],
            "document_id": row["document_id"],
            "protagonist": row["protagonist"],
            "event_ids": [event_id(row["document_id"], number) for number in numbers],
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
