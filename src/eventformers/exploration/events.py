"""The step that extracts events from the documents, with their places in the text."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain, compress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from eventformers.datasets_scripts.events import CHAIN_SCHEMA, DOCUMENTS_TABLE, EVENT_SCHEMA, EVENTS_TABLE
from eventformers.errors import EventformersError
from eventformers.exploration.folder import STATE_FOLDER
from eventformers.exploration.settings import Context
from eventformers.exploration.steps import Step, StepRun, key_of
from eventformers.extraction.counts import ExtractionCounts
from eventformers.extraction.extractor import (
    ExtractionSettings,
    cached_extractor,
    installed_pipeline,
    load_pipeline,
    rules_digest,
)
from eventformers.extraction.language import check_languages, other_language
from eventformers.extraction.pipeline import extract_shards
from eventformers.extraction.shards import in_blocks, read_counts, write_texts
from eventformers.extraction.tables import read_shards, write_tables
from eventformers.extraction.texts import TextDocument
from eventformers.files import files_digest, remove_folder, write_text
from eventformers.provenance import installed_version

PROTAGONISTS_TABLE = f"{STATE_FOLDER}/protagonists.parquet"
"""The chains of any length, which the parse gives; the step `chains` selects the long ones."""

SHORTEST_CHAIN = 2
_logger = logging.getLogger("eventformers")
_BLOCKS_TABLE = f"{STATE_FOLDER}/blocks.parquet"
_TABLES = ((EVENTS_TABLE, "events", EVENT_SCHEMA), (PROTAGONISTS_TABLE, "chains", CHAIN_SCHEMA))
_BLOCK_DOCUMENTS = 256
_ENCODER = ", with a multilingual encoder as --events and --types"
_LISTED = 5
_OF_CHAINS = "chain_below_minimum_length"


class _Parsed(NamedTuple):
    """What was found in a block of documents: the counts, and the rows of each of `_TABLES`."""

    counts: ExtractionCounts
    rows: list[pa.Table]


def extract_events(run: StepRun) -> None:
    """Extract the events of all documents, and the chains of their protagonists.

    Blocks of documents that the earlier exploration has are not parsed again, nor are the finished shards of
    an interrupted run.
    """
    keys = [key_of([(one.document_id, one.text) for one in block]) for block in _blocks(run)]
    found = _earlier(run.earlier) if run.earlier else {}
    missing = [key not in found for key in keys]
    shards = _write_shards(run, chain.from_iterable(compress(_blocks(run), missing)))
    pipeline = run.context.settings.pipeline or installed_pipeline()
    settings = ExtractionSettings(pipeline, min_chain_length=SHORTEST_CHAIN)
    # A cached pipeline of an earlier call may have had the same folder with other content.
    cached_extractor.cache_clear()
    if shards:
        # Before the processes start, which share the pipeline.
        language = cached_extractor(settings).pipeline.lang
        check_languages(
            lambda: (document.text for document in _documents(run.folder / DOCUMENTS_TABLE)),
            pq.read_metadata(run.folder / DOCUMENTS_TABLE).num_rows,
            language,
            _ENCODER,
        )
        _tell_of_encoders(run, language)
    extract_shards(settings, run.work, shards, run.context.settings.processes, write_tables)
    results = run.work / "results"
    made = [
        pa.concat_tables([schema.empty_table(), *read_shards(results, shards, kind)])
        for _, kind, schema in _TABLES
    ]
    found |= _divided(compress(keys, missing), read_counts(results, shards), made)
    blocks = [found[key] for key in keys]
    counts = ExtractionCounts()
    for block in blocks:
        counts.add(block.counts)
    skipped = {name: count for name, count in counts.skipped.items() if name != _OF_CHAINS}
    if counts.skipped["document_in_another_language"]:
        language = cached_extractor(settings).pipeline.lang
        documents = _documents(run.folder / DOCUMENTS_TABLE)
        named = [(other_language(one.text, language), one.document_id) for one in documents]
        listed = [f"{name} ({document_id})" for name, document_id in named if name]
        more = ", …" if len(listed) > _LISTED else ""
        run.notes.append(f"Documents that are not parsed, by language: {', '.join(listed[:_LISTED])}{more}.")
    if not counts.written["events"]:
        told = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in sorted(skipped.items()))
        raise EventformersError(
            f"no event in the documents ({told}); accepted: running text in the language of the pipeline "
            f"({cached_extractor(settings).pipeline.lang})"
        )
    for place, (name, _, schema) in enumerate(_TABLES):
        # Without the limits of the parts, which the pages of a file would follow.
        run.write(name, pa.concat_tables(block.rows[place] for block in blocks).cast(schema).combine_chunks())
    written = [json.dumps(block.counts.to_dict()) for block in blocks]
    run.write(_BLOCKS_TABLE, pa.table({"key": keys, "counts": written}))
    run.counts.update({name: counts.written[name] for name in ("sentences", "events")})
    run.counts["documents_with_events"] = counts.written["documents"]
    run.note_skipped(skipped)


def _tell_of_encoders(run: StepRun, language: str) -> None:
    """Name the packaged encoder of English before hours of work on another language."""
    roles = [f"--{role}" for role in ("events", "types") if run.context.settings.models.get(role) is None]
    if language != "en" and roles:
        note = (
            f"The pipeline reads {language}, but all-MiniLM-L6-v2 was trained on English: name a "
            f"multilingual encoder as {' and '.join(roles)}."
        )
        _logger.warning(note)
        run.notes.append(note)


def _earlier(folder: Path) -> dict[str, _Parsed]:
    """Read what an earlier exploration found, by the key of each block."""
    blocks = pq.read_table(folder / _BLOCKS_TABLE).to_pydict()
    counts = [ExtractionCounts.from_dict(json.loads(one)) for one in blocks["counts"]]
    return _divided(blocks["key"], counts, [pq.read_table(folder / name) for name, _, _ in _TABLES])


def _divided(
    keys: Iterable[str], counts: Sequence[ExtractionCounts], tables: Sequence[pa.Table]
) -> dict[str, _Parsed]:
    """Divide tables by blocks, by the numbers of their rows."""
    found = {}
    starts = [0] * len(tables)
    for key, of_block in zip(keys, counts, strict=True):
        sizes = [of_block.written[kind] for _, kind, _ in _TABLES]
        rows = [table.slice(*place) for table, *place in zip(tables, starts, sizes, strict=True)]
        found[key] = _Parsed(of_block, rows)
        starts = [start + size for start, size in zip(starts, sizes, strict=True)]
    return found


def _write_shards(run: StepRun, documents: Iterable[TextDocument]) -> int:
    """Write documents as shards of texts, unless an interrupted run did; return their number."""
    done, texts = run.work / "shards.json", run.work / "texts"
    if not done.exists():
        # An interrupted run may have written some of them.
        remove_folder(texts)
        write_text(done, json.dumps(write_texts(documents, texts)))
    return int(json.loads(done.read_text(encoding="utf-8")))


def _blocks(run: StepRun) -> Iterator[list[TextDocument]]:
    return in_blocks(_documents(run.folder / DOCUMENTS_TABLE), lambda document: document.text)


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
    return {
        "pipeline": folder.name,
        "revision": revision,
        "spacy": installed_version("spacy") or "",
        "rules": rules_digest(),
    }


EVENTS = Step(
    "events",
    extract_events,
    reads=(DOCUMENTS_TABLE,),
    writes=(EVENTS_TABLE, PROTAGONISTS_TABLE, _BLOCKS_TABLE),
    settings=_settings,
)
