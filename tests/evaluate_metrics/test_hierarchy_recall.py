from __future__ import annotations

import numpy as np
import pytest

from eventformers.evaluate_metrics import load_metric
from eventformers.evaluate_metrics.hierarchy_recall.hierarchy_recall_impl import RECALL_AT, hierarchy_recall

PATH = ["landing", "campaign", "war"]


def test_scores_by_hand():
    predictions = [
        ["war", "landing", "campaign"],
        ["a", "siege"],
        ["a", "b", "c", "landing", "campaign", "d", "e", "f", "war"],
        [],
    ]
    references = [PATH, ["siege"], PATH, ["siege"]]
    expected = {"recall_at_min": 25.0}
    expected |= {"recall_at_4": 50.0, "recall_at_8": 50.0, "recall_at_16": 75.0}
    expected |= {"fraction_at_4": 100 * (1 + 1 + 1 / 3) / 4, "fraction_at_8": 100 * (1 + 1 + 2 / 3) / 4}
    expected |= {"fraction_at_16": 75.0}
    expected |= {f"atomic_at_{depth}": 75.0 for depth in RECALL_AT}
    assert hierarchy_recall(predictions, references) == pytest.approx(expected)
    computed = load_metric("hierarchy_recall").compute(predictions=predictions, references=references)
    assert computed == pytest.approx(expected)


def test_of_one_gold_event_recall_at_min_is_recall_at_1():
    assert hierarchy_recall([["a", "b"]], [["a"]])["recall_at_min"] == 100.0
    assert hierarchy_recall([["a", "b"]], [["b"]])["recall_at_min"] == 0.0


def test_the_first_gold_event_alone_is_atomic():
    assert hierarchy_recall([["war"]], [["landing", "war"]])["atomic_at_4"] == 0.0
    assert hierarchy_recall([["landing"]], [["landing", "war"]])["atomic_at_4"] == 100.0


def test_it_is_the_loop_over_mentions_and_depths():
    draw = np.random.default_rng(0)
    ids = np.array([f"Q{number}" for number in range(30)])
    predictions = [draw.permutation(ids)[: draw.integers(0, 25)].tolist() for _ in range(200)]
    references = [draw.permutation(ids)[: draw.integers(1, 5)].tolist() for _ in range(200)]
    scores = hierarchy_recall(predictions, references)
    pairs = list(zip(predictions, references, strict=True))
    assert scores["recall_at_min"] == pytest.approx(
        100 * np.mean([set(gold) <= set(found[: len(gold)]) for found, gold in pairs])
    )
    for depth in RECALL_AT:
        shares = [len(set(gold) & set(found[:depth])) / len(gold) for found, gold in pairs]
        assert scores[f"fraction_at_{depth}"] == pytest.approx(100 * np.mean(shares))
        assert scores[f"recall_at_{depth}"] == pytest.approx(100 * np.mean([share == 1 for share in shares]))
        atomic = [gold[0] in found[:depth] for found, gold in pairs]
        assert scores[f"atomic_at_{depth}"] == pytest.approx(100 * np.mean(atomic))
        assert scores[f"recall_at_{depth}"] <= scores[f"atomic_at_{depth}"]


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        ([], [], "at least one"),
        ([["a"]], [["a"], ["b"]], "1 mentions and references 2"),
        ([["a"], ["b"]], [["a"], []], "references of mention 1 are empty"),
        ([["a", "b", "a"]], [["b"]], "predictions of mention 0 has 'a' twice"),
        ([["a"]], [["b", "b"]], "references of mention 0 has 'b' twice"),
        ([["a", 3]], [["a"]], "predictions of mention 0 has 3; accepted: ids, which are strings"),
        ([[""]], [["a"]], "has ''"),
        (["ab"], [["a"]], "is the string 'ab'; accepted: a list"),
    ],
)
def test_what_cannot_be_scored_is_refused(predictions, references, message):
    with pytest.raises(ValueError, match=message):
        hierarchy_recall(predictions, references)
