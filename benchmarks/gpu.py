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

The training part reads built samples from the cache of `datasets`. Where DuckDB is not installed, build them
on another machine and carry the folder:

    HF_HOME=FOLDER python benchmarks/gpu.py --output gpu --device cpu --small --parts training --minutes 20
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from gpu_parts import device_tests, encoding, search, steps, training
from gpu_parts.measuring import Bench, Clock, Part, describe_machine, float32_encoder, matrix_product_rate
from paper_data import write_encoder

from eventformers.files import write_text
from eventformers.reference.benchmark_record import benchmark_tables

PARTS: dict[str, Part] = {
    "tests": device_tests.PART,
    "encoding": encoding.PART,
    "steps": steps.PART,
    "search": search.PART,
    "training": training.PART,
}


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
