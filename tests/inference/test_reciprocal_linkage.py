"""Average linkage without a matrix: the tree of SciPy, in memory linear in the number of mentions."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from eventformers.inference.induction import clustering
from eventformers.inference.induction.clustering import (
    AverageLinkage,
    GrowingTree,
    distances_to_cluster,
    merge_mentions,
)
from eventformers.inference.induction.mention_distances import (
    DISTANCE_KINDS,
    DistanceKind,
    MentionVectors,
    distance_factors,
)

NUMBERS = (1, 2, 5, 17, 40)
"""Numbers of clusters after the merges of weight 1, whose order is not defined."""


def clouds(number: int, *, seed: int = 0, spread: float = 1.0) -> MentionVectors:
    """Queries, keys and encoder vectors around six centres, in turn."""
    draw = np.random.default_rng(seed)
    centres = draw.normal(size=(6, 12))[np.arange(number) % 6]
    return MentionVectors(
        *((centres + spread * draw.normal(size=centres.shape)).astype(np.float32) for _ in range(3))
    )


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering, "BLOCK_BYTES", 4 * 80 * 7)


# With the other kinds, more merges have the weight 1, and their order decides the clusters.
@pytest.mark.parametrize(
    ("kind", "manifold"), [("encoder", True), *((kind, False) for kind in DISTANCE_KINDS)]
)
def test_equals_the_tree_of_all_pairs(kind: DistanceKind, manifold: bool) -> None:
    runs = [clouds(80), clouds(80, seed=1)]
    expected = AverageLinkage.of_distances(distances_to_cluster(runs, kind, manifold=manifold))
    found = AverageLinkage(merge_mentions(distance_factors(runs, kind), 80 if manifold else None))
    for number in NUMBERS:
        np.testing.assert_array_equal(found.cut(number), expected.cut(number))


def test_equal_mentions_merge_first_and_count_as_many() -> None:
    one = clouds(20)
    times = np.random.default_rng(0).permutation(np.repeat(np.arange(20), np.arange(20) % 7 + 1))
    repeated = one.rows(times)
    for neighbours in (len(times), None):
        expected = AverageLinkage.of_distances(
            distances_to_cluster([repeated], "encoder", manifold=neighbours is not None)
        )
        found = AverageLinkage(merge_mentions(distance_factors([repeated], "encoder"), neighbours))
        labels = found.cut(20)
        assert len(np.unique(np.stack([labels, times]), axis=1).T) == 20
        for number in (2, 6, 12):
            np.testing.assert_array_equal(found.cut(number), expected.cut(number))
    alone = MentionVectors(np.ones((9, 4), dtype=np.float32))
    assert len(merge_mentions(distance_factors([alone], "encoder"), 4)) == 8


def test_parts_without_an_edge_are_joined_by_mean_distance() -> None:
    vectors = clouds(60, spread=0.02)
    merges = merge_mentions(distance_factors([vectors], "encoder"), 3)
    found = AverageLinkage(merges)
    np.testing.assert_array_equal(found.cut(6), np.arange(60) % 6)
    expected = AverageLinkage.of_distances(distances_to_cluster([vectors], manifold=False))
    for number in (2, 3, 4, 5):
        np.testing.assert_array_equal(found.cut(number), expected.cut(number))


def test_equally_near_clusters_merge_in_few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = []
    weights = clustering.csr_array(np.ones((256, 256), dtype=np.float32))
    sums = clustering.GraphSums(weights)
    monkeypatch.setattr(sums, "merge", lambda *call, run=sums.merge: (rounds.append(1), run(*call)))
    tree = GrowingTree(np.arange(256))
    tree.grow(sums)
    assert len(tree.merges) == 255
    assert len(rounds) < 40


def test_memory_is_linear_in_the_number_of_mentions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering, "BLOCK_BYTES", 2**18)
    factors = distance_factors([clouds(1_000)], "encoder")
    for neighbours in (5, None):
        tracemalloc.start()
        merges = merge_mentions(factors, neighbours)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(merges) == 999
        # Half a matrix in single precision.
        assert peak < 2 * 1_000**2
