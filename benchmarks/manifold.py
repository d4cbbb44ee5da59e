"""Speed and memory of manifold weights, compared with umap-learn's neighbour smoothing and a plain loop.

    python benchmarks/manifold.py --threads 1

Mentions are vectors drawn around random centres, or with `--data` those of real mentions under an encoder;
all of them are neighbours, k = n. umap-learn smooths distances to sorted neighbours, so its time excludes the
sorting that it also needs; ours includes everything. Its weights are those of `smooth_knn_dist` and
`compute_membership_strengths`. The plain loop is pure Python, entry by entry, with a bisection in each row.
It runs on randomly drawn rows, and its time is scaled to all. The row loop computes one whole row at a time
with NumPy. All sides take turns in every round. On a machine with other load, compare processor time.
"""

from __future__ import annotations

import argparse
import math
import tracemalloc
from collections.abc import Callable, Sequence
from importlib.metadata import version

import numpy as np
import torch
from numpy.typing import NDArray
from side_by_side import machine, make_parser, print_ratios, print_seconds, take_turns, timed

from eventformers.inference.encode import load_encoder
from eventformers.inference.induction.manifold import manifold_weights
from eventformers.inference.induction.mention_distances import Matrix, MentionVectors, distances
from eventformers.inference.induction.mention_encoding import encode_mentions
from eventformers.inference.induction.mention_files import load_mentions

OURS = "ours"
UMAP = "umap-learn"
PLAIN_LOOP = "plain loop"
ROW_LOOP = "NumPy, row by row"
LARGEST_DIFFERENCE = 1e-4
CENTRES, DIMENSION = 33, 384
TOLERANCE = 1e-5
"""How near a bisection comes to its target, as near as umap-learn does."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    import numba

    options = parse_arguments(arguments)
    torch.set_num_threads(options.threads)
    numba.set_num_threads(options.threads)
    asked = distances(mention_vectors(options), "encoder")
    number = len(asked)
    print(f"{machine()}, numba {numba.__version__}, umap-learn {version('umap-learn')}")
    print(f"{number:,} mentions, all of them neighbours")
    print_memory(asked)
    sample = np.random.default_rng(options.seed).permutation(number)[: options.sample]
    print(f"the loops run on {len(sample)} rows, their time is scaled to all\n")
    compare(asked, np.sort(sample), options.rounds)


def compare(asked: Matrix, sample: NDArray[np.int64], rounds: int) -> None:
    """Time all sides in turn; print seconds and ratios, and how far the weights are from ours."""
    order, sorting = timed(lambda: np.argsort(asked, axis=1).astype(np.int32))
    nearest = np.ascontiguousarray(np.take_along_axis(asked, order, axis=1))
    # Compiled before the clock starts.
    umap_weights(order[:2], nearest[:2])
    sides: dict[str, Callable[[], Matrix]] = {
        UMAP: lambda: umap_weights(order, nearest),
        ROW_LOOP: lambda: np.stack([row_by_row(asked[row]) for row in sample]),
        PLAIN_LOOP: lambda: np.stack([entry_by_entry(asked[row]) for row in sample]),
        OURS: lambda: manifold_weights(asked, symmetrise=False),
    }
    scales = dict.fromkeys((ROW_LOOP, PLAIN_LOOP), len(asked) / len(sample))
    costs, found = take_turns(sides, rounds, scales=scales)
    print_seconds({**costs, "sorting for umap": [sorting]})
    for name in (UMAP, ROW_LOOP, PLAIN_LOOP):
        print_ratios(costs, name, OURS)
    for name in (UMAP, ROW_LOOP, PLAIN_LOOP):
        rows = np.arange(len(asked)) if name == UMAP else sample
        difference = np.abs(found[OURS][rows] - found[name])
        # The weight of a mention with itself is 1 here, and 0 in umap-learn.
        difference[np.arange(len(rows)), rows] = 0
        print(f"  largest difference from {name}: {difference.max():.1e}")
        assert difference.max() < LARGEST_DIFFERENCE, f"the weights differ from those of {name}"


def umap_weights(order: NDArray[np.int32], nearest: Matrix) -> Matrix:
    """umap-learn's membership strengths of neighbours that are sorted, as a matrix."""
    from umap.umap_ import compute_membership_strengths, smooth_knn_dist

    # The sum of all neighbours but the first is to be the logarithm of their number.
    sigmas, rhos = smooth_knn_dist(nearest, float(nearest.shape[1] - 1))
    rows, columns, values, _ = compute_membership_strengths(order, nearest, sigmas, rhos)
    weights = np.zeros((len(nearest), nearest.shape[1]), dtype=np.float32)
    weights[rows, columns] = values
    return weights


def row_by_row(row: Matrix) -> NDArray[np.float64]:
    """The weights of a row by bisection on the whole row at a time, `(n,)`."""
    remaining = np.sort(row.astype(np.float64))[1:]
    offsets = np.maximum(0, remaining - remaining[0])
    sigma = bisect(lambda sigma: float(np.exp(-offsets / sigma).sum()), len(offsets))
    return np.exp(-np.maximum(0, row - remaining[0]) / sigma)


def entry_by_entry(row: Matrix) -> NDArray[np.float64]:
    """The weights of a row by bisection with Python's own loops, `(n,)`."""
    entries = row.tolist()
    remaining = sorted(entries)[1:]
    offsets = [max(0.0, entry - remaining[0]) for entry in remaining]
    sigma = bisect(lambda sigma: sum(math.exp(-offset / sigma) for offset in offsets), len(offsets))
    return np.array([math.exp(-max(0.0, entry - remaining[0]) / sigma) for entry in entries])


def bisect(total: Callable[[float], float], neighbours: int) -> float:
    """σ, within (0, 1000), of the wanted sum of weights."""
    target, low, high = math.log2(neighbours), 0.0, 1000.0
    sigma = (low + high) / 2
    while abs(found := total(sigma) - target) > TOLERANCE and high - low > 1e-12:
        low, high = (low, sigma) if found > 0 else (sigma, high)
        sigma = (low + high) / 2
    return sigma


def print_memory(asked: Matrix) -> None:
    """Print the most memory that is held for the weights, with the distances."""
    for symmetrise in (False, True):
        tracemalloc.start()
        manifold_weights(asked, symmetrise=symmetrise)
        peak = tracemalloc.get_traced_memory()[1] + asked.nbytes
        tracemalloc.stop()
        print(
            f"peak memory, symmetrised by {'mean' if symmetrise else 'none'}, distances included: "
            f"{peak / 2**20:,.0f} MiB, {peak / asked.nbytes:.2f} matrices of n × n in single precision"
        )


def mention_vectors(options: argparse.Namespace) -> MentionVectors:
    """Vectors of mentions, drawn or encoded."""
    draw = np.random.default_rng(options.seed)
    if options.data is None:
        centres = draw.normal(size=(CENTRES, DIMENSION))
        vectors = centres[draw.integers(CENTRES, size=options.mentions)]
        vectors += draw.normal(size=vectors.shape)
        return MentionVectors(vectors.astype(np.float32))
    rows, _ = load_mentions(options.data)
    chosen = draw.permutation(len(rows))[: options.mentions]
    vectors = encode_mentions(load_encoder(options.encoder, device="cpu"), [rows[place] for place in chosen])
    # A repeated mention has distances of 0, which umap-learn leaves out and we do not.
    _, distinct = np.unique(vectors.embeddings, axis=0, return_index=True)
    return vectors.rows(distinct)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__, "encoder", "seed", rounds=3, threads=1)
    parser.add_argument("--mentions", type=int, default=5_000, help="maximum number of mentions")
    parser.add_argument("--data", help="mentions to encode; default: random vectors")
    parser.add_argument("--sample", type=int, default=50, help="rows that the loops run on")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
