"""Manifold weights: equal to a bisection row by row, and defined where a row has no solution."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

from eventformers.errors import EventformersError
from eventformers.inference.induction import mention_distances
from eventformers.inference.induction.mention_distances import (
    MentionVectors,
    distances,
    manifold_distances,
    manifold_weights,
)


def by_bisection(row: np.ndarray, place: int) -> np.ndarray:
    """The weights of one row, by Appendix H to the letter, in double precision."""
    row = row.astype(np.float64)
    remaining = np.sort(row)[1:]
    nearest = remaining[0]
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
    expected = np.stack([by_bisection(row, place) for place, row in enumerate(asked)])
    weights = manifold_weights(asked, symmetrise=False)
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


def test_symmetrised_by_mean() -> None:
    asked = random_distances(30)
    rows = manifold_weights(asked, symmetrise=False)
    assert not np.allclose(rows, rows.T)
    np.testing.assert_allclose(manifold_weights(asked), (rows + rows.T) / 2, atol=1e-7)
    np.testing.assert_allclose(manifold_distances(asked), 1 - manifold_weights(asked), atol=1e-7)


@pytest.mark.parametrize("number", [0, 1, 2, 5])
def test_identical_mentions_are_all_neighbours(number: int) -> None:
    np.testing.assert_array_equal(manifold_weights(np.zeros((number, number))), np.ones((number, number)))


def test_groups_of_identical_mentions() -> None:
    groups = np.arange(40) // 20
    asked = np.where(groups[:, None] == groups, 0.0, 0.7)
    np.testing.assert_array_equal(manifold_weights(asked), groups[:, None] == groups)


def test_sigma_goes_no_further_than_its_bounds() -> None:
    asked = random_distances(20).astype(np.float64) * 1e6
    weights = manifold_weights(asked, symmetrise=False)
    nearest = np.sort(asked, axis=1)[:, 1:2]
    expected = np.exp(-np.maximum(0, asked - nearest) / 1000)
    np.fill_diagonal(expected, 1)
    np.testing.assert_allclose(weights, expected, atol=1e-5)


def test_precision_of_large_distances() -> None:
    asked = random_distances(30).astype(np.float64)
    moved = manifold_weights(asked - 1e6, symmetrise=False)
    np.testing.assert_allclose(moved, manifold_weights(asked, symmetrise=False), atol=1e-4)


def test_memory_is_that_of_the_weights() -> None:
    number = 1500
    asked = random_distances(number)
    tracemalloc.start()
    manifold_weights(asked)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * asked.nbytes


def test_wrong_input_is_told() -> None:
    asked = random_distances(6)
    with pytest.raises(EventformersError, match=r"shape \(6, 5\)"):
        manifold_weights(asked[:, :5])
    asked[4, 2] = np.nan
    with pytest.raises(EventformersError, match="mention 4 are NaN"):
        manifold_weights(asked)
