from __future__ import annotations

import pytest

from eventformers.evaluate_metrics import load_metric
from eventformers.evaluate_metrics.mcnc.mcnc_impl import mcnc


@pytest.mark.parametrize(
    ("predictions", "references", "expected"),
    [
        pytest.param([[0.1, 0.9]], [1], {"accuracy": 100.0, "ties": 0, "count": 1}, id="right"),
        pytest.param([[0.1, 0.9]], [0], {"accuracy": 0.0, "ties": 0, "count": 1}, id="wrong"),
        pytest.param(
            [[0.2, 0.9, 0.9], [0.2, 0.9, 0.9]],
            [1, 2],
            {"accuracy": 50.0, "ties": 2, "count": 2},
            id="the first of a tie is chosen",
        ),
        pytest.param([[0.5, 0.5, 0.9]], [2], {"accuracy": 100.0, "ties": 0, "count": 1}, id="lower tie"),
        pytest.param(
            [[-0.1, -0.9], [3.0, 1.0, 2.0, 5.0, 4.0]],
            [0, 3],
            {"accuracy": 100.0, "ties": 0, "count": 2},
            id="different numbers of choices",
        ),
    ],
)
def test_scores_by_hand(predictions, references, expected):
    assert mcnc(predictions, references) == expected
    assert load_metric("mcnc").compute(predictions=predictions, references=references) == expected


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        ([], [], "at least one"),
        ([[0.1, 0.2]], [0, 1], "1 questions and references 2"),
        ([[0.1, 0.2], [0.5]], [0, 0], r"question 1 have shape \(1,\); accepted: .* two or more choices"),
        ([[0.1, float("nan")]], [0], "question 0 hold a value that is NaN"),
        ([[0.1, float("inf")]], [0], "NaN or infinite"),
        ([[0.1, 0.2]], [2], "reference of question 0 is 2; accepted: .* 0 to 1"),
        ([[0.1, 0.2]], [-1], "reference of question 0 is -1"),
        ([[0.1, 0.2]], [0.7], "reference of question 0 is 0.7"),
    ],
)
def test_what_cannot_be_scored_is_refused(predictions, references, message):
    with pytest.raises(ValueError, match=message):
        mcnc(predictions, references)
    if len(predictions) == len(references) > 0:
        with pytest.raises(ValueError, match=message):
            load_metric("mcnc").compute(predictions=predictions, references=references)
