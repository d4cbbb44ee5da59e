"""Approximate search finds most of the exact neighbours, keeps its file, and follows vectors that change."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from eventformers.errors import EventformersError
from eventformers.inference.encoding.vectors import Vectors
from eventformers.inference.search import vector_search
from eventformers.inference.search.index_folder import IndexTable, earlier_places, open_search
from eventformers.inference.search.vector_search import ApproximateSearch, ExactSearch, read_search, shared


def clustered(number: int, seed: int = 0) -> Vectors:
    """Unit vectors around centres, as those of texts are."""
    draw = np.random.default_rng(seed)
    centres = np.random.default_rng(7).normal(size=(60, 16))
    vectors = centres[draw.integers(60, size=number)] + 0.4 * draw.normal(size=(number, 16))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


VECTORS = clustered(3_000)
TABLE = IndexTable(pa.table({}), VECTORS)


@pytest.fixture(scope="module")
def search() -> ApproximateSearch:
    return ApproximateSearch.build(VECTORS)


def test_most_neighbours_are_found_and_scores_are_exact(search: ApproximateSearch) -> None:
    queries = clustered(50, 1)
    found, exact = search.search(queries, 8), ExactSearch(VECTORS).search(queries, 8)
    assert shared(found.positions, exact.positions) > 0.8
    assert search.measure_recall() > 0.8
    scores = np.einsum("mkd,md->mk", VECTORS[found.positions], queries)
    np.testing.assert_allclose(found.scores, scores, rtol=1e-5)
    assert (np.diff(found.scores, axis=1) <= 0).all()


def test_recall_counts_neighbours_without_the_query() -> None:
    exact = np.array([[0, 1, 2], [1, 0, 2]])
    assert shared(np.array([[0, 1, 2], [1, 0, 2]]), exact) == 1
    assert shared(np.array([[0, 1, 9], [1, 8, 9]]), exact) == 0.5
    assert shared(np.array([[0, 1, 9], [1, 8, 9]]), exact, without=[0, 1]) == 0.25


def test_vectors_that_come_and_go(search: ApproximateSearch) -> None:
    draw = np.random.default_rng(3)
    kept = np.sort(draw.choice(3_000, 2_700, replace=False))
    new = clustered(400, 5)
    order = draw.permutation(3_100)
    places = np.concatenate([kept, np.full(400, -1)])[order]
    vectors = np.concatenate([VECTORS[kept], new])[order]
    moved = search.moved(vectors, places)
    assert moved.index.ntotal == 3_100
    assert moved.measure_recall() > 0.8
    # The codes of a kept vector are the same, so the search for it finds it at its new place.
    [found] = moved.search(vectors[:1], 1).positions
    assert found.tolist() == [0]
    everything = moved.search(vectors[:2], 3_100).positions
    assert set(everything[everything >= 0].tolist()) <= set(range(3_100))
    # The first search is as it was.
    assert search.index.ntotal == 3_000
    assert search.measure_recall() > 0.8


def test_a_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "events.ivf"
    built = open_search(tmp_path, "events", TABLE)
    assert built.recall == pytest.approx(built.measure_recall())
    monkeypatch.setattr(ApproximateSearch, "build", None)
    again = open_search(tmp_path, "events", TABLE)
    assert again.recall == built.recall
    queries = clustered(5, 1)
    assert np.array_equal(again.search(queries, 8).positions, built.search(queries, 8).positions)
    assert read_search(path, VECTORS[:-1]) is None
    data = path.read_bytes()
    for place in range(0, len(data), len(data) // 20):
        path.write_bytes(data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :])
        os.utime(path, ns=(0, place))
        assert read_search(path, VECTORS) is None
    path.write_bytes(data[:100])
    assert read_search(path, VECTORS) is None
    path.with_suffix(".recall").unlink()
    assert read_search(path, VECTORS) is None
    os.mkfifo(path.with_suffix(".recall"))
    assert read_search(path, VECTORS) is None


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "events.ivf").mkdir()
    with pytest.raises(EventformersError, match=r"events\.ivf"):
        open_search(tmp_path, "events", TABLE)


def test_blocks_change_nothing(search: ApproximateSearch, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = clustered(9, 1)
    expected = search.search(queries, 8)
    monkeypatch.setattr(vector_search, "_BLOCK_CANDIDATES", 2_048)
    assert np.array_equal(search.search(queries, 8).positions, expected.positions)


def test_earlier_places() -> None:
    def table(texts: list[str], numbers: list[int]) -> pa.Table:
        return pa.table({"text": pa.array(texts, pa.large_string()), "number": pa.array(numbers)})

    earlier = table(["a", "b", "c"], [1, 2, 3])
    # Only texts are compared: they are what a model encodes.
    assert earlier_places(table(["c", "d", "a"], [7, 8, 9]), earlier).tolist() == [2, -1, 0]
    assert earlier_places(table(["c"], [7]), earlier.slice(0, 0)).tolist() == [-1]
    assert earlier_places(earlier, None).tolist() == [-1, -1, -1]
