"""Time and memory of everything that a user runs, on synthetic data of the paper's size.

    python benchmarks/paper_size.py swcc --scale 0.01 --scale 0.1

The script writes raw files in the owners' formats (`paper_data.py`), then runs each step in a process of its
own: `data build`; training until a checkpoint, which a kill ends; `--resume` until 50 steps; `evaluate`;
`embed`; and the search, with its index. It prints wall time, processor time and peak memory of each step (in
parentheses without memory-mapped files), and with several scales the exponent of their growth, where 1 is
linear. The encoder is random; `--encoder minilm` has the shape of all-MiniLM-L6-v2, for the memory of
activations.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from paper_data import HELD_OUT_CHAINS, SIZES, write_encoder, write_raw

from eventformers.markdown import table

STEPS = 50
KILLED_AT = 25
FIRST_STEP = "training: "
"""The beginning of the line that training prints before its first step."""
SHAPES = {"tiny": (32, 2), "minilm": (384, 6)}
_POLL_SECONDS = 0.05


class Plan(NamedTuple):
    """The commands of a method, whose places in braces are folders of the run.

    Attributes:
        dataset: the dataset builder.
        configs: its configs to build.
        build: further arguments of `data build`.
        evaluate: the task, and its data.
        train: further arguments of `train`.
        embed: the file to embed; empty for none.
        search: the command that builds and searches an index; empty for none.
    """

    dataset: str
    configs: tuple[str, ...]
    evaluate: str
    build: str = ""
    train: str = ""
    embed: str = ""
    search: str = ""


PLANS = {
    "swcc": Plan(
        "event_chains",
        ("cooccurrence",),
        "hard_similarity --task hard_similarity_extended --task transitive_similarity "
        "--data {root}/similarity",
        embed="{root}/embed.jsonl",
    ),
    "heterevent": Plan(
        "event_chains",
        ("documents", "chains", "mcnc", "multistep"),
        "mcnc --task mcns_v --data {built}",
        build=f"--set validation_share={HELD_OUT_CHAINS} --set test_share={HELD_OUT_CHAINS}",
        train="--set stages=[sequence]",
        embed="{root}/embed.jsonl",
        search="next-event {run} 'ba | be | bi' --corpus {built} --index {root}/index",
    ),
    "mico": Plan(
        "commonsense_graphs",
        ("atomic_inductive", "atomic_inductive_pairs"),
        "atomic_completion --data {built}",
        train="--set config=atomic_inductive_pairs",
        embed="{root}/embed.txt",
        search="complete {run} 'John bababa, xWant' --data {built} --config atomic_inductive "
        "--index {root}/index",
    ),
    "event_type_induction": Plan(
        "event_types",
        ("mentions",),
        "type_induction --data {built}",
        search="induce {built} --model {run} -o {root}/types",
    ),
    "event_grounding": Plan(
        "event_hierarchies",
        ("mentions", "events", "hierarchy"),
        "event_retrieval --data {built}",
        train="--set stages=[linking]",
        search="ground {built} --knowledge-base {built} --model {run} --index {root}/index -o {root}/links",
    ),
}


class Measured(NamedTuple):
    """A measured step.

    Attributes:
        step: its name.
        wall: seconds on the clock.
        processor: seconds of processor time.
        peak: largest resident memory in gigabytes, with the pages of memory-mapped files, which the system
            takes back when it needs them; read every 50 ms.
        own: the same without them, sampled every 50 ms.
    """

    step: str
    wall: float
    processor: float
    peak: float
    own: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parse_arguments(arguments)
    found: dict[float, list[Measured]] = {}
    for scale in sorted(options.scale or [0.01]):
        with tempfile.TemporaryDirectory(prefix="paper-size-", dir=options.folder) as folder:
            found[scale] = []
            for one in measure(options.method, Path(folder), scale, options):
                told = f"{one.processor:.1f} s, {one.peak:.2f} GB, without mapped files {one.own:.2f} GB"
                print(f"  {one.step}: {told}", file=sys.stderr)
                found[scale].append(one)
    print(report(options.method, found, options.encoder))


def measure(method: str, folder: Path, scale: float, options: argparse.Namespace) -> Iterator[Measured]:
    """Write the raw files of a scale and run every step on them."""
    plan = PLANS[method]
    number = write_raw(method, folder, scale)
    print(f"{method}, scale {scale:g}: {number:,} {SIZES[method][0]}", file=sys.stderr)
    hidden_size, layers = SHAPES[options.encoder]
    encoder = write_encoder(folder / "encoder", hidden_size=hidden_size, layers=layers)
    run = Runner(folder, options)
    build = f"data build {plan.dataset} --data-dir {{root}}/raw {plan.build} -o {{built}}"
    for config in plan.configs:
        yield from run(f"build {config}", f"{build} --config {config}")
    train = (
        f"train {method} --data {{built}} --evaluation-data samples --encoder {encoder} --seed 1 "
        f"--set max_steps={STEPS} --set save_strategy=steps --set save_steps={KILLED_AT} "
        f"--set logging_steps={KILLED_AT + 1} {plan.train} -o {{run}}"
    )
    yield from run("train", train, until=f"step {KILLED_AT + 1} of")
    yield from run("resume", f"{train} --resume")
    yield from run("evaluate", f"evaluate {{run}} -o {{root}}/scores --task {plan.evaluate}")
    if plan.embed:
        yield from run("embed", f"embed {{run}} {plan.embed} -o {{root}}/vectors.parquet")
    if plan.search:
        yield from run(plan.search.split()[0], plan.search)


class Runner:
    """A runner of commands, each in a process of its own."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self._log = folder / "log.txt"
        self._places = {"root": folder, "built": folder / "built", "run": folder / "run"}
        self._environment = os.environ | {
            "HF_HOME": str(folder / "cache"),
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": str(options.threads),
        }

    def __call__(self, step: str, words: str, *, until: str | None = None) -> Iterator[Measured]:
        """Run a command; yield the time until its first training step, if it trains, and the whole.

        Args:
            step: name of the step.
            words: the arguments of `eventformers`, as in a shell.
            until: text in its output that ends the process by a kill; None waits for its end.
        """
        arguments = (word.format(**self._places) for word in shlex.split(words))
        command = [sys.executable, "-m", "eventformers.cli", *arguments]
        started, first, own, peak = time.perf_counter(), False, 0.0, 0.0
        with self._log.open("w", encoding="utf-8") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=self._environment)
        while True:
            ended, status, used = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            own = max(own, memory_of(process.pid, "RssAnon"))
            # The system's own count, ru_maxrss, includes the memory of the process that started this one.
            peak = max(peak, memory_of(process.pid, "VmHWM"))
            printed = self._log.read_text(encoding="utf-8", errors="replace")
            if not first and FIRST_STEP in printed:
                first = True
                wall, processor = time.perf_counter() - started, processor_seconds_of(process.pid)
                yield Measured(f"{step}, to the first step", wall, processor, peak, own)
            if until is not None and until in printed:
                process.kill()
                until = None
            time.sleep(_POLL_SECONDS)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in (0, -9):
            raise RuntimeError(f"{' '.join(command)}\n{self._log.read_text(encoding='utf-8')[-3000:]}")
        wall, processor = time.perf_counter() - started, used.ru_utime + used.ru_stime
        yield Measured(step, wall, processor, peak, own)


def processor_seconds_of(pid: int) -> float:
    """Return the processor time of a running process, on Linux."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int, kind: str) -> float:
    """Return a line of a process's memory on Linux, in gigabytes; 0 for a process that has ended."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    amount = status.partition(f"{kind}:")[2].split()
    return int(amount[0]) * 1024 / 1e9 if amount else 0.0


def report(method: str, found: dict[float, list[Measured]], encoder: str) -> str:
    """Format the steps as a Markdown table, with the exponents of growth between the two largest scales."""
    scales = list(found)
    header = ["step"]
    for scale in scales:
        header += [f"{scale:g}: wall s", "processor s", "peak GB"]
    header += ["growth"] if len(scales) > 1 else []
    rows = []
    for of_step in zip(*found.values(), strict=True):
        cells = [of_step[0].step]
        for one in of_step:
            cells += [f"{one.wall:.1f}", f"{one.processor:.1f}", f"{one.peak:.2f} ({one.own:.2f})"]
        if len(scales) > 1:
            before, last = (one.processor for one in of_step[-2:])
            cells.append(f"{math.log(last / before) / math.log(scales[-1] / scales[-2]):.2f}")
        rows.append(cells)
    title = (
        f"{method}: {SIZES[method][1]:,} {SIZES[method][0]} at scale 1; encoder {encoder}, random weights; "
    )
    title += f"{platform.machine()}, {os.cpu_count()} processor cores"
    return f"{title}\n\n{table(header, rows)}\n"


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("method", choices=SIZES)
    parser.add_argument("--scale", type=float, action="append", help="share of the paper's size; repeatable")
    parser.add_argument("--encoder", choices=SHAPES, default="tiny", help="shape of the random encoder")
    parser.add_argument("--folder", type=Path, help="folder for all files; default: the system's")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
