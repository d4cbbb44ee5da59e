"""Clustering of many mentions without the matrix of their distances: agreement, time and memory.

    python benchmarks/many_mentions.py --data geneva.jsonl.gz

On a sample of real mentions, the script compares the clusters with those of all pairs, and with the types.
Then it clusters larger numbers of mentions in a process each: copies of the real vectors with noise of half
their length, so that a copy has a cosine of about 0.9 with its original. Memory is the peak of the process,
including imports.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from side_by_side import make_parser, peak_bytes, timed
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from eventformers.inference.encode import load_encoder
from eventformers.inference.induction import clustering
from eventformers.inference.induction.clustering import AverageLinkage, choose_num_clusters
from eventformers.inference.induction.mention_distances import MentionVectors
from eventformers.inference.induction.mention_encoding import encode_mentions
from eventformers.inference.induction.mention_files import load_mentions

NOISE = 0.5
"""Length of the noise, as a multiple of the length of the vector."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    asked = parse_arguments(arguments)
    rows, _ = load_mentions(asked.data)
    encoder = load_encoder(asked.encoder, device="cpu")
    embeddings = encode_mentions(encoder, rows, trigger_input="span").embeddings
    sample = np.sort(np.random.default_rng(asked.seed).permutation(len(rows))[: asked.sample])
    types = [rows[place]["event_type"] for place in sample]
    print(f"{len(sample):,} mentions of {len(set(types))} types; k = {asked.neighbours}")
    print("manifold | clusters | ARI, NMI with exact | gNMI of exact, of ours | ARI of exact, of ours")
    for manifold in (True, False):
        compare(MentionVectors(embeddings[sample]), types, manifold, asked.neighbours)
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "vectors.npy"
        for number in asked.mentions:
            np.save(file, noisy_copies(embeddings, number, asked.seed))
            for manifold in (True, False):
                for largest in {0, asked.exact_up_to if number <= asked.exact_up_to else 0}:
                    apart(file, manifold, largest, asked.neighbours)


def compare(vectors: MentionVectors, types: list[str], manifold: bool, neighbours: int) -> None:
    """Print how much clusters agree with those of all pairs and with the types."""
    exact = tree_of(vectors, manifold, len(types), neighbours)
    ours = tree_of(vectors, manifold, 0, neighbours)
    chosen = [choose_num_clusters(tree, vectors).num_clusters for tree in (exact, ours)]
    given = len(set(types))
    for told, numbers in (("given", [given, given]), ("chosen", chosen)):
        left, right = (tree.cut(number) for tree, number in zip((exact, ours), numbers, strict=True))
        agreement = adjusted_rand_score(left, right), normalized_mutual_info_score(left, right)
        gold = [
            *(normalized_mutual_info_score(types, one, average_method="geometric") for one in (left, right)),
            *(adjusted_rand_score(types, one) for one in (left, right)),
        ]
        scores = " | ".join(
            ", ".join(f"{100 * value:.1f}" for value in pair) for pair in (agreement, gold[:2], gold[2:])
        )
        print(f"{manifold} | {told}: {numbers[0]}, {numbers[1]} | {scores}", flush=True)


def tree_of(vectors: MentionVectors, manifold: bool, largest: int, neighbours: int) -> AverageLinkage:
    """Build the tree, with the matrix of all pairs for at most `largest` mentions."""
    clustering.LARGEST_MATRIX, clustering.NUM_NEIGHBOURS = largest, neighbours
    return AverageLinkage.of_mentions([vectors], manifold=manifold)


def noisy_copies(vectors: np.ndarray, number: int, seed: int) -> np.ndarray:
    """Repeat vectors in turn, scaled to length 1, with noise."""
    draw = np.random.default_rng(seed)
    copies = vectors[np.arange(number) % len(vectors)]
    copies = copies / np.linalg.norm(copies, axis=1, keepdims=True)
    copies += draw.normal(scale=NOISE / copies.shape[1] ** 0.5, size=copies.shape).astype(np.float32)
    return np.asarray(copies, dtype=np.float32)


def apart(file: Path, manifold: bool, largest: int, neighbours: int) -> None:
    """Run `cluster` in a process of its own, whose memory is that of nothing else."""
    process = multiprocessing.get_context("spawn").Process(
        target=cluster, args=(file, manifold, largest, neighbours)
    )
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(process.exitcode)


def cluster(file: Path, manifold: bool, largest: int, neighbours: int) -> None:
    """Cluster the vectors of a file into the best number of clusters; print time and memory."""
    vectors = MentionVectors(np.load(file))
    tree, building = timed(lambda: tree_of(vectors, manifold, largest, neighbours))
    chosen, choosing = timed(lambda: choose_num_clusters(tree, vectors).num_clusters)
    print(
        f"{tree.number:,} mentions, {'manifold' if manifold else 'distances'}, "
        f"{'all pairs' if largest else 'ours'}: tree {building.processor:.1f} s, number ({chosen}) "
        f"{choosing.processor:.1f} s of processor, peak {peak_bytes() / 2**30:.2f} GiB",
        flush=True,
    )


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__, "encoder", "seed")
    parser.add_argument("--data", required=True, help="mentions with types")
    parser.add_argument("--sample", type=int, default=5_000, help="mentions of the comparison")
    parser.add_argument("--mentions", type=int, nargs="*", default=[5_000, 20_000, 100_000])
    parser.add_argument("--exact-up-to", type=int, default=20_000, help="largest number for all pairs")
    parser.add_argument("--neighbours", type=int, default=clustering.NUM_NEIGHBOURS)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
