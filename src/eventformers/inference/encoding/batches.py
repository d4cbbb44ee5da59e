"""Batches of texts: which texts, in which threads, and the forward pass of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from eventformers.errors import EventformersError
from eventformers.inference.encoding.arrays import Positions, Vectors


def equal_length_batches(
    lengths: Sequence[int],
    *,
    max_tokens: int | None = None,
    max_rows: int | None = None,
    fill_tokens: int = 0,
) -> list[Positions]:
    """Split texts into batches of equal length in tokens, so that nothing is padded.

    Args:
        lengths: number of tokens of each text.
        max_tokens: maximum number of tokens in a batch; a single longer text still makes a batch.
        max_rows: maximum number of texts in a batch.
        fill_tokens: a batch of fewer tokens, padding included, also takes shorter texts.

    Returns:
        The positions of the texts in each batch; the longest first, so that no worker starts a long batch
        when the others are done.
    """
    counts = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-counts, kind="stable")
    ordered = -counts[order]
    batches: list[Positions] = []
    start = 0
    while start < len(order):
        longest = max(1, -int(ordered[start]))
        rows = int(np.searchsorted(ordered, ordered[start], side="right")) - start
        rows = max(rows, fill_tokens // longest)
        if max_rows is not None:
            rows = min(rows, max_rows)
        if max_tokens is not None:
            rows = min(rows, max(1, max_tokens // longest))
        batches.append(order[start : start + rows])
        start += rows
    return batches


class BatchWorkers:
    """A pool of single-threaded workers that apply a function to batches in parallel.

    Threads that share one matrix product wait for each other at every layer; threads with a batch each do
    not.
    """

    def __init__(self, number: int) -> None:
        self.number, self._threads = number, torch.get_num_threads()
        self._pool = ThreadPoolExecutor(number, initializer=torch.set_num_threads, initargs=(1,))

    def __enter__(self) -> BatchWorkers:
        return self

    def __exit__(self, *exception: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        # The setting of a worker also becomes the default of later threads.
        torch.set_num_threads(self._threads)

    def run(self, function: Callable[[Positions], None], batches: Sequence[Positions]) -> None:
        """Apply the function to every batch; with fewer batches than workers, each in turn uses all
        threads."""
        if self.number == 1 or len(batches) < self.number:
            for batch in batches:
                function(batch)
        else:
            for _ in self._pool.map(function, batches):
                pass


def forward_batch(model: nn.Module, arguments: dict[str, Any]) -> Vectors:
    """Compute the vectors of a batch, `(batch, d)`, from the model's arguments."""
    return model(**arguments).embeddings.float().cpu().numpy()


@contextmanager
def out_of_memory_explained(device: torch.device, texts: int, tokens: int) -> Iterator[None]:
    """Turn an out-of-memory error into a one-line error that names the setting to lower."""
    try:
        yield
    except RuntimeError as error:
        if not _is_out_of_memory(error):
            raise
        raise EventformersError(
            f"out of memory on {device} with {texts:,} texts of {tokens} tokens; lower the batch size"
        ) from error


def _is_out_of_memory(error: RuntimeError) -> bool:
    # The allocator of main memory raises a plain RuntimeError.
    return isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)
