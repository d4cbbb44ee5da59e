"""Exact search finds what a full sort of double-precision scores finds, whatever single precision shows."""

from __future__ import annotations

import numpy as np
import pytest

from eventformers.errors import EventformersError
from eventformers.inference.encoding import vectors as vector_arrays
from eventformers.inference.search import vector_search
from eventformers.inference.search.vector_search import ExactSearch


@pytest.fixture
def draw() -> np.random.Generator:
    return np.random.default_rng(0)


def full_sort(vectors: np.ndarray, queries: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores and positions by sorting every query's scores; equal scores keep their order."""
    products = [[np.dot(query, vector) for vector in vectors] for query in queries.astype(np.float64)]
    scores = np.array(products).astype(np.float32)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :number]
    return np.take_along_axis(scores, order, axis=1), order


def check(vectors: np.ndarray, queries: np.ndarray, number: int) -> None:
    found = ExactSearch(vectors).search(queries, number)
    scores, positions = full_sort(vectors, queries, number)
    np.testing.assert_array_equal(found.positions, positions)
    np.testing.assert_array_equal(found.scores, scores)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks, so that several are needed."""
    monkeypatch.setattr(vector_arrays, "_SPAN_BYTES", 4 * 24 * 150)
    monkeypatch.setattr(vector_search, "_BLOCK_FOUND", 100)
    monkeypatch.setattr(vector_search, "_PAIRS", 30)


@pytest.mark.usefixtures("small_blocks")
class TestFullSort:
    @pytest.mark.parametrize("number", [1, 8, 40, 500])
    def test_random_vectors(self, draw: np.random.Generator, number: int) -> None:
        vectors, queries = draw.normal(size=(421, 24)), draw.normal(size=(19, 24))
        check(vectors.astype(np.float32), queries.astype(np.float32), number)

    def test_vectors_that_nearly_all_point_one_way(self, draw: np.random.Generator) -> None:
        vectors = 10 + 1e-3 * draw.normal(size=(400, 24))
        queries = 10 + 1e-3 * draw.normal(size=(9, 24))
        check(vectors.astype(np.float32), queries.astype(np.float32), 8)

    def test_scores_that_single_precision_cannot_tell_apart(self, draw: np.random.Generator) -> None:
        vector = draw.normal(size=24)
        vectors = vector * (1 + 1e-7 * draw.normal(size=(400, 1)))
        check(vectors.astype(np.float32), draw.normal(size=(9, 24)).astype(np.float32), 8)

    @pytest.mark.parametrize("scale", [1.0, 2.0**-75])
    @pytest.mark.parametrize("place", [20, 399])
    def test_the_best_may_look_worst_in_low_precision(self, place: int, scale: float) -> None:
        # bfloat16 moves all entries of `high` up and all of `low` down, by half of what it tells apart at 1.
        signs, little = np.repeat([1.0, -1.0], 32), 2.0**-14
        high = np.concatenate((signs * (1 + 2.0**-8) + little, [0, 0]))
        low = np.concatenate((signs * (1 + 2.0**-8) - little, [2.0**-5, 0]))
        vectors = np.zeros((400, 66), dtype=np.float32)
        vectors[:, -1] = -4
        vectors[20:24] = low, -low, high, -high
        vectors[[place, 20]] = vectors[[20, place]]
        # Squares of the smaller ones are beyond single precision.
        vectors *= scale
        queries = np.ones((9, 66), dtype=np.float32)
        assert (ExactSearch(vectors).search(queries, 1).positions == place).all()
        check(vectors, queries, 1)

    def test_low_precision_moves_queries_too(self) -> None:
        query = np.append(np.repeat([1.0, -1.0], 32) * (1 + 2.0**-8) + 2.0**-14, [1, 1])
        vectors = np.zeros((400, 66), dtype=np.float32)
        vectors[:, -1] = -4
        vectors[20:24, -1] = 0
        vectors[20:22, :64] = [[1], [-1]]
        vectors[22:24, 64] = [2.0**-5, -(2.0**-5)]
        queries = np.repeat(query[None], 9, axis=0).astype(np.float32)
        assert (ExactSearch(vectors).search(queries, 1).positions == 22).all()
        check(vectors, queries, 1)

    def test_equal_vectors_keep_their_order(self, draw: np.random.Generator) -> None:
        vectors = draw.normal(size=(4, 24)).astype(np.float32)[draw.integers(4, size=400)]
        check(vectors, draw.normal(size=(9, 24)).astype(np.float32), 8)
        check(np.ones((400, 24), dtype=np.float32), np.ones((9, 24), dtype=np.float32), 8)

    @pytest.mark.parametrize("scale", [0.0, 1e-20, 1e12])
    def test_lengths_of_all_kinds(self, draw: np.random.Generator, scale: float) -> None:
        vectors = draw.normal(size=(400, 24)) * draw.choice([scale, 1.0], size=(400, 1))
        check(vectors.astype(np.float32), draw.normal(size=(9, 24)).astype(np.float32), 8)


def test_a_hundred_thousand_scores_of_a_query_and_a_block_of_its_own(draw: np.random.Generator) -> None:
    vectors = draw.normal(size=(100_000, 16)).astype(np.float32)
    queries = draw.normal(size=(3, 16)).astype(np.float32)
    check(vectors, queries, 8)


def test_few_are_scored_in_double_precision(
    draw: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = draw.normal(size=(20_000, 64)).astype(np.float32)
    search = ExactSearch(vectors)
    pairs = []
    score = search._score
    monkeypatch.setattr(search, "_score", lambda *given: pairs.append(given[1].size) or score(*given))
    search.search(draw.normal(size=(100, 64)).astype(np.float32), 8)
    assert 800 <= sum(pairs) < 100 * 200


def test_no_query_finds_nothing() -> None:
    found = ExactSearch(np.ones((3, 2), dtype=np.float32)).search(np.empty((0, 2), dtype=np.float32), 2)
    assert found.positions.shape == found.scores.shape == (0, 2)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1e16])
def test_what_has_no_product_is_refused(wrong: float) -> None:
    vectors = np.ones((5, 2), dtype=np.float32)
    vectors[3, 1] = wrong
    with pytest.raises(EventformersError, match="a vector has an entry of the size"):
        ExactSearch(vectors)
