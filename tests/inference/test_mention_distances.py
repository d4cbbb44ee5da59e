"""Distances of mentions, and weights from their density."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.inference.induction import mention_distances
from eventformers.inference.induction.mention_distances import (
    MentionVectors,
    Rho,
    distance_factors,
    distances,
    manifold_weights,
    nearest_weights,
)


@pytest.fixture
def vectors() -> MentionVectors:
    draw = np.random.default_rng(0)
    return MentionVectors(*(draw.normal(size=(9, 4)).astype(np.float32) for _ in range(3)))


def cosine(left: np.ndarray, right: np.ndarray) -> float:
    return float(left @ right / np.linalg.norm(left) / np.linalg.norm(right))


def test_kinds(vectors: MentionVectors) -> None:
    assert vectors.query is not None
    assert vectors.key is not None
    for kind in ("cosine", "dot", "encoder"):
        found = distances(vectors, kind)  # type: ignore[arg-type]
        one, other = (
            {
                "cosine": 1 - cosine(vectors.query[first], vectors.key[second]),
                "dot": -float(vectors.query[first] @ vectors.key[second]),
                "encoder": 1 - cosine(vectors.embeddings[first], vectors.embeddings[second]),
            }[kind]
            for first, second in ((2, 5), (5, 2))
        )
        expected = (one + other) / 2
        assert found.dtype == np.float32
        assert found[2, 5] == pytest.approx(expected, abs=1e-5)
        assert (np.diag(found) == 0).all() == (kind == "encoder")


def test_distances_of_equal_directions_are_not_below_zero() -> None:
    same = np.random.default_rng(0).normal(size=(200, 7)).astype(np.float32)
    found = distances(MentionVectors(same, same, same), "cosine")
    assert found.min() == 0


@pytest.mark.parametrize("tile", [4, 512])
@pytest.mark.parametrize("kind", ["cosine", "dot"])
def test_symmetrised_in_tiles(
    vectors: MentionVectors, kind: str, tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mention_distances, "TILE", tile)
    assert vectors.query is not None
    assert vectors.key is not None
    rows = -vectors.query @ vectors.key.T
    if kind == "cosine":
        lengths = [np.linalg.norm(part, axis=1) for part in (vectors.query, vectors.key)]
        rows = 1 + rows / np.outer(*lengths)
    both = distances(vectors, kind)  # type: ignore[arg-type]
    np.testing.assert_array_equal(both, both.T)
    np.testing.assert_allclose(both, (rows + rows.T) / 2, atol=1e-6)


@pytest.mark.parametrize("kind", ["cosine", "dot", "encoder"])
def test_mean_over_runs(vectors: MentionVectors, kind: str) -> None:
    runs = [vectors, vectors.rows(np.arange(9)[::-1])]
    found = distance_factors(iter(runs), kind).matrix()  # type: ignore[arg-type]
    mean = np.mean([distances(run, kind) for run in runs], axis=0)  # type: ignore[arg-type]
    np.testing.assert_allclose(found, mean, atol=1e-6)


def test_rows_of_a_plain_encoder(vectors: MentionVectors) -> None:
    some = MentionVectors(vectors.embeddings).rows(np.array([3, 1]))
    np.testing.assert_array_equal(some.embeddings, vectors.embeddings[[3, 1]])
    assert some.query is None


def test_wrong_input_is_told(vectors: MentionVectors) -> None:
    with pytest.raises(UnknownNameError, match="Accepted: cosine, dot, encoder"):
        distances(vectors, "euclidean")  # type: ignore[arg-type]
    with pytest.raises(EventformersError, match="no queries and keys"):
        distances(MentionVectors(vectors.embeddings), "cosine")
    vectors.embeddings[3] = 0
    with pytest.raises(EventformersError, match="first 'mention 3'"):
        distances(vectors, "encoder")


def by_bisection(row: np.ndarray, place: int, rho: str = "positive") -> np.ndarray:
    """The weights of one row, by Appendix H to the letter, in double precision."""
    row = row.astype(np.float64)
    remaining = np.sort(row)[1:]
    nearest = next(entry for entry in remaining if rho == "nearest" or entry > 0)
    low, high, sigma = 0.0, 1000.0, 1.0
    for _ in range(200):
        sigma = (low + high) / 2
        total = sum(math.exp(-max(0.0, entry - nearest) / sigma) for entry in remaining)
        if abs(total - math.log2(len(remaining))) < 1e-9:
            break
        low, high = (low, sigma) if total > math.log2(len(remaining)) else (sigma, high)
    weights = np.exp(-np.maximum(0, row - nearest) / sigma)
    weights[place] = 1
    return weights


def random_distances(number: int, *, seed: int = 0, kind: str = "cosine") -> np.ndarray:
    draw = np.random.default_rng(seed)
    vectors = MentionVectors(*(draw.normal(size=(number, 12)).astype(np.float32) for _ in range(3)))
    return distances(vectors, kind)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["cosine", "dot", "encoder"])
@pytest.mark.parametrize("number", [40, 15, 3])
def test_equals_a_bisection_row_by_row(kind: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mention_distances, "BLOCK_BYTES", 4 * 40 * 7)
    asked = random_distances(number, kind=kind)
    rho = "nearest" if kind == "dot" else "positive"
    expected = np.stack([by_bisection(row, place, rho) for place, row in enumerate(asked)])
    weights = manifold_weights(asked, rho, symmetrise=False)  # type: ignore[arg-type]
    assert weights.dtype == np.float32
    np.testing.assert_allclose(weights, expected, atol=1e-4)


def test_known_values() -> None:
    # Of the three neighbours of the first mention, two are as near as can be; log2(3) - 1 are left for
    # the last: exp(-0.3 / σ) = log2(3) - 2 has no solution, so that its weight is 0.
    asked = np.array([[0, 0.1, 0.1, 0.4], [0.1, 0, 0.2, 0.4], [0.1, 0.2, 0, 0.4], [0.4, 0.4, 0.4, 0]])
    weights = manifold_weights(asked, symmetrise=False)
    np.testing.assert_array_equal(weights[0], [1, 1, 1, 0])
    np.testing.assert_array_equal(weights[3], [1, 1, 1, 1])
    assert weights[1, 0] == 1
    assert weights[1].sum() == pytest.approx(1 + math.log2(3), abs=mention_distances.TOLERANCE)


@pytest.mark.parametrize("rho", ["positive", "nearest"])
def test_equal_mentions_set_no_rho_as_printed(rho: Rho) -> None:
    """Of a repeated sentence and its near ones, only the released code gives the near ones less than 1."""
    draw = np.random.default_rng(2)
    vectors = draw.normal(size=(30, 6)).astype(np.float32)
    vectors[1] = vectors[0]
    asked = distances(MentionVectors(vectors), "encoder")
    weights = manifold_weights(asked, rho, symmetrise=False)
    nearest = np.sort(asked[0])[2]
    near = asked[0] == nearest
    assert (weights[0, near] == 1).all() == (rho == "positive")
    assert weights[0, :2].tolist() == [1, 1]
    exact = np.where(asked < 1e-6, 0, asked)
    expected = np.stack([by_bisection(row, place, rho) for place, row in enumerate(exact)])
    np.testing.assert_allclose(weights, expected, atol=1e-4)
    kept = nearest_weights([asked.copy()], np.arange(30), 30, rho).toarray()
    np.testing.assert_allclose(kept, weights, atol=1e-4)


def test_symmetrised_by_mean() -> None:
    asked = random_distances(30)
    rows = manifold_weights(asked, symmetrise=False)
    assert not np.allclose(rows, rows.T)
    np.testing.assert_allclose(manifold_weights(asked), (rows + rows.T) / 2, atol=1e-7)


@pytest.mark.parametrize("number", [0, 1, 2, 5])
def test_identical_mentions_are_all_neighbours(number: int) -> None:
    np.testing.assert_array_equal(manifold_weights(np.zeros((number, number))), np.ones((number, number)))


def test_groups_of_identical_mentions() -> None:
    groups = np.arange(40) // 20
    asked = np.where(groups[:, None] == groups, 0.0, 0.7)
    np.testing.assert_array_equal(manifold_weights(asked, "nearest"), groups[:, None] == groups)
    # As printed, the mentions of the other group are the nearest.
    np.testing.assert_array_equal(manifold_weights(asked), 1)


def test_sigma_goes_no_further_than_its_bounds() -> None:
    asked = random_distances(20).astype(np.float64) * 1e6
    weights = manifold_weights(asked, symmetrise=False)
    nearest = np.sort(asked, axis=1)[:, 1:2]
    expected = np.exp(-np.maximum(0, asked - nearest) / 1000)
    np.fill_diagonal(expected, 1)
    np.testing.assert_allclose(weights, expected, atol=1e-5)


def test_precision_of_large_distances() -> None:
    asked = random_distances(30).astype(np.float64)
    moved = manifold_weights(asked - 1e6, "nearest", symmetrise=False)
    np.testing.assert_allclose(moved, manifold_weights(asked, "nearest", symmetrise=False), atol=1e-4)


def test_memory_is_that_of_the_weights() -> None:
    number = 1500
    asked = random_distances(number)
    tracemalloc.start()
    manifold_weights(asked)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * asked.nbytes
