"""Baselines that count and that search words."""

from __future__ import annotations

import functools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from eventformers.baselines import get_baseline
from eventformers.baselines.bm25 import WEIGHTING, Bm25Index, words
from eventformers.baselines.chain_counts import (
    BigramScorer,
    CountSettings,
    PpmiScorer,
    ProtagonistScorer,
    count_chains,
    protagonist_role,
    shared_roles,
)
from eventformers.datasets_scripts.events import Event
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


def event(subject: str, predicate: str, object_: str = "") -> Event:
    return {"subject": subject, "predicate": predicate, "object": object_}


CHAINS = [
    [event("Police", "arrest", "Tom"), event("tom", "plead"), event("judge", "jail", "tom")],
    [event("police", "arrest", "ann"), event("ann", "plead")],
    [event("ann", "buy", "bread"), event("ann", "eat", "bread")],
]
COUNTS = count_chains(CHAINS, ["Tom", "ann", "ann"], CountSettings(window=2))


def test_pairs_are_counted_by_the_role_of_the_protagonist() -> None:
    fine, coarse = COUNTS[0, 0], COUNTS[1, 1]
    assert fine.pairs[("arrest", "object"), ("plead", "subject")] == 2
    assert fine.pairs[("arrest", "object"), ("jail", "object")] == 1
    assert fine.total == coarse.total == 5
    assert coarse.first[("arrest",)] == 3


def test_a_window_of_one_counts_neighbours_alone() -> None:
    fine = count_chains(CHAINS, ["Tom", "ann", "ann"], CountSettings(window=1))[0, 0]
    assert fine.pairs[("arrest", "object"), ("jail", "object")] == 0
    assert fine.total == 4


def test_ppmi_is_worked_out_by_hand() -> None:
    pair = (event("police", "arrest", "max"), event("max", "plead"))
    # 5 pairs have 10 ends, 3 of them arrest and 3 plead; 2 of the pairs are of both.
    pmi = math.log((2 / 5 / 2) / (3 / 10 * 3 / 10))
    expected = pmi * 2 / 3 * 3 / 4
    scorer = PpmiScorer(COUNTS)
    assert scorer.pair(*pair) == pytest.approx(expected)
    assert scorer.pair(*reversed(pair)) == pytest.approx(expected)


def test_ppmi_goes_to_coarser_keys_by_steps() -> None:
    settings = CountSettings(back_off=0.5, unshared=0.25)
    scorer = PpmiScorer(COUNTS, settings)
    exact = scorer.pair(event("police", "arrest", "max"), event("max", "plead"))
    other_role = scorer.pair(event("max", "arrest", "eve"), event("max", "plead"))
    other_preposition = scorer.pair(event("police", "arrest in", "max"), event("max", "plead for"))
    unshared = scorer.pair(event("police", "arrest", "max"), event("eve", "plead"))
    assert (other_role, other_preposition) == pytest.approx((exact / 2, exact / 4))
    assert unshared == pytest.approx(exact / 4)
    assert scorer.pair(event("a", "fly"), event("a", "swim")) == 0


def test_a_bigram_is_worked_out_by_hand() -> None:
    scorer = BigramScorer(COUNTS, CountSettings(history_weight=2.0))
    # Outcomes: plead 2, jail 2, eat 1, of 5, and one more for each and for the unseen.
    prior = (2 + 1) / (5 + 3 + 1)
    expected = prior
    for _ in range(3):
        expected = (2 + 2 * expected) / (3 + 2)
    assert scorer.pair(event("police", "arrest", "max"), event("max", "plead")) == pytest.approx(expected)


def test_a_bigram_knows_the_order() -> None:
    scorer = BigramScorer(COUNTS)
    first, second = event("police", "arrest", "max"), event("max", "plead")
    assert scorer.pair(first, second) > scorer.pair(second, first)


def test_probabilities_of_all_outcomes_sum_to_one() -> None:
    scorer = BigramScorer(COUNTS)
    before = event("police", "arrest", "max")
    outcomes = [event("max", "plead"), event("judge", "jail", "max"), event("max", "eat")]
    unseen = scorer.pair(before, event("max", "swim"))
    assert sum(scorer.pair(before, outcome) for outcome in outcomes) + unseen == pytest.approx(1)


def test_scores_are_sums_over_the_context() -> None:
    context = [event("police", "arrest", "max"), event("max", "plead")]
    choices = [event("judge", "jail", "max"), event("max", "eat", "bread")]
    for scorer, combine in ((PpmiScorer(COUNTS), lambda value: value), (BigramScorer(COUNTS), math.log)):
        (scores,) = scorer.score_choices([context], [choices])
        expected = [sum(combine(scorer.pair(one, choice)) for one in context) for choice in choices]
        assert scores.tolist() == pytest.approx(expected)
        (matrix,) = scorer.similarities([context], [choices])
        assert matrix.shape == (2, 2)
        assert matrix[1, 0] == scorer.pair(context[1], choices[0]) + (scorer.name == "ppmi")


def test_pronouns_and_absent_roles_are_never_shared() -> None:
    assert shared_roles(event("he", "run"), event("He", "fall")) == []
    assert shared_roles(event("run", "stop"), event("", "stop")) == []
    assert shared_roles(event("Tom", "see", "ann"), event("ann", "see", "tom")) == [
        ("subject", "object"),
        ("object", "subject"),
    ]


def test_a_protagonist_of_another_name_has_no_role() -> None:
    assert protagonist_role(event("the old king", "sleep"), "king") == ""
    assert protagonist_role(event("ann", "see", "Tom"), "tom") == "object"


@pytest.mark.parametrize(
    "settings", [{"window": 0}, {"back_off": 0}, {"unshared": 1.5}, {"history_weight": 0}]
)
def test_a_setting_out_of_range_is_refused(settings: dict[str, float]) -> None:
    with pytest.raises(EventformersError, match="accepted"):
        CountSettings(**settings)  # type: ignore[arg-type]


def test_chains_of_one_event_are_refused() -> None:
    with pytest.raises(EventformersError, match="no chain of two events"):
        count_chains([[event("a", "b")]], ["a"])


def _event(subject: str, predicate: str, object_: str = "") -> Event:
    return {"subject": subject, "predicate": predicate, "object": object_}


CONTEXT = [
    _event("Tom", "saw", "Ann"),
    _event("tom", "ran"),
    _event("", "rained"),
    _event("Bob", "hit", "tom"),
]


def test_the_argument_counts_in_its_role_and_in_any_case() -> None:
    choices = [
        _event("TOM", "slept"),
        _event("dog", "bit", "Tom"),
        _event("Ann", "left"),
        _event("", "thundered"),
        _event("Bob", "met", "Ann"),
    ]
    (scores,) = ProtagonistScorer().score_choices([CONTEXT], [choices])
    assert scores.tolist() == [2, 1, 0, 0, 1]


def test_transitions_count_the_roles_with_the_same_argument() -> None:
    targets = [_event("Tom", "met", "Ann"), _event("Ann", "met", "Tom"), _event("tom", "rose")]
    (matrix,) = ProtagonistScorer().similarities([CONTEXT[:3]], [targets])
    assert matrix.tolist() == [[3, 1, 2], [2, 1, 2], [1, 1, 1]]


def test_it_is_scored_on_chain_tasks_without_training() -> None:
    for task in ("mcnc", "mcns_v"):
        result = get_baseline("protagonist")(task)
        assert 0 <= result.main_value <= 100
        assert result.model == "protagonist"
        assert result.seed is None


def test_it_is_the_mean_over_questions_with_other_numbers_of_choices(tmp_path: Path) -> None:
    questions = [
        {
            "id": str(count),
            "answerKey": "A",
            "question": {
                "stem": "Where?",
                "choices": [{"label": letter, "text": f"in {letter}"} for letter in "ABCDE"[:count]],
            },
        }
        for count in (2, 4, 5)
    ]
    (tmp_path / "dev_rand_split.jsonl").write_text("\n".join(map(json.dumps, questions)) + "\n")
    result = get_baseline("random")("csqa", tmp_path, output=tmp_path / "out")
    assert result.main_value == pytest.approx(100 * (1 / 2 + 1 / 4 + 1 / 5) / 3)
    assert [row["chance"] for row in result.predictions] == [1 / 2, 1 / 4, 1 / 5]
    assert len(list((tmp_path / "out" / "results").rglob("csqa.json"))) == 1


def test_completion_is_refused() -> None:
    with pytest.raises(EventformersError, match=r"random does not support .*; accepted: copa, siqa, csqa"):
        get_baseline("random")("conceptnet_completion")
