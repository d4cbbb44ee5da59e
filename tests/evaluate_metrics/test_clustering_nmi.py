from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from eventformers.evaluate_metrics import load_metric
from eventformers.evaluate_metrics.clustering_nmi.clustering_nmi_impl import clustering_nmi

KEYS = [
    "nmi",
    "fowlkes_mallows",
    "completeness",
    "homogeneity",
    "v_measure",
    "ari",
    "purity",
    "type_representation",
    "num_clusters",
]


def _entropy(names) -> float:
    return -sum(share * math.log(share) for share in (names.count(one) / len(names) for one in set(names)))


def _by_hand(clusters: list[int], types: list[str]) -> dict[str, float]:
    """The measures by their definitions, with loops over pairs."""
    information = _entropy(clusters) + _entropy(types) - _entropy(list(zip(clusters, types, strict=True)))
    homogeneity, completeness = information / _entropy(types), information / _entropy(clusters)
    together = [
        (clusters[one] == clusters[other], types[one] == types[other])
        for one, other in combinations(range(len(clusters)), 2)
    ]
    both = sum(near and same for near, same in together)
    near, same = (sum(column) for column in zip(*together, strict=True))
    expected = near * same / len(together)
    members = [
        [name for cluster, name in zip(clusters, types, strict=True) if cluster == one]
        for one in sorted(set(clusters))
    ]
    majorities = [
        min(set(names), key=lambda name, names=names: (-names.count(name), name)) for names in members
    ]
    return {
        "nmi": 100 * information / math.sqrt(_entropy(types) * _entropy(clusters)),
        "fowlkes_mallows": 100 * both / math.sqrt(near * same),
        "completeness": 100 * completeness,
        "homogeneity": 100 * homogeneity,
        "v_measure": 200 * homogeneity * completeness / (homogeneity + completeness),
        "ari": 100 * (both - expected) / ((near + same) / 2 - expected),
        "purity": 100
        * sum(names.count(name) / len(names) for names, name in zip(members, majorities, strict=True))
        / len(members),
        "type_representation": 100 * len(set(majorities)) / len(set(types)),
        "num_clusters": len(members),
    }


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_the_definitions(seed):
    random = np.random.default_rng(seed)
    clusters = random.integers(-2, 5, 40).tolist()
    types = [f"type {number}" for number in random.integers(0, 6, 40)]
    expected = pytest.approx(_by_hand(clusters, types))
    assert clustering_nmi(clusters, types) == expected
    scores = load_metric("clustering_nmi").compute(predictions=clusters, references=types)
    assert scores == expected
    assert list(scores) == KEYS


@pytest.mark.parametrize(
    ("clusters", "types", "expected"),
    [
        pytest.param([7, 7, -1], "aab", {"nmi": 100, "fowlkes_mallows": 100, "ari": 100}, id="the same"),
        pytest.param(
            [0, 0, 0, 0],
            "aabc",
            {"nmi": 0, "completeness": 100, "homogeneity": 0, "v_measure": 0, "ari": 0, "purity": 50},
            id="one cluster",
        ),
        pytest.param([0, 0], "aa", {"nmi": 100, "ari": 100, "type_representation": 100}, id="one type"),
        pytest.param(
            [0, 1, 2], "aaa", {"nmi": 0, "homogeneity": 100, "purity": 100, "num_clusters": 3}, id="alone"
        ),
        pytest.param([0, 0, 1, 1], "baab", {"type_representation": 50, "purity": 50}, id="ties by alphabet"),
        pytest.param([0, 0, 0, 0, 1], "aaabb", {"purity": 87.5}, id="clusters weigh the same"),
    ],
)
def test_edges(clusters, types, expected):
    scores = clustering_nmi(clusters, list(types))
    assert {name: scores[name] for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("clusters", "types", "message"),
    [
        ([], [], "predictions is empty"),
        ([0, 1], ["a"], "2 values and references 1"),
        ([0, 1], ["a", ""], "'' at index 1; accepted: the name of a type"),
        ([0, 0.5], ["a", "b"], "0.5 at index 1; accepted: the number of a cluster"),
        ([[0], [1]], ["a", "b"], r"\[0\] at index 0"),
    ],
)
def test_what_cannot_be_scored_is_refused(clusters, types, message):
    with pytest.raises(ValueError, match=message):
        clustering_nmi(clusters, types)


def test_batches_add_up():
    metric = load_metric("clustering_nmi")
    metric.add_batch(predictions=[0, 0], references=["a", "a"])
    metric.add_batch(predictions=[1], references=["b"])
    assert metric.compute()["nmi"] == pytest.approx(100)
