"""The step that reads the texts into a table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import islice
from typing import Any

import pyarrow as pa

from eventformers.datasets_scripts.events import DOCUMENT_SCHEMA, DOCUMENTS_TABLE
from eventformers.datasets_scripts.malformed import SkippedRows, malformed_policy
from eventformers.errors import EventformersError
from eventformers.exploration.settings import Context
from eventformers.exploration.steps import Step, StepRun
from eventformers.extraction.texts import TextFile, read_texts
from eventformers.files import file_digest

LONGEST_DOCUMENT = 100_000
"""Maximum number of characters of a document: about a chapter, which a parser and a page can hold."""

_BLOCK_DOCUMENTS = 1_024

_READ_OTHERWISE = {
    "document_with_id_of_another": "with the id of another one, which have a number after it",
    "document_with_replaced_characters": 'with half of a surrogate pair, which was replaced by "?"',
    "document_with_unreadable_source": "with a source that is not a text, which is left out",
    "document_with_unreadable_license": "with a licence that is not a text, which is left out",
    "document_with_unreadable_title": "with a title that is not a text, which is left out",
}


def read_documents(run: StepRun) -> None:
    """Read the texts into the table of documents: each distinct one that has text."""
    found, columns = run.context.texts, run.context.settings.columns
    read: Counter[str] = Counter()
    skipped = SkippedRows()
    skipped.update(found.skipped)
    documents = read_texts(
        *(found.sources, read, skipped),
        license_name=run.context.settings.license_name,
        columns=columns,
        longest=LONGEST_DOCUMENT,
    )
    number = 0

    def blocks() -> Iterator[pa.Table]:
        nonlocal number
        while block := list(islice(documents, _BLOCK_DOCUMENTS)):
            number += len(block)
            rows = [{name: getattr(one, name) for name in DOCUMENT_SCHEMA.names} for one in block]
            yield pa.Table.from_pylist(rows, schema=DOCUMENT_SCHEMA)

    run.write_parts(DOCUMENTS_TABLE, DOCUMENT_SCHEMA, blocks())
    skipped.warn()
    if not number:
        raise EventformersError(
            f"no document with text among {read['files'] or read['documents']} "
            f"{'files' if read['files'] else 'rows'}; accepted: at least one text"
        )
    run.counts["documents"] = number
    run.malformed = skipped.to_dict()
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
    for reason, told in _READ_OTHERWISE.items():
        if count := read[reason]:
            run.notes.append(f"Documents {told}: {count:,}.")
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
        "license": context.settings.license_name,
        "malformed": malformed_policy(),
    }


DOCUMENTS = Step("documents", read_documents, writes=(DOCUMENTS_TABLE,), settings=_settings)
