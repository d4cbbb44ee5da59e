"""The step that reads the texts into a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import pyarrow as pa

from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.raw_files import file_digest
from eventformers.errors import EventformersError
from eventformers.exploration.settings import Context
from eventformers.exploration.steps import Step, StepRun
from eventformers.extraction.texts import find_text_files, read_texts

DOCUMENTS_FILE = "documents.parquet"
SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("document_id", "title", "date", "source", "license", "text")]
)


def read_documents(run: StepRun) -> None:
    """Read the texts, each distinct one with text, into `documents.parquet`."""
    read: Counter[str] = Counter()
    skipped = SkippedRows()
    files = find_text_files(run.context.texts, skipped)
    rows = [
        {
            "document_id": one.document_id,
            "title": "",
            "date": "",
            "source": one.source,
            "license": one.license,
            "text": one.text,
        }
        for one in read_texts(files, read, skipped)
    ]
    if not rows:
        raise EventformersError(
            f"no document with text among {read['files']} files; accepted: files with text"
        )
    skipped.warn()
    run.write(DOCUMENTS_FILE, pa.Table.from_pylist(rows, schema=SCHEMA))
    run.counts["documents"] = len(rows)
    run.notes += [f"{reason.replace('_', ' ')}: {count:,}" for reason, count in sorted(skipped.items())]


def _settings(context: Context) -> Mapping[str, Any]:
    files = find_text_files(context.texts, SkippedRows())
    digests = "".join(f"{file.name}\0{file_digest(file.path)}\0" for file in files)
    return {"texts": sha256(digests.encode()).hexdigest()}


DOCUMENTS = Step("documents", read_documents, writes=(DOCUMENTS_FILE,), settings=_settings)
