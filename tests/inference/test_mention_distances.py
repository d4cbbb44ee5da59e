"""Distances of mentions: three kinds, symmetrised, and their mean over runs."""

from __future__ import annotations

import numpy as np
import pytest

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.inference.induction import mention_distances
from eventformers.inference.induction.mention_distances import MentionVectors, average_distances, distances


@pytest.fixture
def vectors() -> MentionVectors:
    draw = np.random.default_rng(0)
    return MentionVectors(*(draw.normal(size=(9, 4)).astype(np.float32) for _ in range(3)))


def cosine(left: np.ndarray, right: np.ndarray) -> float:
    return float(left @ right / np.linalg.norm(left) / np.linalg.norm(right))


def test_kinds(vectors: MentionVectors) -> None:
    assert vectors.query is not None
    assert vectors.key is not None
    for kind in ("cosine", "dot", "encoder"):
        found = distances(vectors, kind)  # type: ignore[arg-type]
        one, other = (
            {
                "cosine": 1 - cosine(vectors.query[first], vectors.key[second]),
                "dot": -float(vectors.query[first] @ vectors.key[second]),
                "encoder": 1 - cosine(vectors.embeddings[first], vectors.embeddings[second]),
            }[kind]
            for first, second in ((2, 5), (5, 2))
        )
        expected = (one + other) / 2
        assert found.dtype == np.float32
        assert found[2, 5] == pytest.approx(expected, abs=1e-5)
        assert (np.diag(found) == 0).all() == (kind == "encoder")


@pytest.mark.parametrize("tile", [4, 512])
@pytest.mark.parametrize("kind", ["cosine", "dot"])
def test_symmetrised_in_tiles(
    vectors: MentionVectors, kind: str, tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mention_distances, "TILE", tile)
    assert vectors.query is not None
    assert vectors.key is not None
    rows = -vectors.query @ vectors.key.T
    if kind == "cosine":
        lengths = [np.linalg.norm(part, axis=1) for part in (vectors.query, vectors.key)]
        rows = 1 + rows / np.outer(*lengths)
    both = distances(vectors, kind)  # type: ignore[arg-type]
    np.testing.assert_array_equal(both, both.T)
    np.testing.assert_allclose(both, (rows + rows.T) / 2, atol=1e-6)


def test_mean_over_runs(vectors: MentionVectors) -> None:
    runs = [distances(vectors, kind) for kind in ("cosine", "dot", "encoder")]  # type: ignore[arg-type]
    np.testing.assert_allclose(average_distances(iter(runs)), np.mean(runs, axis=0), atol=1e-6)
    with pytest.raises(EventformersError, match=r"shapes \(9, 9\) and \(8, 8\)"):
        average_distances([runs[0], runs[1][:8, :8]])
    with pytest.raises(EventformersError, match="no run"):
        average_distances([])


def test_rows_of_a_plain_encoder(vectors: MentionVectors) -> None:
    some = MentionVectors(vectors.embeddings).rows(np.array([3, 1]))
    np.testing.assert_array_equal(some.embeddings, vectors.embeddings[[3, 1]])
    assert some.query is None


def test_wrong_input_is_told(vectors: MentionVectors) -> None:
    with pytest.raises(UnknownNameError, match="Accepted: cosine, dot, encoder"):
        distances(vectors, "euclidean")  # type: ignore[arg-type]
    with pytest.raises(EventformersError, match="no queries and keys"):
        distances(MentionVectors(vectors.embeddings), "cosine")
    vectors.embeddings[3] = 0
    with pytest.raises(EventformersError, match="first 'mention 3'"):
        distances(vectors, "encoder")
