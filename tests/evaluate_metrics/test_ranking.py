from __future__ import annotations

import math

import numpy as np
import pytest

from eventformers.evaluate_metrics import load_metric
from eventformers.evaluate_metrics.ranking.ranking_impl import HITS_AT, ranking

INFINITE = float("inf")


def test_scores_by_hand():
    ranks = [1, 2.5, 10, INFINITE]
    expected = {"mrr": 100 * (1 + 0.4 + 0.1) / 4, "mean_rank": 4.5, "not_found": 1}
    expected |= {f"hits_at_{depth}": 25.0 for depth in (1,)}
    expected |= {f"hits_at_{depth}": 50.0 for depth in (3, 4, 5, 8)}
    expected |= {f"hits_at_{depth}": 75.0 for depth in (10, 15, 16, 50, 100)}
    assert ranking(ranks) == expected
    assert load_metric("ranking").compute(predictions=ranks) == expected


def test_hits_count_the_depth_itself_and_a_tie_across_it_is_a_miss():
    assert ranking([10.0])["hits_at_10"] == 100.0
    assert ranking([10.5])["hits_at_10"] == 0.0


def test_answers_never_found_count_as_misses():
    scores = ranking([INFINITE, INFINITE])
    assert scores["mrr"] == scores["hits_at_100"] == 0.0
    assert math.isnan(scores["mean_rank"])
    assert scores["not_found"] == 2


def test_it_is_the_loop_over_the_queries():
    ranks = np.random.default_rng(0).integers(2, 400, 300) / 2
    scores = ranking(ranks)
    assert scores["mrr"] == pytest.approx(100 * sum(1 / rank for rank in ranks) / 300)
    assert scores["mean_rank"] == pytest.approx(sum(ranks) / 300)
    for depth in HITS_AT:
        assert scores[f"hits_at_{depth}"] == pytest.approx(100 * sum(rank <= depth for rank in ranks) / 300)


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        ([], "at least one rank"),
        ([[1.0]], r"shape \(1, 1\)"),
        ([1.0, float("nan")], "1 values that are NaN or below 1, the first nan at index 1"),
        ([3.0, 0.0, 0.5], "2 values that are NaN or below 1, the first 0.0 at index 1"),
        ([-INFINITE], "the first -inf at index 0"),
    ],
)
def test_what_is_no_rank_is_refused(predictions, message):
    with pytest.raises(ValueError, match=message):
        ranking(predictions)
