from __future__ import annotations

import numpy as np
import pytest

from eventformers.evaluate_metrics import load_metric
from eventformers.evaluate_metrics.event_linking.event_linking_impl import event_linking


def test_scores_by_hand():
    predictions = [["war", "landing"], ["siege", "war"], []]
    references = [["landing", "war"], ["siege"], ["siege", "war"]]
    expected = {
        "strict_accuracy": 100 / 3,
        "macro_precision": 100 * (1 + 1 / 2 + 0) / 3,
        "macro_recall": 100 * (1 + 1 + 0) / 3,
        "macro_f1": 100 * 2 * (1 / 2) * (2 / 3) / (1 / 2 + 2 / 3),
        "micro_precision": 100 * 3 / 5,
        "micro_recall": 100 * 3 / 5,
        "micro_f1": 100 * 3 / 5,
    }
    assert event_linking(predictions, references) == pytest.approx(expected)
    computed = load_metric("event_linking").compute(predictions=predictions, references=references)
    assert computed == pytest.approx(expected)


def test_a_mention_that_is_linked_to_nothing_lowers_both_precisions():
    scores = event_linking([["a"], []], [["a"], ["b"]])
    assert scores["macro_precision"] == scores["micro_precision"] == 50.0


def test_all_linked_to_nothing_scores_zero():
    assert set(event_linking([[], []], [["a"], ["b"]]).values()) == {0.0}


def test_macro_f1_is_of_the_means_and_not_the_mean_of_each():
    scores = event_linking([["a", "b", "c", "d"], ["a"]], [["a"], ["a", "b", "c", "d"]])
    assert scores["macro_f1"] == pytest.approx(62.5)
    assert np.mean([2 * 0.25 / 1.25, 2 * 0.25 / 1.25]) == pytest.approx(0.4)


def test_order_and_repetition_mean_nothing():
    assert event_linking([["b", "a", "b"]], [["a", "b"]]) == event_linking([["a", "b"]], [["b", "a"]])


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        ([], [], "at least one"),
        ([["a"]], [["a"], ["b"]], "1 mentions and references 2"),
        ([["a"], ["b"]], [["a"], []], "references of mention 1 are empty"),
        ([["a", None]], [["b"]], "predictions of mention 0 has None"),
        ([["a"]], [[""]], "references of mention 0 has ''"),
        ([["a"]], ["a"], "references of mention 0 is the string 'a'; accepted: a list"),
    ],
)
def test_what_cannot_be_scored_is_refused(predictions, references, message):
    with pytest.raises(ValueError, match=message):
        event_linking(predictions, references)
