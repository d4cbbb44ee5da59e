"""Names of clusters: given ones by rank, central triggers, telling words, majority types."""

from __future__ import annotations

import numpy as np
import pytest

from eventformers.errors import EventformersError
from eventformers.inference.induction.type_naming import (
    central_triggers,
    cluster_centroids,
    label_cosines,
    label_ranks,
    majority_type,
    name_clusters,
    telling_words,
)

LABELS = np.array([0, 0, 1, 1, 1])
VECTORS = np.array([[1, 0], [4, 3], [0, 2], [0, 1], [-3, 4]], dtype=np.float32)
NAMES = ["east", "north", "west"]
NAME_VECTORS = np.array([[5, 0], [0, 1], [-1, 0]], dtype=np.float32)


def test_centroids_are_means_at_length_one() -> None:
    expected = np.array([[1.8, 0.6], [-0.6, 2.8]])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(cluster_centroids(VECTORS, LABELS), expected)


def test_given_names_are_ranked_by_cosine() -> None:
    centroids = cluster_centroids(VECTORS, LABELS)
    named = name_clusters(centroids, NAMES, NAME_VECTORS, top=2)
    assert [[label.label for label in labels] for labels in named] == [["east", "north"], ["north", "west"]]
    assert named[0][0].score == pytest.approx(1.8 / np.hypot(1.8, 0.6))
    with pytest.raises(EventformersError, match="names are empty"):
        name_clusters(centroids, [], NAME_VECTORS[:0])


def test_rank_is_that_of_the_best_valid_label() -> None:
    cosines = label_cosines(cluster_centroids(VECTORS, LABELS), NAME_VECTORS, NAMES)
    assert label_ranks(cosines, NAMES, [{"east"}, {"east"}]) == [1, 3]
    assert label_ranks(cosines, NAMES, [{"north", "west"}, {"west", "east"}]) == [2, 2]
    assert label_ranks(cosines, NAMES, [{"south"}, set()]) == [float("inf")] * 2
    tied = np.array([[0.5, 0.5, 0.5, 0.9]])
    assert label_ranks(tied, [*"abcd"], [{"b"}]) == [3]
    with pytest.raises(EventformersError, match="valid labels for 1 clusters; accepted: for all 2"):
        label_ranks(cosines, NAMES, [{"east"}])


def test_central_triggers_are_near_and_frequent() -> None:
    vectors = np.array([[1, 0], [1, 0.1], [1, -0.1], [0, 1], [1, 0]], dtype=np.float32)
    labels = np.array([0, 0, 0, 0, 1])
    centroids = cluster_centroids(vectors, labels)
    named = central_triggers(vectors, labels, centroids, ["Attack", "attack ", "raid", "walk", ""])
    assert [label.label for label in named[0]] == ["attack", "raid", "walk"]
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert named[0][0].score == pytest.approx((units[:2] @ centroids[0]).sum() / 4)
    assert named[1] == ()


def test_telling_words_are_those_of_one_cluster() -> None:
    texts = ["The court fined him", "the court jailed him", "the storm broke it", "12 of it"]
    named = telling_words(texts, np.array([0, 0, 1, 1]), top=2)
    assert [label.label for label in named[0]] == ["court", "him"]
    assert [label.label for label in named[1]] == ["broke", "storm"]
    assert named[0][0].score == pytest.approx(1.0)
    assert telling_words(["1 2"], np.array([0])) == [()]


def test_majority_type_by_the_alphabet_where_tied() -> None:
    assert majority_type(["b", "a", "", "", ""]) == ("a", 1)
    assert majority_type(["b", "a", "b"]) == ("b", 2)
    assert majority_type([""]) == ("", 0)


def test_vectors_without_a_direction_are_told() -> None:
    opposite = np.array([[1, 0], [-1, 0]], dtype=np.float32)
    with pytest.raises(EventformersError, match="the centroid of cluster 0"):
        cluster_centroids(opposite, np.array([0, 0]))
