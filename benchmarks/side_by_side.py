"""What the benchmarks share: their options, the machine, and sides that run in turn."""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

CLOCKS = ("time", "processor time")
"""What is measured in seconds, in the order of `Cost`."""

_OPTIONS: dict[str, dict[str, Any]] = {
    "encoder": {"help": "folder or Hub id; default: the packaged all-MiniLM-L6-v2"},
    "device": {"default": "cuda" if torch.cuda.is_available() else "cpu"},
    "rounds": {"type": int, "help": "rounds in which each side runs once"},
    "warm_up": {"type": int, "help": "runs of each side before the clock starts"},
    "threads": {"type": int, "default": torch.get_num_threads()},
    "seed": {"type": int, "default": 0},
}


class Cost(NamedTuple):
    """What a run takes.

    Attributes:
        wall: seconds until the device has finished.
        processor: seconds of processor time.
        mebibytes: the most memory of the device that it holds beside what it finds; 0 on a CPU.
    """

    wall: float
    processor: float
    mebibytes: float = 0.0


Costs = dict[str, list[Cost]]
"""What each run of a side took, by side."""


def make_parser(description: str | None, *names: str, **defaults: int) -> argparse.ArgumentParser:
    """Make a parser with some of the options that several benchmarks have.

    Args:
        description: the documentation of the script.
        names: options with their usual default.
        defaults: options with a default of their own.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in (*names, *defaults):
        own = {"default": defaults[name]} if name in defaults else {}
        parser.add_argument(f"--{name.replace('_', '-')}", **{**_OPTIONS[name], **own})
    return parser


def machine(device: torch.device | None = None) -> str:
    """Describe the machine."""
    if device is not None and device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}"
    processor = platform.processor() or platform.machine()
    threads = torch.get_num_threads()
    return f"{processor}, {os.cpu_count()} cores, {threads} threads, torch {torch.__version__}"


def timed(run: Callable[[], Any], device: torch.device | None = None) -> tuple[Any, Cost]:
    """Run until the device has finished; return the result and what it took."""
    on_cuda = device is not None and device.type == "cuda"
    before = 0
    if on_cuda:
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
    wall, processor = time.perf_counter(), time.process_time()
    found = run()
    if on_cuda:
        torch.cuda.synchronize(device)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    held = torch.cuda.max_memory_allocated(device) - before if on_cuda else 0
    return found, Cost(wall, processor, held / 2**20)


def take_turns(
    sides: Mapping[str, Callable[[], Any]],
    rounds: int,
    *,
    scales: Mapping[str, float] | None = None,
    warm_up: int = 0,
    device: torch.device | None = None,
) -> tuple[Costs, dict[str, Any]]:
    """Run all sides in turn, so that other load on the machine affects all.

    Args:
        sides: what is timed, by name.
        rounds: number of timed runs of each side.
        scales: factor of a side's time, for example of one that does a share of the work; by default 1.
        warm_up: runs of each side before the clock starts.
        device: where they run.

    Returns:
        What the runs took, and the last result of each side.
    """
    costs: Costs = {name: [] for name in sides}
    found: dict[str, Any] = {}
    for turn in range(warm_up + rounds):
        # Who goes first changes, so that no side always finds the caches warm.
        for name in list(sides)[:: -1 if turn % 2 else 1]:
            found[name], cost = timed(sides[name], device)
            if turn >= warm_up:
                scale = (scales or {}).get(name, 1.0)
                costs[name].append(Cost(cost.wall * scale, cost.processor * scale, cost.mebibytes))
    return costs, found


def compare(
    sides: Mapping[str, Callable[[], Any]], reference: str, rounds: int, scale: float = 1.0
) -> dict[str, Any]:
    """Run all sides in turn; print their seconds, and the ratios of the others to the reference.

    Args:
        sides: what is timed, by name.
        reference: the side to compare with.
        rounds: number of runs of each side.
        scale: factor of the times of the other sides, which may do a share of the work.

    Returns:
        The last result of each side.
    """
    others = [name for name in sides if name != reference]
    costs, found = take_turns(sides, rounds, scales=dict.fromkeys(others, scale))
    print_seconds(costs)
    for name in others:
        print_ratios(costs, name, reference)
    return found


def print_seconds(costs: Costs, of: str = "") -> None:
    """Print the median seconds of each side; `of` follows the unit, as in ` a step`."""
    width = max(map(len, costs)) + 2
    for name, rounds in costs.items():
        wall, processor, mebibytes = (statistics.median(column) for column in zip(*rounds, strict=True))
        held = f"{mebibytes:10,.0f} MiB at most beside the weights" if mebibytes else ""
        print(f"  {name:{width}}{wall:11.3f} s{of}{processor:11.3f} s of processor{held}")


def print_ratios(costs: Costs, side: str, reference: str) -> None:
    """Print how many times as long as the reference a side takes, by round, for both clocks."""
    for clock, kind in enumerate(CLOCKS):
        ratios = ratios_of(costs, side, reference, clock)
        each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"  {kind} of {side} / {reference}: median {statistics.median(ratios):.2f} ({each})")


def ratios_of(costs: Costs, side: str, reference: str, clock: int) -> list[float]:
    """Return the ratio of the times of two sides in each round; `clock` is a place in `CLOCKS`."""
    return [own[clock] / other[clock] for own, other in zip(costs[side], costs[reference], strict=True)]


def peak_bytes() -> int:
    """Return the most main memory that this process has held."""
    # Linux counts in kB, macOS in bytes.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def unit(vectors: np.ndarray) -> np.ndarray:
    """Scale vectors to length 1."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
