from __future__ import annotations

import pytest

from eventformers.evaluate_metrics import load_metric
from eventformers.evaluate_metrics.hard_similarity.hard_similarity_impl import hard_similarity


@pytest.mark.parametrize(
    ("similar", "dissimilar", "expected"),
    [
        pytest.param([0.9], [0.1], {"accuracy": 100.0, "ties": 0, "count": 1}, id="right"),
        pytest.param([0.1], [0.9], {"accuracy": 0.0, "ties": 0, "count": 1}, id="wrong"),
        pytest.param([0.5, 0.9], [0.5, 0.1], {"accuracy": 50.0, "ties": 1, "count": 2}, id="a tie is wrong"),
        pytest.param(
            [0.5, 0.5 + 1e-9], [0.5, 0.5], {"accuracy": 50.0, "ties": 1, "count": 2}, id="double precision"
        ),
        pytest.param([-0.1, -0.9], [-0.9, -0.1], {"accuracy": 50.0, "ties": 0, "count": 2}, id="negative"),
    ],
)
def test_scores_by_hand(similar, dissimilar, expected):
    assert hard_similarity(similar, dissimilar) == expected
    assert load_metric("hard_similarity").compute(similar=similar, dissimilar=dissimilar) == expected


@pytest.mark.parametrize(
    ("similar", "dissimilar", "message"),
    [
        ([], [], "at least one number"),
        (
            [0.1, float("nan")],
            [0.1, 0.2],
            "similar has 1 .* NaN or infinite, the first at index 1",
        ),
        ([0.1, 0.2], [float("inf"), 0.2], "dissimilar has 1 .* index 0"),
        ([0.1, 0.2], [0.1], "2 values and dissimilar 1"),
        ([[0.1], [0.2]], [0.1, 0.2], r"shape \(2, 1\)"),
    ],
)
def test_what_cannot_be_scored_is_refused(similar, dissimilar, message):
    with pytest.raises(ValueError, match=message):
        hard_similarity(similar, dissimilar)


def test_batches_add_up():
    metric = load_metric("hard_similarity")
    metric.add_batch(similar=[0.9, 0.1], dissimilar=[0.1, 0.9])
    metric.add_batch(similar=[0.9], dissimilar=[0.1])
    scores = metric.compute()
    assert scores["accuracy"] == pytest.approx(200 / 3)
    assert scores["count"] == 3
