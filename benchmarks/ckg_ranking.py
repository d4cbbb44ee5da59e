"""Speed of filtered ranking in a commonsense graph, compared with a loop over queries.

    python benchmarks/ckg_ranking.py --data ../shared/data/ckg

Queries are the pairs of a graph's validation or test split; candidates are the distinct alternatives of all
splits. The encoder runs in a separate process, so the peak memory is that of ranking: libraries, texts,
vectors and scores. The loop scores and sorts query by query. It runs on randomly drawn queries, and its time
is scaled to all of them; `--full` runs it on every query. It runs in single precision, the usual way, and in
double precision, whose ranks ours must equal: the rank of a gold alternative may be any of those that it ties
with. Both sides take turns in every round. On a machine with other load, compare processor time with
`--threads 1`. Without `--data`, the graph is that of the bundled samples.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import side_by_side
import torch
from side_by_side import machine, make_parser, peak_bytes, unit

from eventformers.datasets_scripts.loading import load_built
from eventformers.inference.encode import load_encoder
from eventformers.inference.search.ranking import (
    FilteredRanks,
    RankingQueries,
    rank_by_cosine,
    ranking_queries,
)

Vectors = np.ndarray
Ranks = np.ndarray
SIDES = {"loop, single precision": np.float32, "loop, double precision": np.float64}
OURS = "ours"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parse_arguments(arguments)
    torch.set_num_threads(options.threads)
    queries = load_queries(options.data, options.config, options.split)
    print(machine())
    print(f"{len(queries.gold):,} queries on {len(queries.premises):,} distinct premises")
    print(
        f"{len(queries.alternatives):,} candidates, of which {queries.removed.mean():.1f} known ones are "
        f"left out of a list, {queries.removed.max():,} at most"
    )
    vectors = encode_elsewhere(options.encoder, queries, options.threads)
    before = peak_bytes()
    ranks = rank(vectors, queries)
    peak = peak_bytes()
    print(f"peak memory without the encoder {peak / 1e9:.2f} GB; before ranking {before / 1e9:.2f} GB")
    print(f"tied queries {ranks.tied:,}; mean reciprocal rank {100 * np.mean(1 / ranks.mean):.2f} %")
    draw = np.random.default_rng(options.seed)
    every = len(queries.gold)
    sample = np.arange(every) if options.full else np.sort(draw.permutation(every)[: options.sample])
    print(
        f"the loop runs on {len(sample):,} queries{'' if options.full else ', its time is scaled to all'}\n"
    )
    compare(vectors, queries, ranks, sample, options)


def compare(
    vectors: tuple[Vectors, Vectors],
    queries: RankingQueries,
    ranks: FilteredRanks,
    sample: Ranks,
    options: argparse.Namespace,
) -> None:
    """Time both sides in turn; print seconds and ratios, and whether the ranks agree."""
    sides = {name: partial(loop, vectors, queries, sample, precision) for name, precision in SIDES.items()}
    sides[OURS] = partial(rank, vectors, queries)
    found = side_by_side.compare(sides, OURS, options.rounds, len(queries.gold) / len(sample))
    for name in SIDES:
        theirs = found[name]
        best, worst = ranks.optimistic[sample], ranks.pessimistic[sample]
        differing = int(np.sum((theirs < best) | (theirs > worst)))
        print(f"  {name}: {len(sample) - differing:,} of {len(sample):,} ranks are ours")
        if SIDES[name] is np.float64:
            assert not differing, f"{differing} ranks differ from the loop in double precision"


def rank(vectors: tuple[Vectors, Vectors], queries: RankingQueries) -> FilteredRanks:
    """Our side."""
    return rank_by_cosine(*vectors, queries, device="cpu")


def loop(vectors: tuple[Vectors, Vectors], queries: RankingQueries, sample: Ranks, dtype: type) -> Ranks:
    """The other side: one product and one sort for each query, (len(sample),)."""
    premises, alternatives = (unit(side.astype(dtype)) for side in vectors)
    starts = np.searchsorted(queries.known_premise, np.arange(len(queries.premises) + 1))
    ranks = np.empty(len(sample), dtype=np.int64)
    for place, query in enumerate(sample):
        premise, gold = queries.premise[query], queries.gold[query]
        scores = alternatives @ premises[premise]
        known = queries.known_alternative[starts[premise] : starts[premise + 1]]
        scores[known[known != gold]] = -np.inf
        order = np.argsort(-scores)
        ranks[place] = 1 + np.flatnonzero(order == gold)[0]
    return ranks


def load_queries(data: Path | None, config: str, split: str | None) -> RankingQueries:
    """The queries of a graph's split, test before validation, and the candidates of all splits."""
    splits = load_built(data, config, builder="commonsense_graphs")
    chosen = split or ("test" if "test" in splits else "validation")
    print(f"{config}: queries from {chosen}, candidates from {', '.join(splits)}")

    def pairs(name: str) -> list[tuple[str, str]]:
        rows = splits[name]
        return list(zip(rows["premise"], rows["alternative"], strict=True))

    return ranking_queries(pairs(chosen), [pair for name in splits if name != chosen for pair in pairs(name)])


def encode_elsewhere(encoder: str | None, queries: RankingQueries, threads: int) -> tuple[Vectors, Vectors]:
    """The vectors of premises and alternatives, made in a process that ends with the encoder."""
    texts = [*queries.premises, *queries.alternatives]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        vectors = process.submit(encode, encoder, texts, threads).result()
    return vectors[: len(queries.premises)], vectors[len(queries.premises) :]


def encode(encoder: str | None, texts: list[str], threads: int) -> Vectors:
    """The vectors of texts, (N, d)."""
    torch.set_num_threads(threads)
    return load_encoder(encoder, device="cpu").encode(texts)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__, "encoder", "threads", "seed", rounds=3)
    parser.add_argument("--data", type=Path, help="raw files of a graph; default: the bundled samples")
    parser.add_argument(
        "--config", default="conceptnet_inductive_pairs", help="a config of commonsense_graphs"
    )
    parser.add_argument("--split", help="split of the queries; default: test, or else validation")
    parser.add_argument("--sample", type=int, default=300, help="queries that the loop runs on")
    parser.add_argument("--full", action="store_true", help="run the loop on every query")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
