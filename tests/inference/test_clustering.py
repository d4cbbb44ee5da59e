"""Distances of mentions, and clusters by average linkage and affinity propagation."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score, silhouette_score

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.inference.induction import clustering, mention_distances
from eventformers.inference.induction.clustering import (
    AverageLinkage,
    GrowingTree,
    by_size,
    candidate_numbers,
    choose_num_clusters,
    cluster_affinity,
    distances_to_cluster,
    merge_mentions,
    silhouette,
)
from eventformers.inference.induction.mention_distances import (
    DISTANCE_KINDS,
    DistanceKind,
    MentionVectors,
    Rho,
    distance_factors,
    distances,
    manifold_weights,
    nearest_weights,
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


NUMBERS = (1, 2, 5, 17, 40)
"""Numbers of clusters after the merges of weight 1, whose order is not defined."""


def clouds(number: int, *, seed: int = 0, spread: float = 1.0) -> MentionVectors:
    """Queries, keys and encoder vectors around six centres, in turn."""
    draw = np.random.default_rng(seed)
    centres = draw.normal(size=(6, 12))[np.arange(number) % 6]
    return MentionVectors(
        *((centres + spread * draw.normal(size=centres.shape)).astype(np.float32) for _ in range(3))
    )


@pytest.fixture
def several_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clustering, "BLOCK_BYTES", 4 * 80 * 7)


# With the other kinds, more merges have the weight 1, and their order decides the clusters.
@pytest.mark.parametrize(
    ("kind", "manifold"), [("encoder", True), *((kind, False) for kind in DISTANCE_KINDS)]
)
@pytest.mark.usefixtures("several_blocks")
def test_equals_the_tree_of_all_pairs(kind: DistanceKind, manifold: bool) -> None:
    runs = [clouds(80), clouds(80, seed=1)]
    expected = AverageLinkage.of_distances(distances_to_cluster(runs, kind, manifold=manifold))
    found = AverageLinkage(merge_mentions(distance_factors(runs, kind), 80 if manifold else None))
    for number in NUMBERS:
        np.testing.assert_array_equal(found.cut(number), expected.cut(number))


@pytest.mark.usefixtures("several_blocks")
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


@pytest.mark.usefixtures("several_blocks")
def test_parts_without_an_edge_are_joined_by_mean_distance() -> None:
    vectors = clouds(60, spread=0.02)
    merges = merge_mentions(distance_factors([vectors], "encoder"), 3)
    found = AverageLinkage(merges)
    np.testing.assert_array_equal(found.cut(6), np.arange(60) % 6)
    expected = AverageLinkage.of_distances(distances_to_cluster([vectors], manifold=False))
    for number in (2, 3, 4, 5):
        np.testing.assert_array_equal(found.cut(number), expected.cut(number))


@pytest.mark.usefixtures("several_blocks")
def test_equally_near_clusters_merge_in_few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = []
    weights = clustering.csr_array(np.ones((256, 256), dtype=np.float32))
    sums = clustering.GraphSums(weights)
    monkeypatch.setattr(sums, "merge", lambda *call, run=sums.merge: (rounds.append(1), run(*call)))
    tree = GrowingTree(np.arange(256))
    tree.grow(sums)
    assert len(tree.merges) == 255
    assert len(rounds) < 40


@pytest.mark.usefixtures("several_blocks")
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


@pytest.fixture
def random_vectors() -> MentionVectors:
    draw = np.random.default_rng(0)
    return MentionVectors(*(draw.normal(size=(9, 4)).astype(np.float32) for _ in range(3)))


def cosine(left: np.ndarray, right: np.ndarray) -> float:
    return float(left @ right / np.linalg.norm(left) / np.linalg.norm(right))


def test_kinds(random_vectors: MentionVectors) -> None:
    assert random_vectors.query is not None
    assert random_vectors.key is not None
    for kind in ("cosine", "dot", "encoder"):
        found = distances(random_vectors, kind)  # type: ignore[arg-type]
        one, other = (
            {
                "cosine": 1 - cosine(random_vectors.query[first], random_vectors.key[second]),
                "dot": -float(random_vectors.query[first] @ random_vectors.key[second]),
                "encoder": 1 - cosine(random_vectors.embeddings[first], random_vectors.embeddings[second]),
            }[kind]
            for first, second in ((2, 5), (5, 2))
        )
        expected = (one + other) / 2
        assert found.dtype == np.float32
        assert found[2, 5] == pytest.approx(expected, abs=1e-5)
        assert (np.diag(found) == 0).all() == (kind == "encoder")


def test_distances_of_equal_directions_are_not_below_zero() -> None:
    same = np.random.default_rng(0).normal(size=(200, 7)).astype(np.float32)
    found = distances(MentionVectors(same, same, same), "cosine")
    assert found.min() == 0


@pytest.mark.parametrize("tile", [4, 512])
@pytest.mark.parametrize("kind", ["cosine", "dot"])
def test_symmetrised_in_tiles(
    random_vectors: MentionVectors, kind: str, tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mention_distances, "TILE", tile)
    assert random_vectors.query is not None
    assert random_vectors.key is not None
    rows = -random_vectors.query @ random_vectors.key.T
    if kind == "cosine":
        lengths = [np.linalg.norm(part, axis=1) for part in (random_vectors.query, random_vectors.key)]
        rows = 1 + rows / np.outer(*lengths)
    both = distances(random_vectors, kind)  # type: ignore[arg-type]
    np.testing.assert_array_equal(both, both.T)
    np.testing.assert_allclose(both, (rows + rows.T) / 2, atol=1e-6)


@pytest.mark.parametrize("kind", ["cosine", "dot", "encoder"])
def test_mean_over_runs(random_vectors: MentionVectors, kind: str) -> None:
    runs = [random_vectors, random_vectors.rows(np.arange(9)[::-1])]
    found = distance_factors(iter(runs), kind).matrix()  # type: ignore[arg-type]
    mean = np.mean([distances(run, kind) for run in runs], axis=0)  # type: ignore[arg-type]
    np.testing.assert_allclose(found, mean, atol=1e-6)


def test_rows_of_a_plain_encoder(random_vectors: MentionVectors) -> None:
    some = MentionVectors(random_vectors.embeddings).rows(np.array([3, 1]))
    np.testing.assert_array_equal(some.embeddings, random_vectors.embeddings[[3, 1]])
    assert some.query is None


def test_distances_of_wrong_input(random_vectors: MentionVectors) -> None:
    with pytest.raises(UnknownNameError, match="Accepted: cosine, dot, encoder"):
        distances(random_vectors, "euclidean")  # type: ignore[arg-type]
    with pytest.raises(EventformersError, match="no queries and keys"):
        distances(MentionVectors(random_vectors.embeddings), "cosine")
    random_vectors.embeddings[3] = 0
    with pytest.raises(EventformersError, match="first 'mention 3'"):
        distances(random_vectors, "encoder")


def by_bisection(row: np.ndarray, place: int, rho: str = "positive") -> np.ndarray:
    """The weights of one row, by Appendix H to the letter, in double precision."""
    row = row.astype(np.float64)
    remaining = np.sort(row)[1:]
    nearest = next(entry for entry in remaining if rho == "nearest" or entry > 0)
    low, high, sigma = 0.0, 1000.0, 1.0
    for _ in range(200):
        sigma = (low + high) / 2
        total = sum(math.exp(-max(0.0, entry - nearest) / sigma) for entry in remaining)
        if abs(total - math.log2(len(remaining))) < 1e-9:
            break
        low, high = (low, sigma) if total > math.log2(len(remaining)) else (sigma, high)
    weights = np.exp(-np.maximum(0, row - nearest) / sigma)
    weights[place] = 1
    return weights


def random_distances(number: int, *, seed: int = 0, kind: str = "cosine") -> np.ndarray:
    draw = np.random.default_rng(seed)
    random_vectors = MentionVectors(*(draw.normal(size=(number, 12)).astype(np.float32) for _ in range(3)))
    return distances(random_vectors, kind)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["cosine", "dot", "encoder"])
@pytest.mark.parametrize("number", [40, 15, 3])
def test_equals_a_bisection_row_by_row(kind: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mention_distances, "BLOCK_BYTES", 4 * 40 * 7)
    asked = random_distances(number, kind=kind)
    rho = "nearest" if kind == "dot" else "positive"
    expected = np.stack([by_bisection(row, place, rho) for place, row in enumerate(asked)])
    weights = manifold_weights(asked, rho, symmetrise=False)  # type: ignore[arg-type]
    assert weights.dtype == np.float32
    np.testing.assert_allclose(weights, expected, atol=1e-4)


def test_known_values() -> None:
    # Of the three neighbours of the first mention, two are as near as can be; log2(3) - 1 are left for
    # the last: exp(-0.3 / σ) = log2(3) - 2 has no solution, so that its weight is 0.
    asked = np.array([[0, 0.1, 0.1, 0.4], [0.1, 0, 0.2, 0.4], [0.1, 0.2, 0, 0.4], [0.4, 0.4, 0.4, 0]])
    weights = manifold_weights(asked, symmetrise=False)
    np.testing.assert_array_equal(weights[0], [1, 1, 1, 0])
    np.testing.assert_array_equal(weights[3], [1, 1, 1, 1])
    assert weights[1, 0] == 1
    assert weights[1].sum() == pytest.approx(1 + math.log2(3), abs=mention_distances.TOLERANCE)


@pytest.mark.parametrize("rho", ["positive", "nearest"])
def test_equal_mentions_set_no_rho_as_printed(rho: Rho) -> None:
    """Of a repeated sentence and its near ones, only the released code gives the near ones less than 1."""
    draw = np.random.default_rng(2)
    random_vectors = draw.normal(size=(30, 6)).astype(np.float32)
    random_vectors[1] = random_vectors[0]
    asked = distances(MentionVectors(random_vectors), "encoder")
    weights = manifold_weights(asked, rho, symmetrise=False)
    nearest = np.sort(asked[0])[2]
    near = asked[0] == nearest
    assert (weights[0, near] == 1).all() == (rho == "positive")
    assert weights[0, :2].tolist() == [1, 1]
    exact = np.where(asked < 1e-6, 0, asked)
    expected = np.stack([by_bisection(row, place, rho) for place, row in enumerate(exact)])
    np.testing.assert_allclose(weights, expected, atol=1e-4)
    kept = nearest_weights([asked.copy()], np.arange(30), 30, rho).toarray()
    np.testing.assert_allclose(kept, weights, atol=1e-4)


def test_symmetrised_by_mean() -> None:
    asked = random_distances(30)
    rows = manifold_weights(asked, symmetrise=False)
    assert not np.allclose(rows, rows.T)
    np.testing.assert_allclose(manifold_weights(asked), (rows + rows.T) / 2, atol=1e-7)


@pytest.mark.parametrize("number", [0, 1, 2, 5])
def test_identical_mentions_are_all_neighbours(number: int) -> None:
    np.testing.assert_array_equal(manifold_weights(np.zeros((number, number))), np.ones((number, number)))


def test_groups_of_identical_mentions() -> None:
    groups = np.arange(40) // 20
    asked = np.where(groups[:, None] == groups, 0.0, 0.7)
    np.testing.assert_array_equal(manifold_weights(asked, "nearest"), groups[:, None] == groups)
    # As printed, the mentions of the other group are the nearest.
    np.testing.assert_array_equal(manifold_weights(asked), 1)


def test_sigma_goes_no_further_than_its_bounds() -> None:
    asked = random_distances(20).astype(np.float64) * 1e6
    weights = manifold_weights(asked, symmetrise=False)
    nearest = np.sort(asked, axis=1)[:, 1:2]
    expected = np.exp(-np.maximum(0, asked - nearest) / 1000)
    np.fill_diagonal(expected, 1)
    np.testing.assert_allclose(weights, expected, atol=1e-5)


def test_precision_of_large_distances() -> None:
    asked = random_distances(30).astype(np.float64)
    moved = manifold_weights(asked - 1e6, "nearest", symmetrise=False)
    np.testing.assert_allclose(moved, manifold_weights(asked, "nearest", symmetrise=False), atol=1e-4)


def test_memory_is_that_of_the_weights() -> None:
    number = 1500
    asked = random_distances(number)
    tracemalloc.start()
    manifold_weights(asked)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * asked.nbytes
