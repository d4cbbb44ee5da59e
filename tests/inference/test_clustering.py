"""Clusters by average linkage and affinity propagation, and the choice of their number."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score, silhouette_score

from eventformers.errors import EventformersError
from eventformers.inference.induction import clustering
from eventformers.inference.induction.clustering import (
    AverageLinkage,
    by_size,
    candidate_numbers,
    choose_num_clusters,
    cluster_affinity,
    distances_to_cluster,
    silhouette,
)
from eventformers.inference.induction.mention_distances import (
    MentionVectors,
    distances,
    manifold_weights,
    unit_embeddings,
)

GROUPS = np.repeat([0, 1, 2, 3], [18, 14, 9, 5])


@pytest.fixture
def vectors() -> MentionVectors:
    draw = np.random.default_rng(0)
    centres = 3 * draw.normal(size=(4, 16))
    return MentionVectors((centres[GROUPS] + draw.normal(size=(len(GROUPS), 16))).astype(np.float32))


@pytest.mark.parametrize("number", [1, 2, 4, 11, 30])
def test_equals_scikit_learn(number: int) -> None:
    asked = np.random.default_rng(number).normal(size=(30, 30))
    asked = (asked + asked.T) / 2
    model = AgglomerativeClustering(number, metric="precomputed", linkage="average")
    expected = model.fit_predict(asked - asked.min())
    found = AverageLinkage.of_distances(asked).cut(number)
    assert adjusted_rand_score(expected, found) == 1
    assert len(np.unique(found)) == number


def test_finds_groups_and_numbers_them_by_size(vectors: MentionVectors) -> None:
    np.testing.assert_array_equal(AverageLinkage.of_distances(distances(vectors, "encoder")).cut(4), GROUPS)
    np.testing.assert_array_equal(by_size(np.array([7, 7, 2, 5, 5])), [0, 0, 2, 1, 1])


def test_identical_mentions_and_single_ones_have_a_result() -> None:
    assert len(np.unique(AverageLinkage.of_distances(np.zeros((6, 6))).cut(3))) == 3
    np.testing.assert_array_equal(AverageLinkage.of_distances(np.zeros((1, 1))).cut(1), [0])
    np.testing.assert_array_equal(cluster_affinity(np.zeros((5, 5))), np.zeros(5))
    np.testing.assert_array_equal(cluster_affinity(np.zeros((1, 1))), [0])


def test_affinity_finds_the_number_itself(vectors: MentionVectors) -> None:
    found = cluster_affinity(-distances(vectors, "encoder"))
    assert len(np.unique(found)) == 4
    assert adjusted_rand_score(GROUPS, found) == 1


def test_affinity_that_does_not_settle_is_told(
    vectors: MentionVectors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clustering, "_AFFINITY_STEPS", 2)
    with pytest.raises(EventformersError, match="46 mentions did not converge"):
        cluster_affinity(-distances(vectors, "encoder"))


def test_silhouette_equals_scikit_learn(vectors: MentionVectors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering, "BLOCK_MENTIONS", 7)
    units = unit_embeddings(vectors.embeddings)
    tree = AverageLinkage.of_distances(distances(vectors, "encoder"))
    for number in (2, 4, 9, 45):
        labels = tree.cut(number)
        expected = silhouette_score(units, labels, metric="cosine")
        assert silhouette(units, labels) == pytest.approx(expected, abs=1e-5)
    assert silhouette(units, tree.cut(1)) == 0
    assert silhouette(units, tree.cut(46)) == 0
    assert silhouette(np.full((6, 4), 0.5, dtype=np.float32), np.arange(6) // 3) == 0


def test_chooses_the_number_by_silhouette(vectors: MentionVectors) -> None:
    asked = distances(vectors, "encoder")
    chosen, silhouettes = choose_num_clusters(AverageLinkage.of_distances(asked), vectors)
    assert chosen == 4
    assert set(silhouettes) == set(candidate_numbers(46))
    same = MentionVectors(np.ones((8, 4), dtype=np.float32))
    assert choose_num_clusters(AverageLinkage.of_distances(np.zeros((8, 8))), same)[0] == 1
    one = MentionVectors(np.ones((1, 4), dtype=np.float32))
    assert choose_num_clusters(AverageLinkage.of_distances(np.zeros((1, 1))), one)[0] == 1


def test_candidates_grow_to_the_square_root_of_the_mentions() -> None:
    assert candidate_numbers(3) == [1]
    assert candidate_numbers(30) == [2, 3, 4, 5]
    many = candidate_numbers(10_000)
    assert many[0] == 2
    assert many[-1] == 100
    assert len(many) <= clustering.MAX_CANDIDATES


def test_what_is_clustered_by_is_the_manifold_of_the_mean_distances(vectors: MentionVectors) -> None:
    other = MentionVectors(vectors.embeddings[:, ::-1] ** 3)
    mean = (distances(vectors, "encoder") + distances(other, "encoder")) / 2
    found = distances_to_cluster([vectors, other], manifold=False)
    np.testing.assert_allclose(found, mean, atol=1e-6)
    np.testing.assert_allclose(
        distances_to_cluster(iter([vectors, other])), 1 - manifold_weights(mean), atol=1e-4
    )


def test_many_mentions_need_no_matrix(vectors: MentionVectors, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = AverageLinkage.of_mentions([vectors])
    assert exact.num_neighbours is None
    monkeypatch.setattr(clustering, "LARGEST_MATRIX", 45)
    with pytest.raises(EventformersError, match="46 mentions; accepted: up to 45, or the method agglom"):
        distances_to_cluster([vectors])
    monkeypatch.setattr(clustering, "NUM_NEIGHBOURS", 20)
    found = AverageLinkage.of_mentions(iter([vectors]))
    assert found.num_neighbours == 20
    np.testing.assert_array_equal(found.cut(4), exact.cut(4))
    assert AverageLinkage.of_mentions([vectors], manifold=False).num_neighbours is None


def test_wrong_input_is_told(vectors: MentionVectors) -> None:
    asked = distances(vectors, "encoder")
    with pytest.raises(EventformersError, match="47 clusters of 46 mentions"):
        AverageLinkage.of_distances(asked).cut(47)
