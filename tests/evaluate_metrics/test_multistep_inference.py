from __future__ import annotations

import pytest

from eventformers.evaluate_metrics import load_metric
from eventformers.evaluate_metrics.multistep_inference.multistep_inference_impl import multistep_inference


@pytest.mark.parametrize(
    ("predictions", "references", "expected"),
    [
        pytest.param(
            [[4, 0, 2]],
            [[4, 1, 2]],
            {"accuracy": 100 * 2 / 3, "step_accuracy": [100.0, 0.0, 100.0], "count": 1},
            id="one question",
        ),
        pytest.param(
            [[0, 1], [1, 1], [2, 0]],
            [[0, 1], [0, 1], [0, 1]],
            {"accuracy": 50.0, "step_accuracy": [100 / 3, 200 / 3], "count": 3},
            id="by position",
        ),
        pytest.param(
            [[0], [1, 1, 1]],
            [[0], [0, 0, 1]],
            {"accuracy": 50.0, "step_accuracy": [50.0, 0.0, 100.0], "count": 2},
            id="micro average where questions differ in length",
        ),
    ],
)
def test_scores_by_hand(predictions, references, expected):
    assert multistep_inference(predictions, references) == expected
    metric = load_metric("multistep_inference")
    assert metric.compute(predictions=predictions, references=references) == expected


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        ([], [], "at least one"),
        ([[0]], [[0], [1]], "1 questions and references 2"),
        ([[0, 1], [0]], [[0, 1], [0, 1]], "question 1 has 1 predictions and 2 references"),
        ([[]], [[]], "question 0 has 0 predictions"),
        ([[0, -1]], [[0, 1]], "a prediction of question 0 is -1; accepted: the index of a choice"),
        ([[0, 1]], [[0, 1.5]], "a reference of question 0 is 1.5"),
    ],
)
def test_what_cannot_be_scored_is_refused(predictions, references, message):
    with pytest.raises(ValueError, match=message):
        multistep_inference(predictions, references)
    if len(predictions) == len(references) > 0:
        with pytest.raises(ValueError, match=message):
            load_metric("multistep_inference").compute(predictions=predictions, references=references)
