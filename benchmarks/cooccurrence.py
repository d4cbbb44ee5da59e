"""Speed and memory of counting co-occurrence, compared with a plain Python Counter.

Documents are drawn from a Zipfian vocabulary of events, like news: few events are in very many documents.
Each implementation runs in its own process, so that its peak memory is measured alone.

    python benchmarks/cooccurrence.py --documents 20000 --length 40
    python benchmarks/cooccurrence.py --documents 1 --length 50000          # one book
    python benchmarks/cooccurrence.py --documents 500000 --no-counter       # where a Counter does not fit
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator

import numpy as np

from eventformers.datasets_scripts.cooccurrence import CooccurrenceCounter
from eventformers.datasets_scripts.events import Event


def documents(arguments: argparse.Namespace) -> Iterator[list[Event]]:
    """Documents of `length` events, drawn with probability 1 / rank ** exponent."""
    random = np.random.default_rng(arguments.seed)
    probability = 1.0 / np.arange(1, arguments.vocabulary + 1) ** arguments.exponent
    cumulative = np.cumsum(probability / probability.sum())
    for _ in range(arguments.documents):
        ranks = np.searchsorted(cumulative, random.random(arguments.length))
        yield [
            {
                "subject": f"subject{rank % 5003}",
                "predicate": f"predicate{rank}",
                "object": f"object{rank % 97}",
            }
            for rank in ranks.tolist()
        ]


def count_out_of_core(arguments: argparse.Namespace) -> int:
    """Directed pairs by `CooccurrenceCounter`."""
    with CooccurrenceCounter(
        window=arguments.window or None,
        max_co_events=arguments.max_co_events or None,
        memory_limit=arguments.memory_limit,
        threads=arguments.threads,
    ) as counter:
        for events in documents(arguments):
            counter.add(events)
        for _ in counter.tables():
            pass
        return counter.statistics.pairs


def count_in_memory(arguments: argparse.Namespace) -> int:
    """Directed pairs by a Counter over pairs of event numbers; the top co-events are not even chosen."""
    window = arguments.window or arguments.length
    numbers: dict[tuple[str, str, str], int] = {}
    pairs: Counter[tuple[int, int]] = Counter()
    for events in documents(arguments):
        places = [
            numbers.setdefault((event["subject"], event["predicate"], event["object"]), len(numbers))
            for event in events
        ]
        met = {
            (first, second) if first < second else (second, first)
            for position, first in enumerate(places)
            for second in places[position + 1 : position + 1 + window]
            if first != second
        }
        pairs.update(met)
    return 2 * len(pairs)


def measure(way: str, arguments: argparse.Namespace) -> dict[str, float]:
    """Run one way of counting in a process of its own."""
    command = [sys.executable, __file__, *sys.argv[1:], "--way", way]
    finished = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, float] = json.loads(finished.stdout)
    print(
        f"{way:12} {result['pairs']:>14,.0f} pairs {result['seconds']:>8.1f} s"
        f" {result['pairs'] / result['seconds']:>12,.0f} pairs/s {result['peak_mb']:>8,.0f} MB at the peak"
    )
    return result


def main() -> None:
    """Parse the flags and print one line for each way, then the ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--length", type=int, default=40, help="events of a document")
    parser.add_argument("--vocabulary", type=int, default=1_000_000, help="distinct events to draw from")
    parser.add_argument("--exponent", type=float, default=0.8, help="exponent of the Zipfian law")
    parser.add_argument("--window", type=int, default=100, help="0 takes whole documents")
    parser.add_argument("--max-co-events", type=int, default=64, help="0 keeps all")
    parser.add_argument("--memory-limit", default="2GB")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-counter", action="store_true", help="leave out the plain Counter")
    parser.add_argument("--way", choices=("out_of_core", "counter"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        started = time.perf_counter()
        count = count_out_of_core if arguments.way == "out_of_core" else count_in_memory
        pairs = count(arguments)
        seconds = time.perf_counter() - started
        # Linux counts in kB, macOS in bytes.
        unit = 1e6 if sys.platform == "darwin" else 1e3
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
        print(json.dumps({"pairs": pairs, "seconds": seconds, "peak_mb": peak}))
        return
    ours = measure("out_of_core", arguments)
    if arguments.no_counter:
        return
    plain = measure("counter", arguments)
    if ours["pairs"] != plain["pairs"]:
        raise SystemExit(f"the counts differ: {ours['pairs']:,.0f} and {plain['pairs']:,.0f} pairs")
    print(
        f"out of core takes {ours['seconds'] / plain['seconds']:.2f} times the time"
        f" and {ours['peak_mb'] / plain['peak_mb']:.2f} times the memory of the Counter"
    )


if __name__ == "__main__":
    main()
