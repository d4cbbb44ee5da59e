"""Candidates are ordered by other scores, and those that reach a threshold are linked."""

from __future__ import annotations

import numpy as np
import pytest

from eventformers.errors import EventformersError
from eventformers.inference.grounding.linking import (
    THRESHOLDS,
    LinkThreshold,
    choose_threshold,
    link,
    link_best,
)
from eventformers.inference.grounding.retrieve_rerank import (
    Ranked,
    check_retriever_weight,
    rerank,
    softmax_logits,
)
from eventformers.inference.search.candidate_index import Candidates

EVENTS = ["landing", "campaign", "war", "siege"]
NOTHING = -np.inf


def candidates(events: list[list[int]], scores: list[list[float]]) -> Candidates:
    return Candidates(np.array(events), np.array(scores, dtype=np.float32), {"fr": 1}, {"en": 0.5})


@pytest.fixture
def retrieved() -> Candidates:
    return candidates([[2, 0, 3], [3, 1, -1], [-1, -1, -1]], [[5, 4, 3], [2, 1, NOTHING], [NOTHING] * 3])


@pytest.mark.parametrize("pairs_at_once", [1, 2, 100])
def test_reranking_orders_by_the_scorer_and_keeps_the_order_of_ties(
    retrieved: Candidates, pairs_at_once: int
) -> None:
    asked = []

    def score(mentions: np.ndarray, events: np.ndarray) -> np.ndarray:
        asked.extend(zip(mentions.tolist(), events.tolist(), strict=True))
        return np.where(mentions == 0, np.array([7, 0, 1, 1])[events], 0)

    found = rerank(retrieved, score, pairs_at_once=pairs_at_once)
    assert asked == [(0, 2), (0, 0), (0, 3), (1, 3), (1, 1)]
    assert found.events.tolist() == [[0, 2, 3], [3, 1, -1], [-1, -1, -1]]
    assert found.scores.tolist() == [[7, 1, 1], [0, 0, NOTHING], [NOTHING] * 3]
    assert (found.without_pool, found.recall) == ({"fr": 1}, {"en": 0.5})


def test_of_many_equal_scores_the_order_stays() -> None:
    events = np.random.default_rng(0).permutation(200)[None]
    found = rerank(Candidates(events, np.zeros((1, 200), dtype=np.float32)), lambda _, event: event % 2)
    assert found.events[0].tolist() == [*events[events % 2 == 1], *events[events % 2 == 0]]


def test_a_candidate_of_the_lowest_score_stays_a_candidate(retrieved: Candidates) -> None:
    found = rerank(retrieved, lambda mentions, events: np.where(events == 3, NOTHING, 0.0))
    assert found.events.tolist() == [[2, 0, 3], [1, 3, -1], [-1, -1, -1]]


def test_logits_of_a_softmax() -> None:
    """The logistic function gives the share of each candidate among those of its mention."""
    scores = np.array([[3.0, 1.0, 0.5], [2.0, NOTHING, NOTHING], [NOTHING] * 3, [900.0, 0.0, -900.0]])
    logits = softmax_logits(scores.astype(np.float32))
    shares = 1 / (1 + np.exp(-logits.astype(np.float64)))
    powers = np.exp(scores[0])
    np.testing.assert_allclose(shares[0], powers / powers.sum(), rtol=1e-5)
    assert logits[0, 1] == pytest.approx(1 - np.log(np.exp(3) + np.exp(0.5)), rel=1e-5)
    assert shares[1].tolist() == pytest.approx([1, 0, 0])
    assert (logits[2] == NOTHING).all()
    assert np.isfinite(logits[3]).all()
    assert (np.diff(logits[3]) < 0).all()


def test_reranking_by_a_scorer_that_learned_by_a_softmax(retrieved: Candidates) -> None:
    def score(mentions: np.ndarray, events: np.ndarray) -> np.ndarray:
        return np.array([7.0, 5.0, 6.0, 5.0])[events]

    found, plain = rerank(retrieved, score, softmax=True), rerank(retrieved, score)
    assert found.events.tolist() == plain.events.tolist() == [[0, 2, 3], [3, 1, -1], [-1, -1, -1]]
    np.testing.assert_array_equal(found.scores, softmax_logits(plain.scores))
    # By a sigmoid all of them would reach it.
    assert link(found, EVENTS, 0.4) == [["landing"], ["siege", "campaign"], []]


@pytest.mark.parametrize("pairs_at_once", [1, 2, 100])
def test_reranking_with_the_retrievers_score_beside_it(retrieved: Candidates, pairs_at_once: int) -> None:
    def score(mentions: np.ndarray, events: np.ndarray) -> np.ndarray:
        return np.array([1.0, 3.0, 0.0, 2.0])[events]

    found = rerank(retrieved, score, retriever_weight=2, pairs_at_once=pairs_at_once)
    assert found.events.tolist() == [[2, 0, 3], [3, 1, -1], [-1, -1, -1]]
    assert found.scores.tolist() == [[10, 9, 8], [6, 5, NOTHING], [NOTHING] * 3]
    assert rerank(retrieved, score).events.tolist() == [[3, 0, 2], [1, 3, -1], [-1, -1, -1]]
    shares = rerank(retrieved, score, retriever_weight=2, softmax=True, pairs_at_once=pairs_at_once)
    np.testing.assert_array_equal(shares.scores, softmax_logits(found.scores))


@pytest.mark.parametrize("weight", [-1, float("nan"), float("inf"), "much", True, None])
def test_a_weight_is_a_number(weight: object) -> None:
    check_retriever_weight(0)
    check_retriever_weight(2.5)
    with pytest.raises(EventformersError, match=r"retriever_weight: found .*; accepted: a number from 0"):
        check_retriever_weight(weight)  # type: ignore[arg-type]


def test_those_that_reach_the_threshold_are_linked() -> None:
    scored = candidates([[2, 0, 3], [3, 1, -1], [-1, -1, -1]], [[1, 0, -1], [-2, -3, NOTHING], [NOTHING] * 3])
    assert link(scored, EVENTS, 0.5) == [["war", "landing"], [], []]
    assert link(scored, EVENTS, 0.1) == [["war", "landing", "siege"], ["siege"], []]


def test_as_many_as_there_are_gold_events_are_linked(retrieved: Candidates) -> None:
    assert link_best(retrieved, EVENTS, [2, 3, 1]) == [["war", "landing"], ["siege", "campaign"], []]


def test_the_threshold_has_the_highest_product() -> None:
    scored = candidates([[0, 1, 2], [3, 2, 1]], [[3, 2, -1], [3, -1, -9]])
    gold = [["landing", "campaign"], ["siege"]]
    chosen = choose_threshold(scored, EVENTS, gold)
    assert list(chosen.products) == list(THRESHOLDS)
    # At 0.3 to 0.7 all is right, 0.9 loses one event, 0.1 adds two.
    assert [chosen.products[threshold] for threshold in (0.3, 0.5, 0.7)] == pytest.approx([1, 1, 1])
    assert chosen.threshold == 0.7
    assert chosen.products[0.9] == pytest.approx(0.5 * (2 * 1 * 0.75 / 1.75) * (2 * 1 * (2 / 3) / (5 / 3)))
    assert chosen.products[0.1] == 0


def test_where_no_mention_is_right_as_a_whole_the_f1_scores_decide() -> None:
    scored = candidates([[0, 3]], [[0, -3]])
    chosen = choose_threshold(scored, EVENTS, [["landing", "war"]])
    assert set(chosen.products.values()) == {0}
    assert chosen.threshold == 0.5


def test_gold_that_was_no_candidate_counts_as_missed() -> None:
    gold = [["landing", "war"], ["campaign"]]
    chosen = choose_threshold(candidates([[0], [1]], [[3], [3]]), EVENTS, gold)
    # Strict accuracy 1/2; macro recall 3/4 and micro recall 2/3, both with precision 1.
    assert chosen.products[0.5] == pytest.approx(0.5 * (2 * 0.75 / 1.75) * (2 * (2 / 3) / (5 / 3)))


def test_the_first_candidate_is_linked_where_it_reaches_the_threshold() -> None:
    of_index = candidates([[2, 0], [3, 1], [-1, -1]], [[0.7, 0.6], [0.4, 0.3], [NOTHING] * 2])
    scored = Ranked(of_index, of_index)
    for least, linked in ((0.5, [["war"], [], []]), (0.4, [["war"], ["siege"], []])):
        assert LinkThreshold(least, "learned", False).link(scored, EVENTS) == linked
    assert LinkThreshold(None, "none", False).link(scored, EVENTS) == [["war"], ["siege"], []]
    assert LinkThreshold(0.3, "given", False).link(scored, EVENTS) == [
        ["war", "landing"],
        ["siege", "campaign"],
        [],
    ]


def test_a_floor_is_for_the_scores_of_the_index() -> None:
    """The candidate that a reranker prefers is linked only if the index gave it the least score."""
    found = candidates([[2, 0], [3, 1], [-1, -1]], [[0.7, 0.6], [0.4, 0.3], [NOTHING] * 2])
    reranked = candidates([[0, 2], [1, 3], [-1, -1]], [[4, 3], [5, -5], [NOTHING] * 2])
    both = Ranked(found, reranked)
    for floor, linked in (
        (None, [["landing", "war"], ["campaign"], []]),
        (0.65, [["war"], [], []]),
        (0.3, [["landing", "war"], ["campaign"], []]),
    ):
        assert LinkThreshold(0.5, "learned", True, floor=floor).link(both, EVENTS) == linked
