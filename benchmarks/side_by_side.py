"""What the benchmarks share: sides that run in turn, the machine, and the parts of the GPU benchmark."""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import AutoConfig, AutoModel

from eventformers.loading.encoders import resolve_encoder

CLOCKS = ("time", "processor time")
"""What is measured in seconds."""
CPU = torch.device("cpu")

Row = dict[str, Any]
"""A row of a table: text and numbers by column."""
Side = Callable[[], object]


class Taken(NamedTuple):
    """What a side takes.

    Attributes:
        seconds: of one run, by each of `CLOCKS`, the medians of the rounds.
        ratios: time of the reference divided by that of this side in each round, by each of `CLOCKS`.
        mebibytes: the most memory of the device that a run allocates; empty on a CPU.
    """

    seconds: tuple[float, ...]
    ratios: tuple[list[float], ...]
    mebibytes: str


def timed(run: Side, device: torch.device) -> tuple[float, float, float]:
    """Run until the device has finished; return seconds by each of `CLOCKS`, and mebibytes of the device."""
    on_cuda = device.type == "cuda"
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
    return wall, processor, held / 2**20


def take_turns(
    sides: Mapping[str, Side], rounds: int, *, reference: str, warm_up: int = 1, device: torch.device = CPU
) -> dict[str, Taken]:
    """Run all sides in turn, so that other load on the machine affects all.

    Args:
        sides: what is timed, by name.
        rounds: number of timed runs of each side.
        reference: the side that the ratios refer to.
        warm_up: runs of each side before the clock starts.
        device: where they run.
    """
    costs: dict[str, list[tuple[float, float, float]]] = {name: [] for name in sides}
    for turn in range(warm_up + rounds):
        # Who goes first changes, so that no side always finds the caches warm.
        for name in list(sides)[:: -1 if turn % 2 else 1]:
            cost = timed(sides[name], device)
            if turn >= warm_up:
                costs[name].append(cost)
    return {
        name: Taken(
            tuple(statistics.median(cost[clock] for cost in own) for clock in range(len(CLOCKS))),
            tuple(
                [theirs[clock] / cost[clock] for theirs, cost in zip(costs[reference], own, strict=True)]
                for clock in range(len(CLOCKS))
            ),
            f"{max(cost[2] for cost in own):,.0f}" if device.type == "cuda" else "",
        )
        for name, own in costs.items()
    }


@dataclass
class Clock:
    """The time of a part.

    Args:
        seconds: how long the part may take.

    Attributes:
        left_out: what a measurement skipped for want of time.
    """

    seconds: float
    left_out: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    @property
    def left(self) -> float:
        """Seconds that are left; negative when the time is over."""
        return self.seconds - (time.perf_counter() - self.started)

    def is_over(self, name: str) -> bool:
        """Whether the time is over; then it records what is left out."""
        if self.left > 0:
            return False
        self.left_out.append(name)
        return True


@dataclass(frozen=True)
class Bench:
    """What every measurement is given.

    Attributes:
        device: where the models run.
        small: whether sizes only test the code.
        encoder: folder of the encoder, in float32.
        scratch: a folder for files.
        seed: seed of all draws.
        rounds: how often the sides take turns.
        peak: operations a second of a large matrix product in bfloat16.
    """

    device: torch.device
    small: bool
    encoder: str
    scratch: Path
    seed: int
    rounds: int
    peak: float


@dataclass(frozen=True)
class Part:
    """A part of the benchmark.

    Attributes:
        title: heading of its table.
        share: its share of the time.
        measurements: what it measures, by name.
        note: what the columns mean.
    """

    title: str
    share: float
    measurements: Mapping[str, Callable[[Bench, Clock], Sequence[Row]]]
    note: str = ""


def matrix_product_rate(device: torch.device, *, small: bool) -> float:
    """Operations a second of a product of two large random bfloat16 matrices, the median of ten."""
    size = 1_024 if small else 8_192
    left, right = (torch.randn(size, size, device=device).to(torch.bfloat16) for _ in range(2))
    for _ in range(3):
        left @ right
    times = [timed(lambda: left @ right, device)[0] for _ in range(10)]
    return float(2 * size**3 / statistics.median(times))


def float32_encoder(name: str | None, folder: Path) -> tuple[str, str]:
    """The encoder's folder and where its weights are from.

    Weights in half precision are written again in float32, and a folder without weights gets random ones.
    """
    source = resolve_encoder(name)
    has_weights = not Path(source).is_dir() or any(Path(source).glob("*.safetensors"))
    if has_weights:
        model = AutoModel.from_pretrained(source)
        if model.dtype == torch.float32:
            return source, "as published"
    else:
        model = AutoModel.from_config(AutoConfig.from_pretrained(source))
    shutil.copytree(source, folder)
    model.float().save_pretrained(folder)
    return str(folder), "rounded to half precision" if has_weights else "random"


def describe_machine(device: torch.device) -> dict[str, Any]:
    """The command, the machine, and the versions that decide on its speed."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "device": name,
        "cores": cores,
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
