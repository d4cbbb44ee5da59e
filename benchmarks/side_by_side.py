"""What the benchmarks share: the machine, and sides that run in turn."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

CLOCKS = ("time", "processor time")
"""What is measured in seconds, in the order of `Cost`."""


class Cost(NamedTuple):
    """What a run takes.

    Attributes:
        wall: seconds until the device has finished.
        processor: seconds of processor time.
        mebibytes: the most memory of the device that it allocates; 0 on a CPU.
    """

    wall: float
    processor: float
    mebibytes: float = 0.0


Costs = dict[str, list[Cost]]
"""What each run of a side took, by side."""


def machine() -> str:
    """Describe the machine."""
    processor = platform.processor() or platform.machine()
    threads = torch.get_num_threads()
    return f"{processor}, {os.cpu_count()} cores, {threads} threads, torch {torch.__version__}"


def timed(run: Callable[[], Any], device: torch.device | None = None) -> Cost:
    """Run until the device has finished; return what it took."""
    on_cuda = device is not None and device.type == "cuda"
    before = 0
    if on_cuda:
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
    wall, processor = time.perf_counter(), time.process_time()
    run()
    if on_cuda:
        torch.cuda.synchronize(device)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    held = torch.cuda.max_memory_allocated(device) - before if on_cuda else 0
    return Cost(wall, processor, held / 2**20)


def take_turns(
    sides: Mapping[str, Callable[[], Any]],
    rounds: int,
    *,
    warm_up: int = 0,
    device: torch.device | None = None,
) -> Costs:
    """Run all sides in turn, so that other load on the machine affects all; return what the runs took.

    Args:
        sides: what is timed, by name.
        rounds: number of timed runs of each side.
        warm_up: runs of each side before the clock starts.
        device: where they run.
    """
    costs: Costs = {name: [] for name in sides}
    for turn in range(warm_up + rounds):
        # Who goes first changes, so that no side always finds the caches warm.
        for name in list(sides)[:: -1 if turn % 2 else 1]:
            cost = timed(sides[name], device)
            if turn >= warm_up:
                costs[name].append(cost)
    return costs


def ratios_of(costs: Costs, side: str, reference: str, clock: int) -> list[float]:
    """Return the ratio of the times of two sides in each round; `clock` is a place in `CLOCKS`."""
    return [own[clock] / other[clock] for own, other in zip(costs[side], costs[reference], strict=True)]
