"""Shards of an extraction on disk: waiting texts, complete results, and the merge of results."""

from __future__ import annotations

import dataclasses
import gzip
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from eventformers.extraction.counts import ExtractionCounts
from eventformers.extraction.extractor import EventExtractor, ExtractedDocument
from eventformers.extraction.texts import TextDocument
from eventformers.files import replaced_file, write_text

SHARD_CHARACTERS = 1_000_000
"""Characters of text in a shard: about twenty seconds of work for a small pipeline."""

_TEXTS, _EVENTS, _CHAINS, _COUNTS = "jsonl.gz", "events.jsonl.gz", "chains.jsonl.gz", "counts.json"

ShardWriter = Callable[[Sequence[ExtractedDocument], Path, int], None]
"""Writes the results of a shard, given its documents, the folder of results and its number."""


def write_texts(documents: Iterable[TextDocument], folder: Path) -> int:
    """Write texts as shards of about `SHARD_CHARACTERS`, in order.

    Returns:
        The number of shards.
    """
    folder.mkdir(parents=True)
    lines: list[str] = []
    number, characters = 0, 0
    for document in documents:
        record = dataclasses.astuple(document)
        lines.append(json.dumps(record, ensure_ascii=False))
        characters += len(document.text)
        if characters >= SHARD_CHARACTERS:
            _write_gzip(shard_path(folder, number, _TEXTS), lines)
            lines, number, characters = [], number + 1, 0
    if lines:
        _write_gzip(shard_path(folder, number, _TEXTS), lines)
        number += 1
    return number


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
    """Extract the texts of a shard and write the results, the counts last."""
    counts = ExtractionCounts()
    extracted = list(extractor.extract(_read_texts(shard_path(texts, shard, _TEXTS)), counts))
    write(extracted, results, shard)
    write_text(shard_path(results, shard, _COUNTS), json.dumps(counts.to_dict()))


def read_counts(results: Path, shards: int) -> ExtractionCounts:
    """Add up the counts of all shards."""
    counts = ExtractionCounts()
    for shard in range(shards):
        recorded = json.loads(shard_path(results, shard, _COUNTS).read_text(encoding="utf-8"))
        counts.add(ExtractionCounts.from_dict(recorded))
    return counts


def merge_shards(results: Path, shards: int, events: Path, chains: Path) -> ExtractionCounts:
    """Write the results of all shards into one file of events and one of chains, and add up their counts.

    A file that would be empty is not written.
    """
    counts = read_counts(results, shards)
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
