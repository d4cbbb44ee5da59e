"""Ranking in a graph of CN-82K's size, and the nearest of a million vectors."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import faiss
import numpy as np
import torch
from side_by_side import Bench, Clock, Part, Row, Taken, take_turns

from eventformers.inference.search.candidate_index import CandidateIndex
from eventformers.inference.search.ranking import RankingQueries, rank_by_cosine

DIMENSION = 384
CN82K = {"queries": 10_000, "premises": 9_000, "alternatives": 78_334}
"""Sizes of a test split of CN-82K, in both directions of its relations."""


def unit_vectors(draw: np.random.Generator, number: int) -> np.ndarray:
    """Draw vectors of length 1, float32."""
    vectors = draw.standard_normal((number, DIMENSION), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def graph_ranking(bench: Bench, clock: Clock) -> list[Row]:
    """Filtered ranks of all queries, on the device and on the processor."""
    sizes = {name: number // 50 for name, number in CN82K.items()} if bench.small else CN82K
    draw = np.random.default_rng(bench.seed)
    gold = draw.integers(sizes["alternatives"], size=sizes["queries"])
    premise = np.sort(
        np.concatenate(
            [
                np.arange(sizes["premises"]),
                draw.integers(sizes["premises"], size=sizes["queries"] - sizes["premises"]),
            ]
        )
    )
    pairs = np.unique(np.stack([premise, gold], axis=1), axis=0)
    queries = RankingQueries(
        premises=[str(place) for place in range(sizes["premises"])],
        alternatives=[str(place) for place in range(sizes["alternatives"])],
        premise=premise,
        gold=gold,
        known_premise=pairs[:, 0],
        known_alternative=pairs[:, 1],
    )
    premises, alternatives = (unit_vectors(draw, sizes[name]) for name in ("premises", "alternatives"))
    found = {}

    def rank(name: str) -> None:
        found[name] = rank_by_cosine(premises, alternatives, queries, device=name).mean

    devices = dict.fromkeys((str(bench.device), "cpu"))
    sides = {name: (lambda name=name: rank(name)) for name in devices}
    taken = take_turns(sides, 1 if len(devices) > 1 else 2, reference="cpu", warm_up=0, device=bench.device)
    assert all((ranks == found["cpu"]).all() for ranks in found.values()), "the ranks differ"
    size = f"{sizes['queries']:,} queries, {sizes['alternatives']:,} candidates"
    return [_row("filtered ranks", f"eventformers, {name}", size, values) for name, values in taken.items()]


def nearest(bench: Bench, clock: Clock) -> list[Row]:
    """The eight nearest of many vectors: ours, exact, beside FAISS and plain products on the device."""
    number, asked = (2_000, 20) if bench.small else (1_000_000, 2_000)
    draw = np.random.default_rng(bench.seed)
    vectors, queries = unit_vectors(draw, number), unit_vectors(draw, asked)
    index = CandidateIndex([str(place) for place in range(number)], vectors, kind="exact")
    flat = faiss.IndexFlatIP(DIMENSION)
    flat.add(vectors)
    on_device, asked_on_device = (torch.from_numpy(side).to(bench.device) for side in (vectors, queries))
    found: dict[str, np.ndarray] = {}

    def products() -> np.ndarray:
        parts = [(part @ on_device.T).topk(8).indices.cpu().numpy() for part in asked_on_device.split(256)]
        return np.concatenate(parts)

    runs: dict[str, Callable[[], np.ndarray]] = {
        "eventformers, processor": lambda: index.search(queries, 8).events,
        f"products on {bench.device}": products,
        "FAISS flat, processor": lambda: flat.search(queries, 8)[1],
    }
    sides = {name: (lambda name=name, run=run: found.update({name: run()})) for name, run in runs.items()}
    taken = take_turns(sides, 1, reference="FAISS flat, processor", device=bench.device)
    ours = found["eventformers, processor"]
    size = f"{asked:,} queries, {number:,} vectors"
    return [
        {
            **_row("nearest 8", name, size, taken[name]),
            "equal lists": f"{(lists == ours).all(axis=1).mean():.1%}",
        }
        for name, lists in found.items()
    ]


def _row(search: str, side: str, size: str, taken: Taken) -> Row:
    return {
        "search": search,
        "size": size,
        "side": side,
        "seconds": f"{taken.seconds[0]:.2f}",
        "speed": f"{statistics.median(taken.ratios[0]):.2f}",
        "MiB": taken.mebibytes,
        "equal lists": "100.0%",
    }


PART = Part(
    title="Ranking and search",
    share=0.8,
    measurements={"ranking": graph_ranking, "nearest": nearest},
    note=(
        "Vectors are random and have 384 entries. `speed` compares with the last side of the same search. "
        "Ours are exact: ranks and lists are those of double precision. `equal lists` is the share of "
        "queries whose list equals ours."
    ),
)
