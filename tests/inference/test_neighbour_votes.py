"""Votes of neighbours, against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from eventformers.inference.commonsense import alternative_index as module
from eventformers.inference.commonsense.alternative_index import (
    Votes,
    expanded,
    neighbour_votes,
    voted_ranking,
)

LISTS = [[0, 3], [1], [], [2, 3, 4], [0]]
OFFSETS = np.cumsum([0, *map(len, LISTS)])
KNOWN = np.array([alternative for one in LISTS for alternative in one])


def unit(*shape: int, seed: int = 0) -> np.ndarray:
    vectors = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_votes_equal_a_plain_loop() -> None:
    draw = np.random.default_rng(0)
    neighbours = np.array([[0, 1, 2], [3, 0, 4], [2, 2, 2]])
    cosines = draw.uniform(-1, 1, neighbours.shape).astype(np.float32)
    expected = np.zeros((3, 6))
    for query in range(3):
        for cosine, premise in zip(cosines[query], neighbours[query], strict=True):
            for alternative in LISTS[premise]:
                expected[query, alternative] += math.exp((cosine - 1) / 0.3)
    votes = neighbour_votes(cosines, neighbours, OFFSETS, KNOWN, 6, 0.3)
    np.testing.assert_allclose(votes.toarray(), expected, rtol=1e-5)
    assert len(np.unique(votes.tocoo().coords, axis=1).T) == votes.nnz


def test_expanded_queries() -> None:
    queries, alternatives = unit(3, 8), unit(6, 8, seed=1)
    cosines = np.array([[0.5, 0.2]] * 3, dtype=np.float32)
    neighbours = np.array([[1, 2], [0, 3], [2, 2]])
    votes = neighbour_votes(cosines, neighbours, OFFSETS, KNOWN, 6, 0.3)
    found = expanded(queries, votes, alternatives, 0.5)
    near, far = math.exp(-0.5 / 0.3), math.exp(-0.8 / 0.3)
    middle = near * (alternatives[0] + alternatives[3]) + far * alternatives[[2, 3, 4]].sum(axis=0)
    by_hand = [
        queries[0] + 0.5 * alternatives[1],
        queries[1] + 0.5 * middle / np.linalg.norm(middle),
        queries[2],
    ]
    for one, other in zip(found, by_hand, strict=True):
        np.testing.assert_allclose(one, other / np.linalg.norm(other), atol=1e-6)


@pytest.mark.parametrize("block", [1, 2, 1024])
def test_a_whole_ranking_equals_plain_loops(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK_QUERIES", block)
    queries, premises, alternatives = unit(4, 8), unit(5, 8, seed=1), unit(6, 8, seed=2)
    settings = Votes(neighbours=3, temperature=0.5, expansion=0.7, weight=2.0)
    found, add_votes = voted_ranking(queries, premises, OFFSETS, KNOWN, alternatives, settings)
    for query, vector in enumerate(queries):
        votes = np.zeros(6)
        for premise in np.argsort(-(premises @ vector))[:3]:
            votes[LISTS[premise]] += math.exp((premises[premise] @ vector - 1) / 0.5)
        middle = votes @ alternatives
        moved = vector + 0.7 * middle / np.linalg.norm(middle)
        cosines = alternatives @ moved / np.linalg.norm(moved)
        np.testing.assert_allclose(found[query] @ alternatives.T, cosines, atol=1e-5)
        rows = torch.tensor([query, 0])
        scores = add_votes(rows, torch.from_numpy(found[rows] @ alternatives.T).double())
        np.testing.assert_allclose(scores[0].numpy(), cosines + 2 * votes, atol=1e-5)


def test_fewer_premises_than_voters() -> None:
    settings = Votes(neighbours=99)
    _, add_votes = voted_ranking(unit(2, 8), unit(5, 8), OFFSETS, KNOWN, unit(6, 8), settings)
    assert add_votes(torch.tensor([1]), torch.zeros(1, 6)).shape == (1, 6)
