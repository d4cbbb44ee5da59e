"""Threads that each compute a batch of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch

from eventformers.inference.encoding.arrays import Positions


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
