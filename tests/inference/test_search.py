"""Search, exact, approximate and by words: candidates come from the mention's pool, best first."""

from __future__ import annotations

import os
from pathlib import Path

import forked
import numpy as np
import pyarrow as pa
import pytest

from eventformers.errors import EventformersError
from eventformers.inference.encoding import vectors as vector_arrays
from eventformers.inference.encoding.vectors import Vectors
from eventformers.inference.search import candidate_index, import_bm25s, vector_search
from eventformers.inference.search.candidate_index import CandidateIndex
from eventformers.inference.search.index_folder import IndexTable, earlier_places, open_search
from eventformers.inference.search.vector_search import (
    SMALLEST,
    ApproximateSearch,
    ExactSearch,
    read_search,
    shared,
)


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


def clustered(number: int, seed: int = 0) -> Vectors:
    """Unit vectors around centres, as those of texts are."""
    draw = np.random.default_rng(seed)
    centres = np.random.default_rng(7).normal(size=(60, 16))
    vectors = centres[draw.integers(60, size=number)] + 0.4 * draw.normal(size=(number, 16))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


CLUSTERED = clustered(3_000)
TABLE = IndexTable(pa.table({}), CLUSTERED)


@pytest.fixture(scope="module")
def search() -> ApproximateSearch:
    return ApproximateSearch.build(CLUSTERED)


def test_most_neighbours_are_found_and_scores_are_exact(search: ApproximateSearch) -> None:
    queries = clustered(50, 1)
    found, exact = search.search(queries, 8), ExactSearch(CLUSTERED).search(queries, 8)
    assert shared(found.positions, exact.positions) > 0.8
    assert search.measure_recall() > 0.8
    scores = np.einsum("mkd,md->mk", CLUSTERED[found.positions], queries)
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
    vectors = np.concatenate([CLUSTERED[kept], new])[order]
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
    assert read_search(path, CLUSTERED[:-1]) is None
    data = path.read_bytes()
    for place in range(0, len(data), len(data) // 20):
        path.write_bytes(data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :])
        os.utime(path, ns=(0, place))
        assert read_search(path, CLUSTERED) is None
    path.write_bytes(data[:100])
    assert read_search(path, CLUSTERED) is None
    path.with_suffix(".recall").unlink()
    assert read_search(path, CLUSTERED) is None
    os.mkfifo(path.with_suffix(".recall"))
    assert read_search(path, CLUSTERED) is None


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


EVENTS = ["landing", "war", "landing", "siege", "war"]
LANGUAGES = ["en", "en", "de", "de", "de"]
VECTORS = np.array([[1, 0], [0, 1], [3, 0], [0, 3], [2, 2]], dtype=np.float32)


@pytest.fixture
def index() -> CandidateIndex:
    return CandidateIndex(EVENTS, VECTORS, LANGUAGES)


def random_vectors(number: int, seed: int) -> Vectors:
    return np.random.default_rng(seed).normal(size=(number, 16)).astype(np.float32)


def test_each_mention_searches_the_pool_of_its_language(index: CandidateIndex) -> None:
    assert index.event_ids == ["landing", "war", "siege"]
    assert index.pools == {"de": 3, "en": 2}
    mentions = np.array([[2, 1], [2, 1], [1, 2]], dtype=np.float32)
    found = index.search(mentions, 3, languages=["en", "de", "de"])
    assert found.ids(index.event_ids) == [
        ["landing", "war"],
        ["landing", "war", "siege"],
        ["siege", "war", "landing"],
    ]
    assert found.scores.tolist() == [[2, 1, -np.inf], [6, 6, 3], [6, 6, 3]]
    assert found.events[0].tolist() == [0, 1, -1]
    assert found.without_pool == found.recall == {}


def test_a_language_without_events_is_counted(index: CandidateIndex) -> None:
    found = index.search(np.ones((3, 2), dtype=np.float32), 2, languages=["fr", "en", "fr"])
    assert found.ids(index.event_ids) == [[], ["landing", "war"], []]
    assert found.without_pool == {"fr": 2}


def test_one_pool_serves_every_language() -> None:
    index = CandidateIndex(["landing", "war"], VECTORS[:2])
    assert index.pools == {"": 2}
    found = index.search(np.array([[0, 1]], dtype=np.float32), 2, languages=["sw"])
    assert found.ids(index.event_ids) == [["war", "landing"]]


def test_a_pool_of_one_language_is_none_for_all() -> None:
    index = CandidateIndex(["landing", "war"], VECTORS[:2], ["en", "en"])
    assert index.search(VECTORS[:1], languages=["de"]).without_pool == {"de": 1}


def test_pools_give_what_each_alone_gives() -> None:
    draw = np.random.default_rng(0)
    languages = draw.choice(["en", "de", "ja"], 300).tolist()
    event_ids = [f"Q{number}" for number in range(300)]
    vectors, mentions = random_vectors(300, 1), random_vectors(50, 2)
    asked = draw.choice(["en", "de", "ja"], 50).tolist()
    index = CandidateIndex(event_ids, vectors, languages)
    found = index.search(mentions, 5, languages=asked).ids(index.event_ids)
    for language in ("en", "de", "ja"):
        rows = [row for row, own in enumerate(languages) if own == language]
        alone = CandidateIndex([event_ids[row] for row in rows], vectors[rows])
        of_language = [row for row, own in enumerate(asked) if own == language]
        assert alone.search(mentions[of_language], 5).ids(alone.event_ids) == [
            found[row] for row in of_language
        ]


def test_approximate_search_tells_its_recall() -> None:
    event_ids = [f"Q{number}" for number in range(3_000)]
    vectors, mentions = random_vectors(3_000, 1), random_vectors(400, 2)
    exact = CandidateIndex(event_ids, vectors, kind="exact").search(mentions, 8)
    found = CandidateIndex(event_ids, vectors, kind="ivf").search(mentions, 8)
    assert exact.recall == {}
    kept = [len(set(row) & set(right)) for row, right in zip(found.events, exact.events, strict=True)]
    assert 0.3 < found.recall[""] <= 1
    assert found.recall[""] == pytest.approx(sum(kept) / exact.events.size, abs=0.05)
    assert (np.diff(found.scores, axis=1) <= 0).all()


def test_an_approximate_search_that_finds_fewer_leaves_places_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_search, "PROBED", 1e-9)
    event_ids = [f"Q{number}" for number in range(SMALLEST)]
    index = CandidateIndex(event_ids, random_vectors(SMALLEST, 1), kind="ivf")
    found = index.search(random_vectors(20, 2), 200)
    assert ((found.events < 0) == np.isneginf(found.scores)).all()
    assert (found.events < 0).any()
    assert found.recall[""] < 1


def test_auto_searches_large_pools_approximately(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidate_index, "EXACT_UP_TO", SMALLEST)
    languages = ["en"] * (SMALLEST + 50) + ["de"] * SMALLEST
    event_ids = [f"Q{number}" for number in range(len(languages))]
    index = CandidateIndex(event_ids, random_vectors(len(languages), 1), languages)
    found = index.search(random_vectors(4, 2), 5, languages=["en", "de", "en", "de"])
    assert list(found.recall) == ["en"]


def test_pools_search_their_part_of_a_stored_search() -> None:
    number = 3 * SMALLEST
    vectors, mentions = random_vectors(number, 1), random_vectors(40, 2)
    languages = ["de"] * SMALLEST + ["en"] * (number - SMALLEST)
    event_ids = [f"Q{place}" for place in range(number)]
    stored = vector_search.ApproximateSearch(
        vectors, vector_search.ApproximateSearch.build(vectors).index, 0.875
    )
    index = CandidateIndex(event_ids, vectors, languages, kind="ivf", stored=lambda: stored)
    found = index.search(mentions, 8, languages=["de", "en"] * 20)
    assert found.recall == {"de": 0.875, "en": 0.875}
    places = np.array([[int(name[1:]) for name in row] for row in found.ids(index.event_ids)])
    assert (places[::2] < SMALLEST).all()
    assert (places[1::2] >= SMALLEST).all()
    scores = np.einsum("mkd,md->mk", vectors[places], mentions)
    np.testing.assert_allclose(found.scores, scores, rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], VECTORS[:0]), "the knowledge base is empty"),
        ((EVENTS, VECTORS), "2 events given several times among the candidates, the first 'landing'"),
        ((EVENTS, VECTORS, ["en"] * 3 + ["de"] * 2), "1 event given several times among the .* in 'en'"),
        ((EVENTS, np.full((5, 2), np.nan, dtype=np.float32), LANGUAGES), "size nan"),
    ],
)
def test_what_cannot_be_indexed_is_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(EventformersError, match=message):
        CandidateIndex(*arguments)


IMPORTS = """
import sys
import eventformers.baselines.bm25, eventformers.inference.induction.type_naming
raise SystemExit("bm25s is imported" if "bm25s" in sys.modules else 0)
"""


def test_nothing_imports_it_early(tmp_path: Path) -> None:
    done = forked.run_python(["-c", IMPORTS], cwd=tmp_path, server="libraries")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("given", "expected"), [(None, "false"), ("true", "true")])
def test_jax_takes_no_memory_unless_asked(
    given: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "XLA_PYTHON_CLIENT_PREALLOCATE"
    monkeypatch.setenv(name, given or "")
    if given is None:
        monkeypatch.delenv(name)
    assert "was" in import_bm25s("stopwords").STOPWORDS_EN_PLUS
    assert os.environ[name] == expected
