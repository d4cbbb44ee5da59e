"""Speed of candidate retrieval, compared with a full sort, and of hierarchy discovery, compared with a loop.

    python benchmarks/grounding.py --threads 1

Retrieval: vectors of mentions and events are random, and each mention gets its top events. The plain full
sort multiplies a block of mentions with all events and sorts every row of scores with NumPy, with its fastest
algorithm and with its stable one, which keeps equal scores in their order. FAISS's flat index is the third
alternative. These sides run on randomly drawn mentions, and their times are scaled to all; `--full` runs them
on every mention. Our events must be those of the stable sort of scores in double precision, rounded to
single, on the first of these mentions.

Discovery: mentions have four events each, three of which are of one hierarchy. The loop intersects the sets
of mentions of every pair of events and sorts the parents of each child. It runs on randomly drawn children,
and its time is scaled to all. Scores and ranks must be equal.

All sides take turns in every round. On a machine with other load, compare processor time.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import faiss
import numpy as np
import torch
from side_by_side import compare, machine, make_parser, peak_bytes

from eventformers.inference.grounding.hierarchy_discovery import (
    DEPTH,
    DiscoveredHierarchy,
    Parents,
    discover_hierarchy,
)
from eventformers.inference.search.candidate_index import CandidateIndex

Vectors = np.ndarray

OURS = "ours"
DOUBLE = "full sort, double precision"
SORT_SCORES = 2**24
"""Scores that the full sort has at a time: a block of mentions times all events."""
PATH = 3
"""Events of a mention that are of one hierarchy."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    options = parse_arguments(arguments)
    torch.set_num_threads(options.threads)
    faiss.omp_set_num_threads(options.threads)
    print(f"{machine()}, numpy {np.__version__}, faiss {faiss.__version__}")
    for events in options.events:
        retrieval(events, options)
    discovery(options)


def retrieval(number: int, options: argparse.Namespace) -> None:
    """Time retrieval among a number of events; print seconds, ratios and memory."""
    draw = np.random.default_rng(options.seed)
    events = draw.standard_normal((number, options.dimension), dtype=np.float32)
    mentions = draw.standard_normal((options.mentions, options.dimension), dtype=np.float32)
    drawn = np.arange(len(mentions)) if options.full else draw.permutation(len(mentions))[: options.sample]
    sample = mentions[np.sort(drawn)]
    print(
        f"\ntop {options.number} of {number:,} events for {len(mentions):,} mentions, dimension "
        f"{options.dimension}; the other sides run on {len(sample):,} mentions, their time is scaled to all"
    )
    index = CandidateIndex([str(event) for event in range(number)], events, kind="exact")
    before = peak_bytes()
    index.search(sample, options.number)
    print(
        f"peak memory of a search {(peak_bytes() - before) / 2**20:,.0f} MiB over "
        f"{events.nbytes / 2**20:,.0f} MiB "
        "of vectors"
    )
    flat = faiss.IndexFlatIP(options.dimension)
    flat.add(events)
    sides = {
        "full sort": lambda: full_sort(sample, events, options.number, None),
        "full sort, stable": lambda: full_sort(sample, events, options.number, "stable"),
        "faiss flat": lambda: flat.search(sample, options.number)[1],
        OURS: lambda: index.search(mentions, options.number).events,
    }
    found = compare(sides, OURS, options.rounds, len(mentions) / len(sample))
    ours = found[OURS][np.sort(drawn)]
    few = sample[: options.checked]
    exact = full_sort(few.astype(np.float64), events.astype(np.float64), options.number, "stable")
    found = {**found, DOUBLE: exact}
    for name in sides.keys() - {OURS} | {DOUBLE}:
        rows = len(found[name])
        equal = int((found[name] == ours[:rows]).all(axis=1).sum())
        print(f"  {name}: {equal:,} of {rows:,} mentions have the same events in the same order")
        assert name != DOUBLE or equal == rows, f"{rows - equal} mentions differ from the full sort"


def full_sort(mentions: Vectors, events: Vectors, number: int, kind: str | None) -> np.ndarray:
    """The positions of the best events of each mention, by sorting all scores."""
    found = np.empty((len(mentions), number), dtype=np.int64)
    at_once = max(1, SORT_SCORES // len(events))
    for start in range(0, len(mentions), at_once):
        scores = mentions[start : start + at_once] @ events.T
        # Rounded from double precision, as ours are; from single precision this does nothing.
        found[start : start + at_once] = np.argsort(-scores.astype(np.float32, copy=False), kind=kind)[
            :, :number
        ]
    return found


def discovery(options: argparse.Namespace) -> None:
    """Time discovery; print seconds and ratios."""
    draw = np.random.default_rng(options.seed)
    number = options.hierarchy_events
    candidates = draw.integers(number, size=(options.mentions, DEPTH))
    # The first event of a path and those it is a part of: e, e + 1, e + 2 in groups of `PATH`.
    candidates[:, :PATH] = candidates[:, :1] // PATH * PATH + np.arange(PATH)
    candidates %= number
    event_ids = [f"Q{event}" for event in range(number)]
    children = np.sort(draw.permutation(number)[: options.children])
    print(
        f"\ndiscovery of parents among {number:,} events with {len(candidates):,} mentions of {DEPTH} "
        f"events; the loop runs on {len(children):,} children, its time is scaled to all"
    )
    sides = {
        "loop over pairs of sets": lambda: loop_over_pairs(event_ids, candidates, children),
        OURS: lambda: discover(event_ids, candidates),
    }
    found = compare(sides, OURS, options.rounds, number / len(children))
    hierarchy, parents = found[OURS]
    place = np.searchsorted(parents.children, np.arange(number + 1))
    position = {event_id: event for event, event_id in enumerate(event_ids)}
    for child, ranked in found["loop over pairs of sets"].items():
        of_child = slice(*place[position[child] : position[child] + 2])
        ours = [
            (event_ids[parent], score)
            for parent, score in zip(parents.parents[of_child], parents.scores[of_child], strict=True)
        ]
        assert ours == ranked[: len(ours)], f"the parents of {child} differ"
        assert not any(score for _, score in ranked[len(ours) :]), f"parents of {child} are missing"
        gold = ranked[len(ranked) // 2][0], ranked[0][0]
        for parent in gold:
            rank = hierarchy.ranks({child: [parent]}).ranks[0]
            expected = 1 + [event_id for event_id, _ in ranked].index(parent) if ours else np.inf
            assert rank == expected, f"the rank of {parent} among the parents of {child} differs"
    print(f"  scores and ranks of {len(children):,} children are those of the loop")


def discover(event_ids: list[str], candidates: np.ndarray) -> tuple[DiscoveredHierarchy, Parents]:
    """Our side: the shared mentions of all pairs, and the parents of each child, best first."""
    hierarchy = discover_hierarchy(event_ids, candidates)
    return hierarchy, hierarchy.parents()


def loop_over_pairs(
    event_ids: list[str], candidates: np.ndarray, children: np.ndarray
) -> dict[str, list[tuple[str, float]]]:
    """The other side: all other events of each child with h(child, event), best first."""
    mentions: list[set[int]] = [set() for _ in event_ids]
    for mention, row in enumerate(candidates.tolist()):
        for event in row:
            mentions[event].add(mention)
    ranked = {}
    for child in children.tolist():
        own = mentions[child]
        scores = [
            (event_ids[other], len(own & theirs) / len(own) if own else 0.0)
            for other, theirs in enumerate(mentions)
            if other != child
        ]
        ranked[event_ids[child]] = sorted(scores, key=lambda scored: (-scored[1], scored[0]))
    return ranked


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__, "seed", rounds=3, threads=1)
    parser.add_argument("--mentions", type=int, default=100_000)
    parser.add_argument(
        "--events", type=int, nargs="*", default=[10_000, 1_000_000], help="events to retrieve"
    )
    parser.add_argument("--dimension", type=int, default=384)
    parser.add_argument("--number", type=int, default=8, help="events that a mention gets")
    parser.add_argument("--sample", type=int, default=2_000, help="mentions that the other sides run on")
    parser.add_argument("--full", action="store_true", help="run the other sides on every mention")
    parser.add_argument("--checked", type=int, default=200, help="mentions checked in double precision")
    parser.add_argument("--hierarchy-events", type=int, default=10_000, help="events of the discovery")
    parser.add_argument("--children", type=int, default=50, help="children that the loop runs on")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
