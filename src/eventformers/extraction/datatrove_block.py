"""Extraction as steps of a datatrove pipeline, for one machine, Slurm or Ray.

A task of datatrove is a shard: each task reads its share of the files, and a finished task is not run again.
`docs/extract.md` has a worked example.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from gzip import GzipFile
from io import TextIOWrapper
from typing import IO, TYPE_CHECKING, Any
from uuid import uuid4

from eventformers.datasets_scripts.licenses import license_of_source
from eventformers.datasets_scripts.malformed import SkippedRows, check_malformed
from eventformers.datasets_scripts.reading.lines import DataDir
from eventformers.errors import EventformersError
from eventformers.extraction.chains import Resolver
from eventformers.extraction.extractor import (
    EventExtractor,
    ExtractionCounts,
    ExtractionSettings,
    cached_extractor,
)
from eventformers.extraction.texts import TextDocument, find_text_files, read_texts
from eventformers.strict import several

if TYPE_CHECKING:
    from datatrove.io import DataFolder


try:
    from datatrove.data import Document
    from datatrove.io import DataFolderLike, get_datafolder
    from datatrove.pipeline.base import PipelineStep
except ModuleNotFoundError as missing:
    raise EventformersError(
        "steps of a datatrove pipeline need datatrove; install it with"
        ' `pip install "eventformers[distributed]"`'
    ) from missing

_EVENTS, _CHAINS = "event_row", "chain_rows"
EVENT_ROWS = "event_rows"
"""Key of the metadata with the events of a document, in the columns of `EVENT_SCHEMA`."""


class ReadTexts(PipelineStep):
    """Reads SGML, JSON lines and plain text; each task reads every `world_size`-th file.

    Ids are made distinct within a task. Across tasks they are only as distinct as in the files.

    Args:
        texts: files and folders, which every task must be able to read.
        document_types: types of SGML documents to read; empty reads all.
        source: source of texts without one.
        license_name: licence of texts without one.
        malformed: `error` raises an error for the first malformed document; `skip` skips and counts them.
    """

    name = "events: texts"
    type = "READER"

    def __init__(
        self,
        texts: DataDir,
        document_types: Sequence[str] = ("story",),
        source: str | None = None,
        license_name: str | None = None,
        malformed: str = "error",
    ) -> None:
        super().__init__()
        self.texts = texts
        self.malformed = check_malformed(malformed)
        self.document_types = several(document_types)
        self.source, self.license_name = source, license_name

    def run(
        self, data: Iterable[Document] | None = None, rank: int = 0, world_size: int = 1
    ) -> Iterator[Document]:
        """Yield the documents of earlier steps, then those of this task's files."""
        yield from data or ()
        read: Counter[str] = Counter()
        skipped = SkippedRows(self.malformed)
        files = find_text_files(self.texts, skipped)[rank::world_size]
        if rank:
            # Every task finds all files; the first one counts those that none reads.
            skipped.clear()
        options = (self.document_types, self.source, self.license_name)
        for text in read_texts(files, read, skipped, *options):
            metadata = {"source": text.source, "license": text.license, "url": text.url}
            yield Document(text=text.text, id=text.document_id, metadata=metadata)
        skipped.warn()
        _tell(self, ExtractionCounts(read, skipped))


class ExtractEvents(PipelineStep):
    """Adds events and chains to the `metadata` of each document and drops documents without events.

    `metadata["event_row"]` and `metadata["chain_rows"]` are the rows that `eventformers.extract` writes, and
    `metadata["event_rows"]` those of its table of events, which the steps of `eventformers.distributed` read.
    Ids of actors in them are those of the document: names are not merged across documents.
    The source and licence come from the keys `source` and `license` (or `licence`) of `metadata`, if present.

    Args:
        pipeline: name or folder of a spaCy pipeline, which every task must be able to load.
        arguments: `heads` or `spans`.
        coreference: see `eventformers.extract`.
        exclude_predicates: predicates of events to leave out.
        drop_pronoun_only: leave out events whose arguments are all pronouns.
        min_chain_length: leave out chains of fewer distinct events.
        factuality: kinds of factuality in `event_row` and `chain_rows`; see `eventformers.extract`.
        triggers: `all` or `verbs`.

    Raises:
        EventformersError: a value is invalid.
    """

    name = "events: extraction"
    type = "EXTRACTOR"

    def __init__(
        self,
        pipeline: str,
        arguments: str = "heads",
        coreference: str | Resolver = "auto",
        exclude_predicates: Sequence[str] = (),
        drop_pronoun_only: bool = False,
        min_chain_length: int = 5,
        factuality: Sequence[str] = (),
        triggers: str = "all",
    ) -> None:
        super().__init__()
        self.settings = ExtractionSettings(
            *(pipeline, arguments, coreference, several(exclude_predicates), drop_pronoun_only),
            min_chain_length=min_chain_length,
            factuality=several(factuality),
            triggers=triggers,
        )

    def run(self, data: Iterable[Document], rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Yield the documents with events, in order."""
        # Created in the task, because steps are copied and sent to processes before they run.
        # A function of the user may have no hash.
        is_named = isinstance(self.settings.coreference, str)
        extractor = cached_extractor(self.settings) if is_named else EventExtractor(self.settings)
        counts = ExtractionCounts()
        waiting: deque[tuple[TextDocument, Document]] = deque()

        def texts() -> Iterator[TextDocument]:
            for document in data:
                metadata = document.metadata
                source, url = (str(metadata.get(name) or "") for name in ("source", "url"))
                stated = metadata.get("license") or metadata.get("licence")
                license_name = license_of_source(source, str(stated) if stated else None)
                text = TextDocument(document.id, document.text, source, license_name, url=url)
                waiting.append((text, document))
                yield text

        for extracted in extractor.extract(texts(), counts):
            text, document = waiting.popleft()
            # The documents before it had no events.
            while text is not extracted.document:
                text, document = waiting.popleft()
            document.metadata[_EVENTS] = extracted.event_row
            document.metadata[_CHAINS] = extracted.chain_rows
            document.metadata[EVENT_ROWS] = extracted.events
            yield document
        _tell(self, counts)


class WriteEvents(PipelineStep):
    """Writes `RANK.events.jsonl.gz` and `RANK.chains.jsonl.gz`; the dataset `event_chains` reads the folder.

    A file gets its name when it is complete; a file without lines is not written.

    Args:
        output_folder: a folder, or any location that datatrove can write to.
    """

    name = "events: rows"
    type = "WRITER"

    def __init__(self, output_folder: DataFolderLike) -> None:
        super().__init__()
        self.output_folder = get_datafolder(output_folder)

    def run(self, data: Iterable[Document], rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Yield the documents unchanged."""
        files: dict[str, IO[str]] = {}
        with ExitStack() as stack:

            def write(part: str, row: dict[str, Any]) -> None:
                if part not in files:
                    raw = stack.enter_context(
                        completed_file(self.output_folder, f"{rank:05d}.{part}.jsonl.gz")
                    )
                    # Without the time and the name, so that a task that is run again writes the same bytes.
                    packed = GzipFile(filename="", mode="wb", fileobj=raw, mtime=0)
                    opened = TextIOWrapper(packed, encoding="utf-8", newline="\n")
                    files[part] = stack.enter_context(opened)
                files[part].write(json.dumps(row, ensure_ascii=False) + "\n")

            for document in data:
                if document.metadata[_EVENTS]["events"]:
                    write("events", document.metadata[_EVENTS])
                for row in document.metadata[_CHAINS]:
                    write("chains", row)
                self.stat_update("documents")
                yield document


def _tell(step: PipelineStep, counts: ExtractionCounts) -> None:
    listed = counts.to_dict()
    for part in ("read", "skipped", "written"):
        for name, count in listed[part].items():
            step.stat_update(f"{part}: {name}", value=count)


UNFINISHED = "unfinished"
"""Folder of the files that a task has not completed."""


@contextmanager
def completed_file(folder: DataFolder, name: str) -> Iterator[IO[bytes]]:
    """Write a file in `unfinished/` and move it to its name at the end, unless an error is raised.

    Yields:
        The opened file.
    """
    folder.makedirs(UNFINISHED, exist_ok=True)
    # A worker whose executor was stopped may still write when its task is run again.
    own = f"{UNFINISHED}/{name}.{uuid4().hex}"
    with folder.open(own, "wb") as file:
        yield file
    try:
        folder.mv(own, name)
    except FileNotFoundError:
        # The other run of the task was faster: it wrote the same, and removed this file.
        if not folder.isfile(name):
            raise
    for other in folder.list_files(UNFINISHED, glob_pattern=f"{name}.*"):
        with suppress(FileNotFoundError):
            folder.rm(other)
