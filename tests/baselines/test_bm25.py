"""BM25 over events: the formula, words in many scripts, pools and ties."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from eventformers.baselines.bm25 import WEIGHTING, Bm25Index, words
from eventformers.errors import EventformersError

TEXTS = ["Battle of the Somme", "Battle of Verdun . Battle on the Meuse", "Siege of Paris", "Treaty"]
EVENTS = ["somme", "verdun", "paris", "treaty"]


read = functools.cache(words)


def slow_score(query: str, text: str, texts: list[str], saturation: float, length_share: float) -> float:
    """BM25 of a query and a text, word by word."""
    mean = sum(len(read(one)) for one in texts) / len(texts)
    score = 0.0
    for word in read(query):
        having = sum(word in read(one) for one in texts)
        count = read(text).count(word)
        rarity = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        long = 1 - length_share + length_share * len(read(text)) / mean
        score += rarity * count / (count + saturation * long) if count else 0
    return score


@pytest.mark.parametrize(("saturation", "length_share"), [(1.2, 0.75), (0.0, 0.0), (2.0, 1.0)])
def test_scores_are_those_of_the_formula(
    saturation: float, length_share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WEIGHTING, "saturation", saturation)
    monkeypatch.setitem(WEIGHTING, "length_share", length_share)
    index = Bm25Index(EVENTS, TEXTS)
    query = "The battle, the battle of the Meuse"
    found = index.search([query], 4)
    scores = dict(zip(found.ids(index.event_ids)[0], found.scores[0].tolist(), strict=False))
    expected = {
        event: slow_score(query, text, TEXTS, saturation, length_share)
        for event, text in zip(EVENTS, TEXTS, strict=True)
    }
    assert scores == pytest.approx({event: score for event, score in expected.items() if score})
    assert list(scores) == sorted(scores, key=lambda event: -expected[event])


def test_scores_are_those_of_gensim() -> None:
    gensim = pytest.importorskip("gensim", reason="gensim is not installed; it is in the extra 'baselines'")
    from gensim.models import LuceneBM25Model

    dictionary = gensim.corpora.Dictionary([words(text) for text in TEXTS])
    bags = [dictionary.doc2bow(words(text)) for text in TEXTS]
    model = LuceneBM25Model(dictionary=dictionary, k1=1.2, b=0.75)
    query = dictionary.doc2idx(words("battle of the siege"))
    index = Bm25Index(EVENTS, TEXTS)
    found = index.search(["battle of the siege"], 4)
    scores = dict(zip(found.ids(index.event_ids)[0], found.scores[0].tolist(), strict=False))
    for event, bag in zip(EVENTS, bags, strict=True):
        weights = dict(model[bag])
        assert scores.get(event, 0) == pytest.approx(sum(weights.get(word, 0) for word in query), rel=1e-5)


def test_an_event_without_a_shared_word_is_no_candidate() -> None:
    found = Bm25Index(EVENTS, TEXTS).search(["treaty of Paris", "elsewhere", ""], 4)
    assert found.ids(EVENTS) == [["treaty", "paris", "somme", "verdun"], [], []]
    assert np.isneginf(found.scores[1:]).all()


def test_equal_scores_keep_the_order_of_the_events() -> None:
    event_ids = [f"Q{number}" for number in range(50)]
    index = Bm25Index(event_ids, ["Super Bowl"] * 25 + ["Super Bowl final"] * 25)
    assert index.search(["the super bowl"], 30).ids(event_ids) == [event_ids[:30]]


def test_many_mentions_give_what_each_gives_alone() -> None:
    draw = np.random.default_rng(0)
    vocabulary = [f"w{number}" for number in range(30)]
    texts = [" ".join(draw.choice(vocabulary, draw.integers(0, 8))) for _ in range(60)]
    index = Bm25Index([f"Q{number}" for number in range(60)], texts)
    mentions = [" ".join(draw.choice(vocabulary, 5)) for _ in range(20)]
    together = index.search(mentions, 8)
    for row, mention in enumerate(mentions):
        alone = index.search([mention], 8)
        assert alone.events[0].tolist() == together.events[row].tolist()
        scores = [slow_score(mention, text, texts, 1.2, 0.75) for text in texts]
        assert together.scores[row, 0] == pytest.approx(max(scores), rel=1e-5)


def test_pools_by_language() -> None:
    index = Bm25Index(
        ["war", "war", "siege"], ["World War", "Weltkrieg", "Belagerung"], languages=["en", "de", "de"]
    )
    found = index.search(["der Weltkrieg", "Weltkrieg", "la guerre"], 2, languages=["de", "en", "fr"])
    assert found.ids(index.event_ids) == [["war"], [], []]
    assert found.without_pool == {"fr": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("D-Day: 6_June 1944!", ["d", "day", "6", "june", "1944"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("ＮＡＴＯ Cafe\u0301", ["nato", "caf\u00e9"]),
        ("हिन्दी युद्ध", ["हिन्दी", "युद्ध"]),
        ("الحرب العالمية", ["الحرب", "العالمية"]),
        ("மதுரைப் போர்", ["மதுரைப்", "போர்"]),
        ("東京2020オリンピック", ["東京", "2020", "オリ", "リン", "ンピ", "ピッ", "ック"]),
        ("戦", ["戦"]),
        ("สงคราม", ["สง", "งค", "คร", "รา", "าม"]),
        ("한국 전쟁", ["한국", "전쟁"]),
        ("", []),
    ],
)
def test_words_of_many_scripts(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_texts_without_words_find_nothing() -> None:
    assert Bm25Index(["a", "b"], ["...", ""]).search(["war"]).ids(["a", "b"]) == [[]]


def test_mistakes_are_refused() -> None:
    with pytest.raises(EventformersError, match="the knowledge base is empty"):
        Bm25Index([], [])
