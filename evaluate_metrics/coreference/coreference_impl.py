"""The arithmetic of the metric `coreference`, with only numpy and scipy."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching


def coreference(predictions: Sequence[str | int], references: Sequence[str | int]) -> dict[str, float | int]:
    """Compute the agreement of two clusterings of mentions; `coreference.py` describes inputs, scores and
    errors."""
    if len(predictions) != len(references):
        raise ValueError(
            f"predictions has {len(predictions)} values and references {len(references)}; accepted: one of "
            "each per mention"
        )
    predicted = _numbers("predictions", predictions)
    true = _numbers("references", references)
    both = (predicted >= 0) & (true >= 0)
    sizes = [np.bincount(side[side >= 0]) for side in (true, predicted)]
    # Mentions that a true and a predicted cluster share: one row a pair of clusters that share any.
    pairs, shared = np.unique(np.stack([true[both], predicted[both]]), axis=1, return_counts=True)
    # Links that remain when the other side divides a cluster; an absent mention is its own cluster.
    muc = [(float((shared - 1).sum()), float((size - 1).sum())) for size in sizes]
    # The share of each mention's cluster that is right, summed over mentions.
    b_cubed = [
        (float((shared**2 / size[side]).sum()), float(size.sum()))
        for side, size in zip(pairs, sizes, strict=True)
    ]
    ceafe, lea = _ceafe(pairs, shared, sizes), _lea(pairs, shared, sizes)
    scores: dict[str, float | int] = {}
    # Part and whole of the recall, then of the precision.
    for name, ratios in {"muc": muc, "b_cubed": b_cubed, "ceafe": ceafe, "lea": lea}.items():
        recall, precision = (100.0 * part / whole if whole else 0.0 for part, whole in ratios)
        scores[f"{name}_precision"], scores[f"{name}_recall"] = precision, recall
        scores[f"{name}_f1"] = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    mean = float(np.mean([scores[f"{name}_f1"] for name in ("muc", "b_cubed", "ceafe")]))
    return {"conll_f1": mean, **scores, "num_clusters": len(sizes[1]), "count": len(true)}


_Ratios = list[tuple[float, float]]


def _ceafe(pairs: np.ndarray, shared: np.ndarray, sizes: list[np.ndarray]) -> _Ratios:
    """Similarity of clusters in the best one-to-one alignment."""
    num_true, num_predicted = map(len, sizes)
    # A true cluster may stay alone: it then has a column of its own, whose similarity is 0.
    own = np.arange(num_true)
    costs = 2 - 2 * shared / (sizes[0][pairs[0]] + sizes[1][pairs[1]])
    places = (np.append(pairs[0], own), np.append(pairs[1], own + num_predicted))
    graph = csr_array(
        (np.append(costs, np.full(num_true, 2.0)), places), shape=(num_true, num_predicted + num_true)
    )
    aligned = graph[min_weight_full_bipartite_matching(graph)]
    return [(float((2 - aligned).sum()), float(len(size))) for size in sizes]


def _lea(pairs: np.ndarray, shared: np.ndarray, sizes: list[np.ndarray]) -> _Ratios:
    """Share of a cluster's links that the other side has, weighted by its size; the link of a single mention
    is that with itself."""
    alone = (sizes[0][pairs[0]] == 1) & (sizes[1][pairs[1]] == 1)
    ratios = []
    for side, size in zip(pairs, sizes, strict=True):
        of_pair = size[side]
        links = np.where(of_pair == 1, alone, shared * (shared - 1) / np.maximum(of_pair * (of_pair - 1), 1))
        ratios.append((float((of_pair * links).sum()), float(size.sum())))
    return ratios


def _numbers(name: str, clusters: Sequence[Any]) -> np.ndarray:
    """Number the clusters from 0; -1 marks a mention that this side does not have."""
    labels = cluster_labels(name, clusters)
    present = np.array([label != "" for label in labels])
    if not present.any():
        raise ValueError(f"{name} is empty; accepted: a cluster for at least one mention")
    numbers = np.full(len(labels), -1)
    numbers[present] = np.unique(np.array(labels)[present], return_inverse=True)[1]
    return numbers


def cluster_labels(name: str, clusters: Sequence[Any]) -> list[str]:
    """Return the clusters as texts, also of integers; raise `ValueError` for other values, or a mixture."""
    are_numbers = len(clusters) > 0 and isinstance(clusters[0], Integral)
    for place, label in enumerate(clusters):
        is_number = isinstance(label, Integral) and not isinstance(label, (bool, np.bool_))
        if not (is_number if are_numbers else isinstance(label, str)):
            accepted = "an integer, as the first one" if are_numbers else "the name of a cluster"
            raise ValueError(f"{name} has {label!r} at index {place}; accepted: {accepted}")
    return [str(label) for label in clusters]
