"""Steps that compute vectors, event types, links and co-occurrence, one Parquet file for each shard."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from datatrove.data import Document
from datatrove.io import DataFolder, DataFolderLike, get_datafolder
from datatrove.pipeline.base import PipelineStep

from eventformers.datasets_scripts.cooccurrence import CooccurrenceCounter
from eventformers.datasets_scripts.events import (
    DOCUMENT_SCHEMA,
    EVENT_SCHEMA,
    LINK_SCHEMA,
    check_factuality,
    is_counted,
    schema_of,
)
from eventformers.datasets_scripts.reading.fields import is_blank
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.extraction.datatrove_block import EVENT_ROWS, completed_file
from eventformers.extraction.texts import DistinctIdentifiers, TextDocument
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.encoding.event_tables import read_table_events
from eventformers.inference.encoding.mention_files import load_mentions
from eventformers.inference.grounding.ground import ground
from eventformers.inference.grounding.knowledge_base import KnowledgeBase, load_knowledge_base
from eventformers.inference.induction.report import MENTIONS_FILE, FittedTypes, load_fitted_types
from eventformers.inference.search.candidate_index import SearchKind
from eventformers.strict import several

BLOCK_DOCUMENTS = 256
"""Number of documents that a step computes and writes at a time; it bounds the memory."""

Compute = Callable[[list[Document]], pa.Table]


class DistinctIds(PipelineStep):
    """Makes the ids of documents distinct over all shards, and drops repeated documents.

    An id gets the number of its shard, and if it repeats within the shard a number of its own. A document
    with the id and the text of an earlier one of its shard is dropped and counted.
    """

    name = "events: distinct ids"
    type = "FORMATTER"

    def run(self, data: Iterable[Document], rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Yield the documents with their new ids."""
        identifiers = DistinctIdentifiers()
        for document in data:
            identifier = identifiers.of(TextDocument(str(document.id), document.text, "", ""))
            if identifier is None:
                self.stat_update("skipped: repeated_document")
                continue
            document.id = f"{rank:05d}/{identifier}"
            yield document


class ShardStep(PipelineStep):
    """Base of steps that write `RANK.parquet` with rows computed from blocks of documents.

    A file gets its name when it is complete; one without rows is not written.

    Args:
        output_folder: a folder, or any location that datatrove can write to.
    """

    type = "WRITER"

    def __init__(self, output_folder: DataFolderLike) -> None:
        super().__init__()
        self.output_folder: DataFolder = get_datafolder(output_folder)

    @abstractmethod
    def prepare(self) -> Compute:
        """Load what a task needs, and return the function from a block of documents to rows."""

    def run(self, data: Iterable[Document], rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Yield the documents unchanged."""
        # Loaded in the task, because steps are copied and sent to processes before they run.
        compute = self.prepare()
        with shard_file(self.output_folder, f"{rank:05d}.parquet") as write:
            documents = iter(data)
            while block := list(islice(documents, BLOCK_DOCUMENTS)):
                rows = compute(block)
                write(rows)
                self.stat_update("rows", value=rows.num_rows)
                yield from block


@contextmanager
def shard_file(folder: DataFolder, name: str) -> Iterator[Callable[[pa.Table], None]]:
    """Write a Parquet file that gets its name at the end, if it has rows.

    Yields:
        The function that writes rows.
    """
    opened: list[pq.ParquetWriter] = []
    with ExitStack() as stack:

        def write(rows: pa.Table) -> None:
            if not rows.num_rows:
                return
            if not opened:
                file = stack.enter_context(completed_file(folder, name))
                opened.append(stack.enter_context(pq.ParquetWriter(file, rows.schema)))
            opened[0].write_table(rows)

        yield write


@lru_cache(maxsize=4)
def encoder_of(model: str | None, device: str | None, dtype: str | None) -> EventEncoder:
    """Load an encoder once for all tasks of a process."""
    return load_encoder(model, device=device, dtype=dtype)


EMBEDDED = ("texts", "events")
_ROLES = ("subject", "predicate", "object")

TYPES_SCHEMA = schema_of("shard_types")
PAIRS_SCHEMA = schema_of("shard_pairs")
"""An event, a co-event and the number of documents of the shard that they share."""
OCCURRENCES_SCHEMA = schema_of("shard_events")


class Embed(ShardStep):
    """Writes vectors of documents, or of the events that `ExtractEvents` found: `id, text, embedding`.

    Args:
        output_folder: a folder, or any location that datatrove can write to.
        model: folder or Hub id of a model, which every task must be able to read; None takes the packaged
            all-MiniLM-L6-v2.
        of: `texts` or `events`.
        normalize: scale vectors to length 1.
        device: a torch device; None uses an accelerator if there is one.
        dtype: `float32`, `bfloat16` or `float16`; None uses that of the saved weights.

    Raises:
        UnknownNameError: `of` is neither.
    """

    name = "events: vectors"

    def __init__(
        self,
        output_folder: DataFolderLike,
        model: str | None = None,
        of: Literal["texts", "events"] = "texts",
        normalize: bool = False,
        device: str | None = None,
        dtype: str | None = None,
    ) -> None:
        super().__init__(output_folder)
        if of not in EMBEDDED:
            raise UnknownNameError("kind of vectors", of, EMBEDDED)
        self.model, self.of, self.normalize = model, of, normalize
        self.device, self.dtype = device, dtype

    def prepare(self) -> Compute:
        """See `ShardStep`."""
        encoder = encoder_of(self.model, self.device, self.dtype)

        def compute(documents: list[Document]) -> pa.Table:
            if self.of == "texts":
                found = [(document.id, document.text) for document in documents]
            else:
                found = [(row["event_id"], row["text"]) for one in documents for row in _rows(one)]
            rows = [row for row in found if not is_blank(row[1])]
            if self.of == "texts" and len(rows) < len(documents):
                self.stat_update("skipped: document_without_text", value=len(documents) - len(rows))
            ids, texts = [identifier for identifier, _ in rows], [text for _, text in rows]
            vectors = encoder.encode(texts, normalize=self.normalize).astype(np.float32)
            flat = pa.array(vectors.reshape(-1))
            embedding = pa.FixedSizeListArray.from_arrays(flat, encoder.dimension)
            return pa.table(
                [pa.array(ids, pa.string()), pa.array(texts, pa.string()), embedding],
                names=["id", "text", "embedding"],
            )

        return compute


class AssignTypes(ShardStep):
    """Writes the type of each event that `ExtractEvents` found: `event_id, type_id, name, cosine`.

    Args:
        output_folder: a folder, or any location that datatrove can write to.
        induction: folder that `eventformers induce` wrote, which every task must be able to read.
        device: a torch device; None uses an accelerator if there is one.
        dtype: `float32`, `bfloat16` or `float16`; None uses that of the saved weights.
    """

    name = "events: types"

    def __init__(
        self,
        output_folder: DataFolderLike,
        induction: str | Path,
        model: str | None = None,
        device: str | None = None,
        dtype: str | None = None,
    ) -> None:
        super().__init__(output_folder)
        self.induction, self.model = str(induction), model
        self.device, self.dtype = device, dtype

    def prepare(self) -> Compute:
        """See `ShardStep`."""
        file = Path(self.induction).expanduser() / MENTIONS_FILE
        written = file.stat().st_mtime_ns if file.is_file() else None
        fitted = _types_of(self.induction, written, self.model, self.device, self.dtype)

        def compute(documents: list[Document]) -> pa.Table:
            tables = _tables(documents)
            if not tables["events"].num_rows:
                return TYPES_SCHEMA.empty_table()
            mentions, _ = load_mentions(tables)
            types, cosines = fitted.assign(mentions)
            ids = [mention["mention_id"] for mention in mentions]
            names = [fitted.names[number] for number in types]
            return pa.table([ids, types, names, cosines], schema=TYPES_SCHEMA)

        return compute


class LinkEvents(ShardStep):
    """Writes links of the events that `ExtractEvents` found, as `ground` finds them.

    The columns are `event_id, rank, knowledge_base_id, title, score, linked, ancestors`; an event without a
    linked row is NULL.

    Args:
        output_folder: a folder, or any location that datatrove can write to.
        knowledge_base: see `load_knowledge_base`; every task must be able to read it.
        index: folder of the index of its vectors, which all tasks share; the first task builds it.
        model: a bi-encoder of event grounding or any plain encoder.
        threshold: see `ground`.
        language: language of the texts; None uses the knowledge base's, if it has only one.
        search: see `ground`.
        device: a torch device; None uses an accelerator if there is one.
        dtype: `float32`, `bfloat16` or `float16`; None uses that of the saved weights.
    """

    name = "events: links"

    def __init__(
        self,
        output_folder: DataFolderLike,
        knowledge_base: str | Path,
        index: str | Path,
        model: str | None = None,
        candidates: int = 3,
        threshold: float | None = None,
        language: str | None = None,
        search: SearchKind = "auto",
        device: str | None = None,
        dtype: str | None = None,
    ) -> None:
        super().__init__(output_folder)
        self.knowledge_base, self.index, self.model = str(knowledge_base), str(index), model
        self.settings: dict[str, Any] = {
            "candidates": candidates,
            "threshold": threshold,
            "language": language,
            "search": search,
        }
        self.device, self.dtype = device, dtype

    def prepare(self) -> Compute:
        """See `ShardStep`."""
        encoder = encoder_of(self.model, self.device, self.dtype)
        places = [Path(part).expanduser() for part in self.knowledge_base.split(os.pathsep)]
        files = [file for place in places for file in (place.rglob("*") if place.is_dir() else [place])]
        # The times at which they were written; none for a Hub id.
        written = tuple((str(file), file.stat().st_mtime_ns) for file in sorted(files) if file.is_file())
        known = _knowledge_of(self.knowledge_base, written)

        def compute(documents: list[Document]) -> pa.Table:
            tables = _tables(documents)
            if not tables["events"].num_rows:
                return LINK_SCHEMA.empty_table()
            found = ground(encoder, tables, known, index=self.index, **self.settings)
            rows = []
            for mention in found.mentions:
                above: dict[str, list[str]] = {}
                for ancestor in mention.ancestors:
                    for event_id in ancestor.of:
                        above.setdefault(event_id, []).append(ancestor.title)
                rows += [
                    {
                        "event_id": mention.mention.mention_id,
                        "rank": rank,
                        "knowledge_base_id": candidate.event_id,
                        "title": candidate.title,
                        "score": candidate.score,
                        "linked": candidate.linked,
                        "ancestors": above.get(candidate.event_id, []),
                    }
                    for rank, candidate in enumerate(mention.candidates, start=1)
                ]
            return pa.Table.from_pylist(rows, schema=LINK_SCHEMA)

        return compute


class CountCoEvents(PipelineStep):
    """Counts the events of each document that occur near each other, for `merge_counts`.

    Writes `RANK.pairs.parquet` with the pairs of the shard and `RANK.events.parquet` with its events, and
    their frequencies. Counting is out of core, as in the dataset `event_chains`, config `cooccurrence`.

    Args:
        output_folder: a folder, or any location that datatrove can write to.
        window: maximum distance of two events, in events of their document; None uses whole documents.
        memory_limit: memory that DuckDB may use in a task before it spills to disk.
        factuality: kinds of factuality to count; none, or `all`, are all.

    Raises:
        UnknownNameError: a kind of factuality is unknown.
    """

    name = "events: co-occurrence"
    type = "WRITER"

    def __init__(
        self,
        output_folder: DataFolderLike,
        window: int | None = 100,
        memory_limit: str = "2GB",
        factuality: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.factuality = check_factuality(several(factuality))
        self.output_folder = get_datafolder(output_folder)
        self.window, self.memory_limit = window, memory_limit

    def run(self, data: Iterable[Document], rank: int = 0, world_size: int = 1) -> Iterator[Document]:
        """Yield the documents unchanged."""
        occurrences: Counter[tuple[str, ...]] = Counter()
        # Rare events and pairs can only be recognised in the merged counts.
        options: dict[str, Any] = {"window": self.window, "max_co_events": None, "threads": 1}
        with closing(CooccurrenceCounter(memory_limit=self.memory_limit, **options)) as counter:
            for document in data:
                table = pa.Table.from_pylist(_rows(document), schema=EVENT_SCHEMA)
                table = table.filter(is_counted(table["factuality"], self.factuality))
                events = list(read_table_events({"events": table}))
                counter.add(events)
                occurrences.update(
                    (event["subject"], event["predicate"], event["object"]) for event in events
                )
                yield document
            with shard_file(self.output_folder, f"{rank:05d}.pairs.parquet") as write:
                for table in counter.tables():
                    lists = table["co_events"].combine_chunks()
                    anchors = table["event"].combine_chunks().take(lists.value_parent_indices())
                    columns = [part.field(role) for part in (anchors, lists.flatten()) for role in _ROLES]
                    columns.append(table["frequencies"].combine_chunks().flatten())
                    write(pa.table(columns, names=PAIRS_SCHEMA.names).cast(PAIRS_SCHEMA))
        with shard_file(self.output_folder, f"{rank:05d}.events.parquet") as write:
            rows = sorted(occurrences.items())
            roles = [*zip(*(event for event, _ in rows), strict=True)] or [(), (), ()]
            write(pa.table([*map(list, roles), [count for _, count in rows]], schema=OCCURRENCES_SCHEMA))
        self.stat_update("events", value=occurrences.total())


@lru_cache(maxsize=2)
def _types_of(
    induction: str, written: int | None, model: str | None, device: str | None, dtype: str | None
) -> FittedTypes:
    """Encode the mentions of an induction once for all tasks of a process; `written` is its file's time."""
    return load_fitted_types(induction, encoder_of(model, device, dtype))


@lru_cache(maxsize=2)
def _knowledge_of(source: str, written: tuple[tuple[str, int], ...]) -> KnowledgeBase:
    """Read a knowledge base once for all tasks of a process; `written` tells whether its files changed."""
    return load_knowledge_base(source)


def _rows(document: Document) -> list[dict[str, Any]]:
    if EVENT_ROWS not in document.metadata:
        raise EventformersError(
            f"document {document.id} has no {EVENT_ROWS}; accepted: the step ExtractEvents before this one"
        )
    rows: list[dict[str, Any]] = document.metadata[EVENT_ROWS]
    return rows


def _tables(documents: list[Document]) -> dict[str, pa.Table]:
    """The tables of documents and events that `induce` and `ground` read."""
    texts = [
        {
            **{name: str(document.metadata.get(name) or "") for name in DOCUMENT_SCHEMA.names},
            "document_id": document.id,
            "text": document.text,
        }
        for document in documents
    ]
    events = [row for document in documents for row in _rows(document)]
    return {
        "documents": pa.Table.from_pylist(texts, schema=DOCUMENT_SCHEMA),
        "events": pa.Table.from_pylist(events, schema=EVENT_SCHEMA),
    }
