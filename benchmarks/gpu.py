"""Tests and measurements on one GPU, or on a processor, in one command and without network.

    python benchmarks/gpu.py --output gpu
    python benchmarks/gpu.py --output cpu --device cpu --parts encoding search --minutes 30
    python benchmarks/gpu.py --output gpu --device cpu --small

Runs the tests marked `cuda`, measures encoding, training steps and search beside the obvious alternatives,
and trains every method on the bundled samples. Each part has a share of `--minutes`: when it is over, the
part stops and the record lists what it left out. A measurement that fails is recorded with its reason, the
others go on, and the exit code is 1. `--small` runs the same code at sizes that test it,
with a random encoder unless `--encoder` names one: two minutes on two cores.

Writes `gpu.json` to the output folder after every part, and `gpu.md` with the tables of the notes on
performance.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import torch
from defusedxml.ElementTree import parse
from gpu_parts import encoding, search, steps
from paper_data import write_encoder
from side_by_side import Bench, Clock, Part, Row, describe_machine, float32_encoder, matrix_product_rate

from eventformers.evaluation.results import TaskResult
from eventformers.files import write_text
from eventformers.markdown import number
from eventformers.methods import all_methods
from eventformers.reference.tables import benchmark_tables
from eventformers.training import train


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts, write the record; 1 where a measurement or test failed."""
    options = parse_arguments(arguments)
    torch.manual_seed(options.seed)
    device = torch.device(options.device)
    output = options.output
    output.mkdir(parents=True, exist_ok=True)
    chosen = {name: PARTS[name] for name in options.parts}
    shares = sum(part.share for part in chosen.values())
    whole = Clock(60 * options.minutes)
    with tempfile.TemporaryDirectory(prefix="eventformers-gpu-") as scratch:
        folder = Path(scratch)
        name = options.encoder
        if name is None and options.small:
            name = str(write_encoder(folder / "small", hidden_size=32, layers=2))
        encoder, weights = float32_encoder(name, folder / "encoder")
        bench = Bench(
            device=device,
            small=options.small,
            encoder=encoder,
            scratch=folder,
            seed=options.seed,
            rounds=options.rounds,
            peak=matrix_product_rate(device, small=options.small),
        )
        record: dict[str, Any] = {
            **describe_machine(device),
            "settings": {name: vars(options)[name] for name in ("small", "minutes", "rounds", "seed")},
            "weights": "random" if name != options.encoder else weights,
            "peak_bf16_flops": bench.peak,
            "parts": [],
        }
        for name, part in chosen.items():
            print(f"\n=== {name}", flush=True)
            # What a part leaves of its time is for the next ones.
            record["parts"].append(run_part(part, bench, whole.left * part.share / shares))
            shares -= part.share
            write_text(output / "gpu.json", json.dumps(record, indent=2) + "\n")
            write_text(output / "gpu.md", benchmark_tables(record) + "\n")
    print("\n" + benchmark_tables(record))
    return int(any(part["failures"] for part in record["parts"]))


def run_part(part: Part, bench: Bench, seconds: float) -> dict[str, Any]:
    """Run the measurements of a part until its time is over."""
    clock = Clock(seconds)
    rows: list[dict[str, Any]] = []
    failures: list[str] = []
    left_out: list[str] = []
    for name, measure in part.measurements.items():
        if clock.left <= 0:
            left_out.append(name)
            continue
        started = time.perf_counter()
        try:
            rows += measure(bench, clock)
        except Exception as error:  # One failure must not cost the time on a GPU that the others need.
            traceback.print_exc()
            reason = (str(error).splitlines() or [""])[0]
            failures.append(f"{name}: {type(error).__name__}: {reason}")
        if bench.device.type == "cuda":
            torch.cuda.empty_cache()
        print(f"{name}: {time.perf_counter() - started:.1f} s", flush=True)
    return {
        "title": part.title,
        "note": part.note,
        "rows": rows,
        "failures": failures,
        "left_out": left_out + clock.left_out,
        "seconds": round(seconds - clock.left, 1),
    }


def run_tests(bench: Bench, clock: Clock) -> list[Row]:
    """Run them until the part's time is over.

    Raises:
        RuntimeError: a test failed, or there is no report.
    """
    report = bench.scratch / "tests.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-m", "cuda", "--tb=short", "-p", "no:cacheprovider"]
    if find_spec("xdist"):
        command.append(f"-n{min(6, os.cpu_count() or 1)}")  # They share the device.
    if bench.small:
        command += ["-k", "not training"]
    environment = {**os.environ, "EVENTFORMERS_TEST_DEVICE": bench.device.type}
    try:
        done = subprocess.run(
            [*command, f"--junitxml={report}", "tests/cuda"],
            cwd=Path(__file__).resolve().parents[1],
            env=environment,
            timeout=max(clock.left, 1),
            check=False,
        )
    except subprocess.TimeoutExpired:
        clock.left_out.append("tests that were not run when the time was over; their results are not known")
        return []
    if not report.is_file():
        raise RuntimeError(f"pytest ended with exit code {done.returncode} and wrote no report")
    suite = next(parse(report).getroot().iter("testsuite"))
    row = counts(suite)
    if done.returncode:
        failed = [case.get("name", "") for case in suite.iter("testcase") if case.find("failure") is not None]
        raise RuntimeError(f"exit code {done.returncode}, {row}: {', '.join(failed)[:400]}")
    return [row]


def counts(suite: Element) -> Row:
    """Numbers of tests and seconds of a JUnit report."""
    total, failed, errors, skipped = (
        int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")
    )
    return {
        "passed": total - failed - errors - skipped,
        "failed": failed + errors,
        "skipped": skipped,
        "seconds": round(float(suite.get("time", 0)), 1),
    }


def train_method(bench: Bench, clock: Clock, *, name: str) -> list[Row]:
    """Train, save, score beside the untrained encoder, and write the card."""
    on_cuda = bench.device.type == "cuda"
    if on_cuda:
        torch.cuda.reset_peak_memory_stats(bench.device)
    method = all_methods()[name]
    recipe = "demo" if method.recipes_of is None else method.default_recipe
    # A further model of a method reranks what the method's own model retrieves.
    retriever = (
        [] if method.recipes_of is None else [f"retriever={bench.scratch / f'run-{method.recipes_of}'}"]
    )
    started = time.perf_counter()
    finished = train(
        name,
        bench.scratch / f"run-{name}",
        recipe=recipe,
        encoder=bench.encoder,
        settings=[*(["max_steps=2"] if bench.small else []), *retriever],
        tasks=() if bench.small else None,
        device=str(bench.device),
        dtype="bfloat16",
    )
    taken = time.perf_counter() - started
    steps = sum(stage.steps for stage in finished.run.stages)
    in_training = sum(stage.seconds for stage in finished.run.stages)
    return [
        {
            "method": method.title,
            "recipe": recipe,
            "steps": steps,
            "steps a second": f"{steps / in_training:.1f}",
            "seconds in all": f"{taken:.0f}",
            "MiB": f"{torch.cuda.max_memory_allocated(bench.device) / 2**20:,.0f}" if on_cuda else "",
            "scores (untrained)": "; ".join(
                f"`{result.task}` {value_text(result)} ({value_text(result.baseline)})"
                for result in finished.results
            ),
        }
    ]


def value_text(result: TaskResult | None) -> str:
    """A main score as the cards write it."""
    value = None if result is None else result.main_value
    return "undefined" if value is None else number(round(value, 3))


PARTS: dict[str, Part] = {
    "tests": Part(title="Tests marked `cuda`", share=1.5, measurements={"tests": run_tests}),
    "encoding": encoding.PART,
    "steps": steps.PART,
    "search": search.PART,
    "training": Part(
        title="Training on the bundled samples",
        share=2.5,
        measurements={name: partial(train_method, name=name) for name in all_methods()},
        note=(
            "The recipe `demo` fits a method's default recipe to the samples. Training is in mixed precision "
            "with bfloat16. The time includes reading the data, saving, scoring and the card."
        ),
    ),
}


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--encoder", help="folder or Hub id; default: the packaged all-MiniLM-L6-v2")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=5, help="rounds in which each side runs once")
    parser.add_argument("--output", type=Path, required=True, help="folder of gpu.json and gpu.md")
    parser.add_argument("--small", action="store_true", help="sizes that test the code on a CPU")
    parser.add_argument("--parts", nargs="+", choices=tuple(PARTS), default=list(PARTS))
    parser.add_argument("--minutes", type=float, default=8.5, help="time of all parts together")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
