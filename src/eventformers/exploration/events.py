"""The step that extracts events from the documents, with their places in the text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from eventformers.datasets_scripts.event_tables import (
    CHAIN_SCHEMA,
    DOCUMENTS_TABLE,
    EVENT_SCHEMA,
    EVENTS_TABLE,
)
from eventformers.errors import EventformersError
from eventformers.exploration.folder import STATE_FOLDER
from eventformers.exploration.settings import Context
from eventformers.exploration.steps import Step, StepRun
from eventformers.extraction.extractor import (
    ExtractionSettings,
    cached_extractor,
    installed_pipeline,
    load_pipeline,
)
from eventformers.extraction.pipeline import extract_shards
from eventformers.extraction.shards import read_counts, write_texts
from eventformers.extraction.tables import read_shards, write_tables
from eventformers.extraction.texts import TextDocument
from eventformers.files import files_digest, remove_folder, write_text
from eventformers.provenance import installed_version

PROTAGONISTS_TABLE = f"{STATE_FOLDER}/protagonists.parquet"
"""The chains of any length, which the parse gives; the step `chains` selects the long ones."""

SHORTEST_CHAIN = 2
_BLOCK_DOCUMENTS = 256
_OF_CHAINS = "chain_below_minimum_length"


def extract_events(run: StepRun) -> None:
    """Extract the events of all documents, and the chains of their protagonists.

    Finished shards of an interrupted run are kept.
    """
    shards = _write_shards(run)
    pipeline = run.context.settings.pipeline or installed_pipeline()
    settings = ExtractionSettings(pipeline, min_chain_length=SHORTEST_CHAIN)
    # A cached pipeline of an earlier call may have had the same folder with other content.
    cached_extractor.cache_clear()
    extractor = cached_extractor(settings)
    extract_shards(settings, run.work, shards, run.context.settings.processes, write_tables)
    results = run.work / "results"
    counts = read_counts(results, shards)
    skipped = {name: count for name, count in counts.skipped.items() if name != _OF_CHAINS}
    if not counts.written["events"]:
        found = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in sorted(skipped.items()))
        raise EventformersError(
            f"no event in the documents ({found}); accepted: running text in the language of the pipeline "
            f"({extractor.pipeline.lang})"
        )
    run.write_parts(EVENTS_TABLE, EVENT_SCHEMA, read_shards(results, shards, "events"))
    run.write_parts(PROTAGONISTS_TABLE, CHAIN_SCHEMA, read_shards(results, shards, "chains"))
    run.counts.update({name: counts.written[name] for name in ("sentences", "events")})
    run.counts["documents_with_events"] = counts.written["documents"]
    run.note_skipped(skipped)


def _write_shards(run: StepRun) -> int:
    """Write the documents as shards of texts, unless an interrupted run did; return their number."""
    done, texts = run.work / "shards.json", run.work / "texts"
    if not done.exists():
        # An interrupted run may have written some of them.
        remove_folder(texts)
        write_text(done, json.dumps(write_texts(_documents(run.folder / DOCUMENTS_TABLE), texts)))
    return int(json.loads(done.read_text(encoding="utf-8")))


def _documents(path: Path) -> Iterator[TextDocument]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_BLOCK_DOCUMENTS):
            for row in batch.to_pylist():
                yield TextDocument(**row)


def _settings(context: Context) -> Mapping[str, Any]:
    """Identify the pipeline without loading it."""
    name = context.settings.pipeline or installed_pipeline()
    folder = Path(name)
    if folder.is_dir():
        revision = files_digest(folder)
    elif find_spec("spacy") is None or find_spec(name) is None:
        # Raises an error that says what to install.
        load_pipeline(name)
        revision = ""
    else:
        revision = installed_version(name) or ""
    return {"pipeline": folder.name, "revision": revision, "spacy": installed_version("spacy") or ""}


EVENTS = Step(
    "events",
    extract_events,
    reads=(DOCUMENTS_TABLE,),
    writes=(EVENTS_TABLE, PROTAGONISTS_TABLE),
    settings=_settings,
)
