"""Scores by hand, what each metric refuses, and scores by loops that follow the definitions."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from eventformers.evaluate_metrics import METRICS, load_metric
from eventformers.evaluate_metrics.hierarchy_recall.hierarchy_recall_impl import RECALL_AT
from eventformers.evaluate_metrics.ranking.ranking_impl import HITS_AT

TABLE = yaml.safe_load(Path(__file__).with_name("scores.yaml").read_text(encoding="utf-8"))
SCORES = [(name, *row.values()) for name, rows in TABLE.items() for row in rows["scores"]]
REFUSED = [(name, *row.values()) for name, rows in TABLE.items() for row in rows["refused"]]
ALL_SCORES = ("hard_similarity", "mcnc", "multistep_inference", "transitive_similarity")
"""Metrics of which each row of the table has all scores; of the others the rows called by hand."""


def metric(name: str) -> Callable[..., dict[str, Any]]:
    return getattr(import_module(f"eventformers.evaluate_metrics.{name}.{name}_impl"), name)


def test_every_metric_is_tried() -> None:
    assert sorted(TABLE) == list(METRICS)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(("name", "case", "inputs", "expected"), SCORES)
def test_scores_by_hand(name: str, case: str, inputs: dict[str, Any], expected: dict[str, Any]) -> None:
    for scores in (metric(name)(**inputs), load_metric(name).compute(**inputs)):
        if name in ALL_SCORES or case == "by hand":
            assert set(scores) == set(expected)
        for key, value in expected.items():
            np.testing.assert_allclose(scores[key], value, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("name", "inputs", "message"), REFUSED)
def test_what_cannot_be_scored_is_refused(name: str, inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        metric(name)(**inputs)
    lengths = {len(values) for values in inputs.values()}
    if name in ("mcnc", "multistep_inference") and len(lengths) == 1 and lengths != {0}:
        with pytest.raises(ValueError, match=message):
            load_metric(name).compute(**inputs)


@pytest.mark.parametrize(
    ("name", "batches", "expected"),
    [
        (
            "clustering_nmi",
            [{"predictions": [0, 0], "references": ["a", "a"]}, {"predictions": [1], "references": ["b"]}],
            {"nmi": 100, "num_clusters": 2},
        ),
        (
            "hard_similarity",
            [{"similar": [0.9, 0.1], "dissimilar": [0.1, 0.9]}, {"similar": [0.9], "dissimilar": [0.1]}],
            {"accuracy": 200 / 3, "count": 3},
        ),
    ],
)
def test_batches_add_up(name: str, batches: list[dict[str, Any]], expected: dict[str, float]) -> None:
    added = load_metric(name)
    for batch in batches:
        added.add_batch(**batch)
    scores = added.compute()
    assert {key: scores[key] for key in expected} == pytest.approx(expected)


def entropy(names) -> float:
    return -sum(share * math.log(share) for share in (names.count(one) / len(names) for one in set(names)))


def clustering_nmi_by_hand(clusters: list[int], types: list[str]) -> dict[str, float]:
    """The measures by their definitions, with loops over pairs."""
    information = entropy(clusters) + entropy(types) - entropy(list(zip(clusters, types, strict=True)))
    homogeneity, completeness = information / entropy(types), information / entropy(clusters)
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
        "nmi": 100 * information / math.sqrt(entropy(types) * entropy(clusters)),
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
def test_clustering_nmi_is_that_of_the_definitions(seed: int) -> None:
    random = np.random.default_rng(seed)
    clusters = random.integers(-2, 5, 40).tolist()
    types = [f"type {number}" for number in random.integers(0, 6, 40)]
    scores = metric("clustering_nmi")(clusters, types)
    expected = clustering_nmi_by_hand(clusters, types)
    assert scores == pytest.approx(expected)
    assert list(scores) == list(expected)


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
def test_coreference_is_that_of_the_definitions(seed: int, absent: float) -> None:
    random = np.random.default_rng(seed)
    predicted, true = (
        [str(label) if random.random() >= absent else "" for label in random.integers(0, 6, 14)]
        for _ in range(2)
    )
    scores = metric("coreference")(predicted, true)
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


def test_many_clusters_are_aligned() -> None:
    labels = np.arange(60_000) // 3
    scores = metric("coreference")(labels.tolist(), np.roll(labels, 1).tolist())
    # Each cluster shares two of its three mentions with one, and the third with another.
    assert scores["ceafe_f1"] == pytest.approx(200 / 3)


def test_hierarchy_recall_is_the_loop_over_mentions_and_depths() -> None:
    draw = np.random.default_rng(0)
    ids = np.array([f"Q{number}" for number in range(30)])
    predictions = [draw.permutation(ids)[: draw.integers(0, 25)].tolist() for _ in range(200)]
    references = [draw.permutation(ids)[: draw.integers(1, 5)].tolist() for _ in range(200)]
    scores = metric("hierarchy_recall")(predictions, references)
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


def test_ranking_is_the_loop_over_the_queries() -> None:
    ranks = np.random.default_rng(0).integers(2, 400, 300) / 2
    scores = metric("ranking")(ranks)
    assert scores["mrr"] == pytest.approx(100 * sum(1 / rank for rank in ranks) / 300)
    assert scores["mean_rank"] == pytest.approx(sum(ranks) / 300)
    for depth in HITS_AT:
        assert scores[f"hits_at_{depth}"] == pytest.approx(100 * sum(rank <= depth for rank in ranks) / 300)


def test_transitive_similarity_is_the_linear_correlation_of_mean_ranks() -> None:
    generator = np.random.default_rng(0)
    predictions, references = generator.integers(0, 9, 50) / 9, generator.integers(1, 8, 50)

    def mean_ranks(values: np.ndarray) -> list[float]:
        return [(values < value).sum() + ((values == value).sum() + 1) / 2 for value in values]

    expected = np.corrcoef(mean_ranks(predictions), mean_ranks(references))[0, 1]
    assert metric("transitive_similarity")(predictions, references)["spearman"] == pytest.approx(expected)
