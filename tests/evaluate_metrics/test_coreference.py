from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest

from eventformers.evaluate_metrics import load_metric
from eventformers.evaluate_metrics.coreference.coreference_impl import coreference


def _clusters(labels: list[str]) -> list[set[int]]:
    return [
        {place for place, label in enumerate(labels) if label == one} for one in sorted(set(labels) - {""})
    ]


def _muc(ones: list[set[int]], others: list[set[int]]) -> float:
    present = set().union(*others)
    parts = [len([two for two in others if one & two]) + len(one - present) for one in ones]
    links = sum(len(one) - 1 for one in ones)
    return sum(len(one) - part for one, part in zip(ones, parts, strict=True)) / links if links else 0


def _b_cubed(ones: list[set[int]], others: list[set[int]]) -> float:
    return sum(len(one & two) ** 2 / len(one) for one in ones for two in others) / sum(map(len, ones))


def _ceafe(ones: list[set[int]], others: list[set[int]]) -> float:
    few, many = sorted((ones, others), key=len)
    return max(
        sum(2 * len(one & two) / (len(one) + len(two)) for one, two in zip(few, order, strict=True))
        for order in permutations(many, len(few))
    ) / len(ones)


def _lea(ones: list[set[int]], others: list[set[int]]) -> float:
    def links(cluster: set[int]) -> set[tuple[int, ...]]:
        return set(combinations(sorted(cluster), 2)) or {tuple(cluster)}

    kept = [sum(len(links(one) & links(two)) for two in others) / len(links(one)) for one in ones]
    return sum(len(one) * share for one, share in zip(ones, kept, strict=True)) / sum(map(len, ones))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("absent", [0.0, 0.2])
def test_scores_are_those_of_the_definitions(seed, absent):
    random = np.random.default_rng(seed)
    predicted, true = (
        [str(label) if random.random() >= absent else "" for label in random.integers(0, 6, 14)]
        for _ in range(2)
    )
    scores = coreference(predicted, true)
    ones, others = _clusters(true), _clusters(predicted)
    expected: dict[str, float] = {"num_clusters": len(others), "count": 14}
    for name, part in (("muc", _muc), ("b_cubed", _b_cubed), ("ceafe", _ceafe), ("lea", _lea)):
        recall, precision = 100 * part(ones, others), 100 * part(others, ones)
        expected[f"{name}_recall"], expected[f"{name}_precision"] = recall, precision
        total = recall + precision
        expected[f"{name}_f1"] = 2 * recall * precision / total if total else 0
    expected["conll_f1"] = sum(expected[f"{name}_f1"] for name in ("muc", "b_cubed", "ceafe")) / 3
    assert scores == pytest.approx(expected)
    assert load_metric("coreference").compute(predictions=predicted, references=true) == scores


@pytest.mark.parametrize(
    ("predicted", "true", "expected"),
    [
        pytest.param([5, 5, -2], "aab", {"conll_f1": 100, "lea_f1": 100}, id="the same"),
        pytest.param(
            [0, 1, 2], "abc", {"muc_f1": 0, "b_cubed_f1": 100, "ceafe_f1": 100, "lea_f1": 100}, id="alone"
        ),
        # Vilain et al. 1995: a chain of four in two parts.
        pytest.param([0, 0, 1, 1], "aaaa", {"muc_recall": 200 / 3, "muc_precision": 100}, id="divided"),
        # Moosavi and Strube 2016: no link of the true cluster is kept.
        pytest.param([0, 1], "aa", {"lea_recall": 0, "b_cubed_recall": 50}, id="no link"),
    ],
)
def test_known_values(predicted, true, expected):
    scores = coreference(predicted, list(true))
    assert {name: scores[name] for name in expected} == pytest.approx(expected)


def test_many_clusters_are_aligned():
    labels = np.arange(60_000) // 3
    scores = coreference(labels.tolist(), np.roll(labels, 1).tolist())
    # Each cluster shares two of its three mentions with one, and the third with another.
    assert scores["ceafe_f1"] == pytest.approx(200 / 3)


@pytest.mark.parametrize(
    ("predicted", "true", "message"),
    [
        ([], [], "predictions is empty"),
        (["", ""], ["a", "b"], "predictions is empty"),
        ([0, 1], ["a"], "2 values and references 1"),
        ([0, "a"], ["a", "b"], "'a' at index 1; accepted: an integer, as the first one"),
        ([0, 1], ["a", None], "None at index 1; accepted: the name of a cluster"),
        ([0.5, 1], ["a", "b"], "0.5 at index 0"),
    ],
)
def test_what_cannot_be_scored_is_refused(predicted, true, message):
    with pytest.raises(ValueError, match=message):
        coreference(predicted, true)
