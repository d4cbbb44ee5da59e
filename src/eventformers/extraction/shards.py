"""Shards of an extraction on disk: waiting texts, complete results as lines and tables, and their merge."""

from __future__ import annotations

import dataclasses
import gzip
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from eventformers.datasets_scripts.events import (
    ACTORS_TABLE,
    CHAIN_SCHEMA,
    DOCUMENT_SCHEMA,
    DOCUMENTS_TABLE,
    EVENT_SCHEMA,
    EVENTS_TABLE,
    EXTRACTED_DOCUMENTS,
)
from eventformers.datasets_scripts.reading.lines import read_json_object
from eventformers.datasets_scripts.reading.tables import read_parquet
from eventformers.extraction.actors import DOCUMENT_ACTOR_SCHEMA, GivenActor, merge_actors, with_actor_ids
from eventformers.extraction.extractor import EventExtractor, ExtractedDocument, ExtractionCounts
from eventformers.extraction.texts import TextDocument
from eventformers.files import replaced_file, write_text

SHARD_CHARACTERS = 1_000_000
"""Characters of text in a shard: about twenty seconds of work for a small pipeline."""

BLOCK_CHARACTERS = 2_000
"""Number of characters of text in a block, on average, unless its last text is longer."""

CHAINS_FILE = "chains.jsonl"

Item = TypeVar("Item")

_TEXTS, _EVENTS, _CHAINS, _COUNTS = "jsonl.gz", "events.jsonl.gz", "chains.jsonl.gz", "counts.json"


def in_blocks(items: Iterable[Item], text_of: Callable[[Item], str]) -> Iterator[list[Item]]:
    """Divide texts into blocks that follow from the texts alone, and are read without their neighbours.

    A parse or a vector depends in its last bits on what is computed with it. A block ends after a text by its
    digest, the sooner the longer it is, so a new text changes only its own block, and all others are found
    again ("content-defined chunking").

    Args:
        items: the texts, or what belongs to them, in order.
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


def extract_shard(
    extractor: EventExtractor, texts: Path, results: Path, shard: int, with_lines: bool
) -> None:
    """Extract the texts of a shard, block by block, and write the results, the counts of each block last.

    The results are tables of events, chains and the actors of documents; `with_lines` adds one of documents,
    and JSON lines.
    """
    extracted: list[ExtractedDocument] = []
    counts = []
    for block in in_blocks(_read_texts(shard_path(texts, shard, _TEXTS)), _text):
        of_block = ExtractionCounts()
        extracted += extractor.extract(block, of_block)
        counts.append(of_block.to_dict())
    tables = {
        "events": (EVENT_SCHEMA, [row for document in extracted for row in document.events]),
        "chains": (CHAIN_SCHEMA, [row for document in extracted for row in document.chains]),
        "actors": (DOCUMENT_ACTOR_SCHEMA, [row for document in extracted for row in document.actors]),
    }
    if with_lines:
        names = DOCUMENT_SCHEMA.names
        documents = [{name: getattr(one.document, name) for name in names} for one in extracted]
        tables["documents"] = (DOCUMENT_SCHEMA, documents)
        event_lines = [document.event_row for document in extracted if document.event_row["events"]]
        chain_lines = [row for document in extracted for row in document.chain_rows]
        for kind, rows in ((_EVENTS, event_lines), (_CHAINS, chain_lines)):
            lines = [json.dumps(row, ensure_ascii=False) for row in rows]
            _write_gzip(shard_path(results, shard, kind), lines)
    for kind, (schema, rows) in tables.items():
        with replaced_file(shard_path(results, shard, f"{kind}.parquet")) as temporary:
            pq.write_table(pa.Table.from_pylist(rows, schema=schema), temporary)
    write_text(shard_path(results, shard, _COUNTS), json.dumps({"blocks": counts}))


def read_counts(results: Path, shards: int) -> list[ExtractionCounts]:
    """Read the counts of all blocks of all shards."""
    recorded = (read_json_object(shard_path(results, shard, _COUNTS))["blocks"] for shard in range(shards))
    return [ExtractionCounts.from_dict(counts) for counts in chain.from_iterable(recorded)]


def merge_shards(
    results: Path, shards: int, folder: Path, aliases: Mapping[str, GivenActor]
) -> ExtractionCounts:
    """Write the results of all shards into one file of each kind, and add up their counts.

    Actors are merged across documents. A file that would be empty is not written.
    """
    counts = ExtractionCounts()
    for of_block in read_counts(results, shards):
        counts.add(of_block)
    if counts.written["events"] > counts.skipped["event_of_other_factuality"]:
        with open(folder / EXTRACTED_DOCUMENTS, "wb") as merged:
            for shard in range(shards):
                # Concatenated gzip files are a valid gzip file.
                with open(shard_path(results, shard, _EVENTS), "rb") as part:
                    shutil.copyfileobj(part, merged)
    if counts.written["documents"]:
        with pq.ParquetWriter(folder / DOCUMENTS_TABLE, DOCUMENT_SCHEMA) as writer:
            for table in read_shards(results, shards, "documents"):
                writer.write_table(table)
        actors, ids = merge_actors(lambda: read_shards(results, shards, "actors"), aliases)
        counts.written["actors"] = len(actors)
        if actors:
            pq.write_table(actors, folder / ACTORS_TABLE)
        start = 0
        with pq.ParquetWriter(folder / EVENTS_TABLE, EVENT_SCHEMA) as writer:
            tables = (read_shards(results, shards, kind) for kind in ("events", "actors"))
            for events, of_documents in zip(*tables, strict=True):
                end = start + len(of_documents)
                writer.write_table(with_actor_ids(events, of_documents, ids[start:end]))
                start = end
    if counts.written["chains"]:
        with open(folder / CHAINS_FILE, "wb") as merged:
            for shard in range(shards):
                with gzip.open(shard_path(results, shard, _CHAINS), "rb") as part:
                    shutil.copyfileobj(part, merged)
    return counts


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


def read_shards(results: Path, shards: int, kind: str) -> Iterable[pa.Table]:
    """Read the written tables of all shards, in order: `events`, `chains`, `actors` or `documents`."""
    return (read_parquet(shard_path(results, shard, f"{kind}.parquet")) for shard in range(shards))
