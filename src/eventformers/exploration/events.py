"""The step that extracts events from the documents, with their places in the text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from eventformers.datasets_scripts.events import event_text
from eventformers.errors import EventformersError
from eventformers.exploration.documents import DOCUMENTS_FILE
from eventformers.exploration.settings import Context
from eventformers.exploration.steps import STATE_FOLDER, Step, StepRun
from eventformers.extraction.extractor import ExtractedDocument, ExtractionSettings, plain_event
from eventformers.extraction.pipeline import cached_extractor, extract_shards
from eventformers.extraction.shards import read_counts, write_texts
from eventformers.extraction.texts import TextDocument
from eventformers.files import replaced_file, write_text

EVENTS_FILE = "events.parquet"
PROTAGONISTS_FILE = f"{STATE_FOLDER}/protagonists.parquet"
"""The chains of any length, which the parse gives; the step `chains` selects the long ones."""

SHORTEST_CHAIN = 2
_TEXTS = pa.string()
_PLACES = pa.int32()
SCHEMA = pa.schema(
    [
        ("event_id", _TEXTS),
        ("document_id", _TEXTS),
        *((name, _PLACES) for name in ("number", "sentence", "sentence_start", "sentence_end")),
        ("trigger", _TEXTS),
        *((name, _PLACES) for name in ("trigger_start", "trigger_end")),
        *((name, _TEXTS) for name in ("subject", "predicate", "object", "text", "lemma")),
        *((name, pa.bool_()) for name in ("negated", "passive")),
    ]
)
CHAIN_SCHEMA = pa.schema(
    [
        *((name, _TEXTS) for name in ("chain_id", "document_id", "protagonist")),
        ("event_ids", pa.list_(_TEXTS)),
    ]
)
_DOCUMENTS_AT_ONCE = 256


def extract_events(run: StepRun) -> None:
    """Extract the events of all documents, and the chains of their protagonists."""
    shards = _write_shards(run)
    settings = _extraction(run.context)
    extract_shards(settings, run.work, shards, run.context.settings.processes, _write_shard)
    results = run.work / "results"
    counts = read_counts(results, shards)
    if not counts.written["events"]:
        language = cached_extractor(settings).pipeline.lang
        raise EventformersError(
            f"no event in {run.table(DOCUMENTS_FILE, ['document_id']).num_rows:,} documents; accepted: "
            f"running text in the language of the pipeline ({language})"
        )
    for name, schema, kind in ((EVENTS_FILE, SCHEMA, "events"), (PROTAGONISTS_FILE, CHAIN_SCHEMA, "chains")):
        parts = (pq.read_table(_part(results, shard, kind)) for shard in range(shards))
        run.write_parts(name, schema, parts)
    run.counts["sentences"] = counts.written["sentences"]
    run.counts["events"] = counts.written["events"]
    run.notes += [f"{name.replace('_', ' ')}: {count:,}" for name, count in sorted(counts.skipped.items())]


def _write_shards(run: StepRun) -> int:
    """Write the documents as shards of texts, unless an interrupted run did; return their number."""
    done = run.work / "shards.json"
    if not done.exists():
        number = write_texts(_documents(run.folder / DOCUMENTS_FILE), run.work / "texts")
        write_text(done, json.dumps(number))
    return int(json.loads(done.read_text(encoding="utf-8")))


def _documents(path: Path) -> Iterator[TextDocument]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_DOCUMENTS_AT_ONCE):
            for row in batch.to_pylist():
                yield TextDocument(row["document_id"], row["text"], row["source"], row["license"])


def _write_shard(extracted: Sequence[ExtractedDocument], results: Path, shard: int) -> None:
    events = [row for document in extracted for row in _event_rows(document)]
    chains = [row for document in extracted for row in _chain_rows(document)]
    for kind, rows, schema in (("events", events, SCHEMA), ("chains", chains, CHAIN_SCHEMA)):
        with replaced_file(_part(results, shard, kind)) as temporary:
            pq.write_table(pa.Table.from_pylist(rows, schema=schema), temporary)


def _event_rows(extracted: ExtractedDocument) -> Iterator[dict[str, Any]]:
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


def _chain_rows(extracted: ExtractedDocument) -> Iterator[dict[str, Any]]:
    for chain, numbers in zip(extracted.chain_rows, extracted.chain_numbers, strict=True):
        yield {
            "chain_id": chain["chain_id"],
            "document_id": chain["document_id"],
            "protagonist": chain["protagonist"],
            "event_ids": [event_id(chain["document_id"], number) for number in numbers],
        }


def event_id(document_id: str, number: int) -> str:
    """The id of an event: its document and its number there, from 0."""
    return f"{document_id}#{number}"


def _part(results: Path, shard: int, kind: str) -> Path:
    return results / f"{shard:06d}.{kind}.parquet"


def _extraction(context: Context) -> ExtractionSettings:
    return ExtractionSettings(context.settings.pipeline, min_chain_length=SHORTEST_CHAIN)


def _settings(context: Context) -> Mapping[str, Any]:
    return {"pipeline": context.settings.pipeline}


EVENTS = Step(
    "events",
    extract_events,
    reads=(DOCUMENTS_FILE,),
    writes=(EVENTS_FILE, PROTAGONISTS_FILE),
    settings=_settings,
)
