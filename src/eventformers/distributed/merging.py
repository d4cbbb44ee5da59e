"""The merge of the co-occurrence counts of all shards."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from datatrove.data import Document
from datatrove.io import DataFolderLike, get_datafolder
from datatrove.pipeline.base import PipelineStep

from eventformers.errors import EventformersError
from eventformers.files import replaced_file

_EVENT = "{'subject': subject, 'predicate': predicate, 'object': object}"
_CO_EVENT = "{'subject': co_subject, 'predicate': co_predicate, 'object': co_object}"
_KEY = "subject, predicate, object"
_CO_KEY = "co_subject, co_predicate, co_object"


def merge_counts(
    shards: DataFolderLike,
    output: str | Path,
    *,
    min_event_frequency: int = 1,
    min_pair_frequency: int = 1,
    max_co_events: int | None = 64,
    memory_limit: str = "2GB",
) -> int:
    """Add up the counts that `CountCoEvents` wrote, by DuckDB in bounded memory.

    Args:
        output: the Parquet file to write, with the columns `event, co_events, frequencies` of the dataset
            `event_chains`, config `cooccurrence`.
        min_event_frequency: leave out events with fewer occurrences.
        min_pair_frequency: leave out pairs that share fewer documents.
        max_co_events: maximum number of co-events of an event, the most frequent first; a hash breaks ties,
            so that no spelling is favoured. None keeps all.
        memory_limit: memory that DuckDB may use before it spills to a folder beside `output`.

    Raises:
        EventformersError: the folder has no counts.
    """
    import duckdb

    folder = get_datafolder(shards)
    files = {kind: folder.list_files(glob_pattern=f"*.{kind}.parquet") for kind in ("pairs", "events")}
    if not files["pairs"]:
        raise EventformersError(
            f"{shards}: no counts of pairs; accepted: the folder that the step CountCoEvents wrote"
        )
    with (
        replaced_file(output) as temporary,
        # DuckDB spills to `.tmp` of the working folder by default, which two merges would share.
        tempfile.TemporaryDirectory(prefix="merged-", dir=temporary.parent) as spilled,
        duckdb.connect(config={"memory_limit": memory_limit, "temp_directory": spilled}) as database,
    ):
        if not folder.is_local():
            database.register_filesystem(folder.fs)
        for kind, names in files.items():
            paths = folder.resolve_paths(names)
            database.read_parquet(paths).create_view(kind)
        order = f"frequency DESC, md5(concat_ws(' ', {_KEY}, {_CO_KEY}))"
        ranked = f"QUALIFY row_number() OVER (PARTITION BY {_KEY} ORDER BY {order}) <= "
        limit = "" if max_co_events is None else f"{ranked}{int(max_co_events)}"
        database.execute(
            f"""COPY (
                WITH frequent AS (
                    SELECT {_KEY} FROM events GROUP BY ALL HAVING sum(frequency) >= {int(min_event_frequency)}
                ), counted AS (
                    SELECT {_KEY}, {_CO_KEY}, sum(frequency)::INTEGER AS frequency
                    FROM pairs
                    SEMI JOIN frequent USING ({_KEY})
                    SEMI JOIN frequent AS co ON (co_subject, co_predicate, co_object)
                        = (co.subject, co.predicate, co.object)
                    GROUP BY ALL HAVING sum(frequency) >= {int(min_pair_frequency)}
                ), chosen AS (SELECT * FROM counted {limit})
                SELECT {_EVENT} AS event,
                    list({_CO_EVENT} ORDER BY frequency DESC, {_CO_KEY}) AS co_events,
                    list(frequency ORDER BY frequency DESC, {_CO_KEY}) AS frequencies
                FROM chosen GROUP BY {_KEY} ORDER BY {_KEY}
            ) TO '{str(temporary).replace("'", "''")}' (FORMAT parquet)"""  # noqa: S608 - numbers and our names
        )
        [rows] = database.execute("SELECT count(*) FROM read_parquet(?)", [str(temporary)]).fetchone() or (0,)
    return int(rows)


class MergeCounts(PipelineStep):
    """Runs `merge_counts` as a job of its own, which an executor starts after the shards.

    Only the first task merges.

    Args:
        output: the Parquet file to write, on a disk that the job sees.
    """

    name = "events: merged co-occurrence"
    type = "WRITER"

    def __init__(self, shards: DataFolderLike, output: str | Path, **limits: Any) -> None:
        super().__init__()
        self.shards = get_datafolder(shards)
        # The job may start in another folder.
        self.output, self.limits = str(Path(output).absolute()), limits

    def run(
        self, data: Iterable[Document] | None = None, rank: int = 0, world_size: int = 1
    ) -> Iterator[Document]:
        """Yield the documents unchanged."""
        yield from data or ()
        if rank == 0:
            self.stat_update("rows", value=merge_counts(self.shards, self.output, **self.limits))
