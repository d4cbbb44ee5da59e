"""The step that reads the texts into a table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import datasets
import pyarrow as pa

from eventformers.datasets_scripts.building import load_hub, looks_like_hub_id
from eventformers.datasets_scripts.event_tables import DOCUMENT_SCHEMA, DOCUMENTS_TABLE
from eventformers.datasets_scripts.malformed import SkippedRows, malformed_policy
from eventformers.datasets_scripts.raw_files import file_digest
from eventformers.errors import EventformersError
from eventformers.exploration.settings import Context, FoundTexts
from eventformers.exploration.steps import Step, StepRun
from eventformers.extraction.text_columns import TextColumns
from eventformers.extraction.texts import TextFile, TextRows, find_text_files, read_texts
from eventformers.inference.encoding.containers import ACCEPTED_CONTAINERS, values_in
from eventformers.inference.encoding.event_tables import are_event_tables

Texts: TypeAlias = Any
"""Files and folders, the id of a dataset on the Hub, or texts in memory; see `find_texts`."""

LONGEST_DOCUMENT = 100_000
"""Maximum number of characters of a document: about a chapter, which a parser and a page can hold."""

_BLOCK_DOCUMENTS = 1_024
_LONGEST_PATH = 1_000


def find_texts(texts: Texts, columns: TextColumns) -> FoundTexts:
    """Find the texts to explore.

    Args:
        texts: a folder that `extract` or `explore` wrote; a file or folder of texts, several of them, or the
            id of a dataset on the Hub, whose splits are read in order; or texts in memory: a list or
            generator of strings or rows, a frame, a table or a dataset. A list of strings that are all
            existing paths is a list of files.
        columns: columns of the texts.

    Raises:
        EventformersError: there is no text, or the type is not supported.
    """
    skipped = SkippedRows()
    if isinstance(texts, (str, Path)):
        folder = Path(texts).expanduser()
        if are_event_tables(folder):
            return FoundTexts([], skipped, folder)
    if isinstance(texts, str) and looks_like_hub_id(texts) and not Path(texts).exists():
        found: Sequence[TextFile | TextRows] = [
            _rows(rows, columns, split, texts) for split, rows in load_hub(texts).items()
        ]
    elif isinstance(texts, (str, Path)) or _are_paths(texts):
        found = find_text_files(texts, skipped)
    elif isinstance(texts, (datasets.DatasetDict, datasets.IterableDatasetDict)):
        found = [_rows(rows, columns, split, "texts") for split, rows in texts.items()]
    else:
        found = [_rows(texts, columns, "text", "texts")]
    return FoundTexts(found, skipped)


def _rows(items: Any, columns: TextColumns, name: str, source: str) -> TextRows:
    """Read rows into memory: an iterator can be read only once, but is needed for the fingerprint, too."""
    accepted = f"texts, or rows with a column text: {ACCEPTED_CONTAINERS}"
    return TextRows(list(values_in(items, columns.of_header, accepted)), name, source)


def _are_paths(texts: Texts) -> bool:
    if not isinstance(texts, (list, tuple)) or not texts:
        return False
    if all(isinstance(one, Path) for one in texts):
        return True
    # A long text is no path, and asking the system for it raises an error.
    return all(isinstance(one, str) and len(one) < _LONGEST_PATH and Path(one).exists() for one in texts)


def read_documents(run: StepRun) -> None:
    """Read the texts into the table of documents: each distinct one that has text."""
    found, columns = run.context.texts, run.context.settings.columns
    read: Counter[str] = Counter()
    skipped = SkippedRows()
    skipped.update(found.skipped)
    documents = read_texts(found.sources, read, skipped, columns=columns, longest=LONGEST_DOCUMENT)
    number = 0

    def blocks() -> Iterator[pa.Table]:
        nonlocal number
        while block := list(islice(documents, _BLOCK_DOCUMENTS)):
            number += len(block)
            rows = [{name: getattr(one, name) for name in DOCUMENT_SCHEMA.names} for one in block]
            yield pa.Table.from_pylist(rows, schema=DOCUMENT_SCHEMA)

    run.write_parts(DOCUMENTS_TABLE, DOCUMENT_SCHEMA, blocks())
    if not number:
        raise EventformersError(
            f"no document with text among {read['files'] or read['documents']} "
            f"{'files' if read['files'] else 'rows'}; accepted: at least one text"
        )
    skipped.warn()
    run.counts["documents"] = number
    if parts := read["document_split_into_parts"]:
        run.notes.append(
            f"Documents of more than {LONGEST_DOCUMENT:,} characters, split into parts between paragraphs: "
            f"{parts:,}."
        )
    if unreadable := read["document_with_unreadable_date"]:
        run.notes.append(
            f"Documents with a date that is not in ISO 8601, which count as undated: {unreadable:,}. "
            "--date-column date names the first one."
        )
    run.note_skipped(skipped)


def _settings(context: Context) -> Mapping[str, Any]:
    digest = sha256()
    for place in context.texts.sources:
        if isinstance(place, TextFile):
            part = [place.name, place.source, file_digest(place.path)]
            digest.update(json.dumps(part).encode())
        else:
            digest.update(json.dumps([place.name, place.source]).encode())
            for row in place.rows:
                digest.update(json.dumps(row, default=str).encode())
    return {
        "texts": digest.hexdigest(),
        "columns": context.settings.columns.named(),
        "malformed": malformed_policy(),
    }


DOCUMENTS = Step("documents", read_documents, writes=(DOCUMENTS_TABLE,), settings=_settings)
