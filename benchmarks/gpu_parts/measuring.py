"""What the parts of the GPU benchmark share: time, memory, and the machine."""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import side_by_side
import torch
from side_by_side import timed
from transformers import AutoConfig, AutoModel

from eventformers.loading.encoders import resolve_encoder

Row = dict[str, Any]
"""A row of a table: text and numbers by column."""
Side = Callable[[], object]


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


@dataclass(frozen=True)
class Taken:
    """What a side takes.

    Attributes:
        seconds: of one run, the median of the rounds.
        ratio: median over the rounds of the time of the reference divided by that of this side.
        mebibytes: the most memory of the device that a run holds beside what it finds; None on a CPU.
    """

    seconds: float
    ratio: float
    mebibytes: float | None


def take_turns(
    sides: Mapping[str, Side], device: torch.device, rounds: int, *, reference: str, warm_up: int = 1
) -> dict[str, Taken]:
    """Run the sides in turn and compare their times.

    Args:
        sides: what is timed, by name.
        device: where it runs.
        rounds: how often.
        reference: the side that the ratios refer to.
        warm_up: runs of each side before the clock starts.
    """
    costs = side_by_side.take_turns(sides, rounds, warm_up=warm_up, device=device)
    return {
        name: Taken(
            statistics.median(cost.wall for cost in taken),
            statistics.median(side_by_side.ratios_of(costs, reference, name, 0)),
            max(cost.mebibytes for cost in taken) if device.type == "cuda" else None,
        )
        for name, taken in costs.items()
    }


def matrix_product_rate(device: torch.device, *, small: bool) -> float:
    """Operations a second of a product of two large random bfloat16 matrices, the median of ten."""
    size = 1_024 if small else 8_192
    left, right = (torch.randn(size, size, device=device).to(torch.bfloat16) for _ in range(2))
    for _ in range(3):
        left @ right
    times = [timed(lambda: left @ right, device).wall for _ in range(10)]
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


def mebibytes_text(taken: Taken) -> str:
    """The memory of a side as text."""
    return "" if taken.mebibytes is None else f"{taken.mebibytes:,.0f}"
