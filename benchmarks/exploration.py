"""Time and memory of `explore`, side by side with BERTopic on the same events.

    python benchmarks/exploration.py wikinews.jsonl --peer-python PEER/bin/python

`explore` runs twice into one folder: first up to the events, then the rest. BERTopic has no events; it gets
the texts of ours, finds topics with its default settings and the same encoder, names them, and reduces the
vectors to two dimensions, which is what vectors, types and map are here. `--peer-python` is an environment
with `bertopic`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from eventformers.loading.encoders import resolve_encoder

PEER = Path(__file__).with_name("explore_peer.py")
LATER = ("vectors", "chains", "types", "next_events", "links", "completions", "map", "page")


def main() -> None:
    """Run both sides, and print what they took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", help="file or folder of texts")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="parsing processes")
    parser.add_argument("--peer-python", type=Path, help="interpreter with bertopic")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="exploration-") as folder:
        output = Path(folder) / "explored"
        explore = [sys.executable, "-m", "eventformers.cli", "explore", options.texts, "-o", str(output)]
        explore += ["--processes", str(options.processes)]
        print("| side | time | processor time | peak memory of a process |\n|---|---|---|---|")
        measure("explore, to the events", [*explore, *(f"--skip={step}" for step in LATER)])
        measure("explore, the rest", explore)
        if options.peer_python is not None:
            texts = Path(folder) / "texts.json"
            events = pq.read_table(output / "events.parquet", columns=["text"])
            texts.write_text(json.dumps(events.column("text").to_pylist()), encoding="utf-8")
            encoder = str(resolve_encoder(None))
            measure("BERTopic", [str(options.peer_python), str(PEER), str(texts), encoder])


def measure(side: str, command: list[str]) -> None:
    """Run a command and print what it took, then its last line.

    Raises:
        subprocess.CalledProcessError: it fails.
    """
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - started
        log.seek(0)
        printed = log.read().strip()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, printed)
    processor = used.ru_utime + used.ru_stime
    print(f"| {side} | {wall:.0f} s | {processor:.0f} s | {used.ru_maxrss / 1e6:.2f} GB |", flush=True)
    print(printed.splitlines()[-1], file=sys.stderr)


if __name__ == "__main__":
    main()
