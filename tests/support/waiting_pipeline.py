"""A script with a datatrove pipeline of three tasks; task 1 waits once in the middle of its shard.

Arguments: `one` (the local executor with one worker), `local` or `ray` (with two), a folder with `texts`, the
output folder, a spaCy pipeline and a model. The process that waits writes its number to the file `waiting`.
If that file is there, no task waits.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from datatrove.data import Document
from datatrove.executor import LocalPipelineExecutor, RayPipelineExecutor
from datatrove.pipeline.readers import ParquetReader

from eventformers.distributed.steps import BLOCK_DOCUMENTS, CountCoEvents, DistinctIds, Embed
from eventformers.extraction.datatrove_block import ExtractEvents, WriteEvents

ENGINE, FOLDER, OUT, PARSER, ENCODER = sys.argv[1:]


def wait(data: Iterable[Document], rank: int, world_size: int, folder: str = FOLDER) -> Iterator[Document]:
    """Wait until the process is killed, when the step `Embed` has written a block and not all."""
    waiting = Path(folder, "waiting")
    for number, document in enumerate(data):
        if rank == 1 and number == BLOCK_DOCUMENTS and not waiting.exists():
            # With its content at once, for who polls it.
            waiting.with_suffix(".new").write_text(str(os.getpid()), encoding="utf-8")
            waiting.with_suffix(".new").rename(waiting)
            while True:
                signal.pause()
        yield document


if __name__ == "__main__":
    steps = [
        ParquetReader(f"{FOLDER}/texts"),
        DistinctIds(),
        ExtractEvents(PARSER, min_chain_length=3),
        WriteEvents(f"{OUT}/events"),
        wait,
        Embed(f"{OUT}/vectors", ENCODER, of="events"),
        CountCoEvents(f"{OUT}/co-occurrence"),
    ]
    if ENGINE == "ray":
        import ray

        ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100_000_000)
        RayPipelineExecutor(steps, tasks=3, workers=2, mem_per_cpu_gb=0.5, logging_dir=f"{OUT}/logs").run()
        ray.shutdown()
    else:
        LocalPipelineExecutor(
            steps,
            tasks=3,
            workers=1 if ENGINE == "one" else 2,
            logging_dir=f"{OUT}/logs",
            start_method="fork",  # A fork server would load all libraries again.
        ).run()
