"""Candidates come from the mention's pool, best first; approximate search tells its recall."""

from __future__ import annotations

import numpy as np
import pytest

from eventformers.errors import EventformersError
from eventformers.inference.encoding.vectors import Vectors
from eventformers.inference.search import candidate_index, vector_search
from eventformers.inference.search.candidate_index import CandidateIndex
from eventformers.inference.search.vector_search import SMALLEST

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
