"""PPMI and bigrams: values worked out by hand, dependencies, back-off."""

from __future__ import annotations

import math

import pytest

from eventformers.baselines.chain_counts import (
    BigramScorer,
    CountSettings,
    PpmiScorer,
    count_chains,
    protagonist_role,
    shared_roles,
)
from eventformers.datasets_scripts.events import Event
from eventformers.errors import EventformersError


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
