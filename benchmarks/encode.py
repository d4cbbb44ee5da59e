"""Speed of `eventformers.encode`, compared with sentence-transformers on the same weights and texts.

    python benchmarks/encode.py --events ../shared/data/chains/events.jsonl.gz

Both sides run on the same machine with the same threads. They take turns in every round, so other load
affects both, and the ratio of a round uses the fastest batch size of sentence-transformers in that round. On
a machine with other load, compare processor time with `--threads 1`: threads that share one product wait for
the slowest, which hurts sentence-transformers most. Without `--events`, the events are generated.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer, __version__
from side_by_side import Cost, machine, make_parser, print_ratios, print_seconds, take_turns, unit

from eventformers.datasets_scripts.reading.lines import read_lines
from eventformers.inference.encode import load_encoder
from eventformers.inference.encoding.batches import can_pack
from eventformers.loading.encoders import resolve_encoder

Vectors = np.ndarray

OURS, BEST = "ours", "the best batch size"


def main() -> None:
    """Measure and print."""
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    distinct, stream = sample_texts(arguments.events, arguments.distinct, arguments.seed)
    folder = resolve_encoder(arguments.encoder)
    ours = load_encoder(folder, device="cpu")
    peer = SentenceTransformer(folder, device="cpu")
    print(f"{machine()}, sentence-transformers {__version__}, packed weights: {can_pack()}")
    print(f"{len(distinct):,} distinct texts; {len(stream):,} in the stream with repeats")
    for name, texts in (("distinct events", distinct), ("raw stream", stream)):
        print(f"\n{name}")
        compare(ours.encode, peer, texts, arguments.batch_sizes, arguments.rounds)


def compare(
    encode: Callable[..., Vectors],
    peer: SentenceTransformer,
    texts: list[str],
    batch_sizes: list[int],
    rounds: int,
) -> None:
    """Time both sides in turn and print seconds, ratios and the largest difference of the vectors."""
    sides: dict[str, Callable[[], Vectors]] = {
        f"sentence-transformers, batch {size}": partial(
            peer.encode, texts, batch_size=size, show_progress_bar=False
        )
        for size in batch_sizes
    }
    peers = list(sides)
    sides[OURS] = partial(encode, texts, normalize=True)
    costs, vectors = take_turns(sides, rounds)
    print_seconds(costs)
    for name, taken in costs.items():
        print(f"  {name}: {len(texts) / statistics.median(cost.wall for cost in taken):,.0f} texts/s")
    costs[BEST] = [
        Cost(*map(min, zip(*turn, strict=True))) for turn in zip(*map(costs.get, peers), strict=True)
    ]
    print_ratios(costs, BEST, OURS)
    difference = np.abs(vectors[OURS] - unit(vectors[peers[0]])).max()
    print(f"  largest difference of the normalised vectors {difference:.1e}")


def sample_texts(events: Path | None, number: int, seed: int) -> tuple[list[str], list[str]]:
    """Distinct texts drawn at random, and all of their occurrences in the order of the file."""
    stream = list(made_up_texts(seed) if events is None else texts_of_documents(events))
    distinct = sorted(set(stream))
    draw = random.Random(seed)  # noqa: S311 - no secret depends on it
    chosen = draw.sample(distinct, min(number, len(distinct)))
    kept = set(chosen)
    return chosen, [text for text in stream if text in kept]


def texts_of_documents(path: Path) -> Iterator[str]:
    """The event texts of a JSON lines file of documents, gzip or plain."""
    for _, line in read_lines(path):
        for event in json.loads(line)["events"]:
            roles = event[2:5] if len(event) > 3 else event
            yield " ".join(role for role in roles if role)


def made_up_texts(seed: int, number: int = 60_000) -> Iterator[str]:
    """Events of frequent and rare words, with the repeats that a text has."""
    draw = random.Random(seed)  # noqa: S311 - no secret depends on it
    syllables = ["ba", "ten", "mo", "ri", "sul", "ka", "ver", "ol", "den", "pi"]
    words = ["".join(draw.choices(syllables, k=draw.randint(1, 4))) for _ in range(5_000)]
    weights = [1 / (rank + 1) for rank in range(len(words))]
    for _ in range(number):
        yield " ".join(draw.choices(words, weights, k=draw.choice((2, 3, 3, 4))))


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__, "encoder", "threads", "seed", rounds=5)
    parser.add_argument("--events", type=Path, help="JSON lines of documents; default: generated events")
    parser.add_argument("--distinct", type=int, default=20_000, help="distinct texts to draw")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[32, 64, 128, 256, 512])
    return parser.parse_args()


if __name__ == "__main__":
    main()
