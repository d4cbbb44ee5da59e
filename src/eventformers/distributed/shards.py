"""What the steps share: distinct ids, blocks of documents, and one Parquet file for each shard."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from eventformers.errors import EventformersError
from eventformers.extraction.shard_files import completed_file
from eventformers.extraction.texts import DistinctIdentifiers, TextDocument
from eventformers.inference.encode import EventEncoder, load_encoder

try:
    from datatrove.data import Document
    from datatrove.io import DataFolder, DataFolderLike, get_datafolder
    from datatrove.pipeline.base import PipelineStep
except ModuleNotFoundError as missing:
    raise EventformersError(
        "steps of a datatrove pipeline need datatrove; install it with"
        " `pip install 'eventformers[distributed]'`"
    ) from missing

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

    Args:
        folder: its folder.
        name: its name.

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
