"""Time, memory and recall of approximate search among millions of vectors that are mapped from disk.

    python benchmarks/large_index.py --number 10000000 --dimension 64

The vectors are drawn around random centres and written to a file. The script builds the approximate search of
`ground` and `complete`, measures its recall on other vectors, then replaces some of the vectors. Memory is
what the process allocates, without the mapped pages of the file.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import faiss
import numpy as np
import torch

from eventformers.inference.search.vector_search import RECALL_AT, ApproximateSearch, ExactSearch, shared

BLOCK = 100_000
PER_CENTRE = 1_000
"""Number of vectors around a centre."""


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    asked = parse_arguments(arguments)
    torch.set_num_threads(asked.threads)
    faiss.omp_set_num_threads(asked.threads)
    with tempfile.TemporaryDirectory(dir=asked.folder) as scratch:
        vectors = write_vectors(Path(scratch) / "vectors", asked.number, asked.dimension)
        queries = next(blocks(asked.queries, asked.number, asked.dimension, seed=1))
        print(f"{asked.number:,} vectors of size {asked.dimension}, {vectors.nbytes / 2**30:.1f} GiB mapped")
        with measured("build"):
            search = ApproximateSearch.build(vectors)
        print(f"{search.index.nlist:,} lists, {search.index.nprobe} of them searched")
        with measured(f"search of {asked.queries:,} vectors"):
            found = search.search(queries, RECALL_AT)
        with measured(f"exact search of {asked.exact:,} vectors"):
            exact = ExactSearch(vectors).search(queries[: asked.exact], RECALL_AT)
        print(f"recall@{RECALL_AT}: {shared(found.positions[: asked.exact], exact.positions):.3f}")
        number = asked.number // 100
        kept = np.arange(number, asked.number)
        changed = write_vectors(Path(scratch) / "changed", asked.number, asked.dimension, vectors[number:])
        with measured(f"{number:,} vectors removed and {number:,} added"):
            moved = search.moved(changed, np.concatenate([kept, np.full(number, -1)]))
        found = moved.search(queries[: asked.exact], RECALL_AT)
        exact = ExactSearch(changed).search(queries[: asked.exact], RECALL_AT)
        print(f"recall@{RECALL_AT} after it: {shared(found.positions, exact.positions):.3f}")


def blocks(number: int, total: int, dimension: int, seed: int) -> Iterator[np.ndarray]:
    """Draw unit vectors around centres, block by block."""
    centres = np.random.default_rng(0).normal(size=(max(1, total // PER_CENTRE), dimension))
    draw = np.random.default_rng([seed, 1])
    for start in range(0, number, BLOCK):
        size = min(BLOCK, number - start)
        block = (
            draw.normal(size=(size, dimension), scale=0.5) + centres[draw.integers(len(centres), size=size)]
        )
        yield (block / np.linalg.norm(block, axis=1, keepdims=True)).astype(np.float32)


def write_vectors(path: Path, number: int, dimension: int, first: np.ndarray | None = None) -> np.ndarray:
    """Write the given vectors, then new ones up to a number, to a file, and map it."""
    known = 0 if first is None else len(first)
    with path.open("wb") as file:
        for start in range(0, known, BLOCK):
            file.write(np.asarray(first)[start : start + BLOCK].tobytes())
        for block in blocks(number - known, number, dimension, seed=2 + (known > 0)):
            file.write(block.tobytes())
    return np.memmap(path, dtype=np.float32, mode="r", shape=(number, dimension))


@contextmanager
def measured(what: str) -> Iterator[None]:
    """Print the processor time of a block, and the most memory that the process allocates in it."""
    ended = threading.Event()
    most = [0]

    def watch() -> None:
        while True:
            lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
            most[0] = max(most[0], *(int(line.split()[1]) for line in lines if line.startswith("RssAnon")))
            if ended.wait(0.05):
                return

    watcher = threading.Thread(target=watch)
    started = time.process_time()
    watcher.start()
    try:
        yield
    finally:
        seconds = time.process_time() - started
        ended.set()
        watcher.join()
        print(f"{what}: {seconds:.2f} s of processor time, at most {most[0] / 2**10:,.0f} MiB", flush=True)


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--number", type=int, default=1_000_000)
    parser.add_argument("--dimension", type=int, default=64)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--exact", type=int, default=100, help="queries that are also searched exactly")
    parser.add_argument("--folder", type=Path, help="folder for the vectors; default: a temporary one")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
