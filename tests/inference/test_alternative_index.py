"""The index of alternatives: right, mapped from disk, of one model and one graph, whole or absent."""

from __future__ import annotations

from pathlib import Path

import faiss
import numpy as np
import pytest
from datasets import DatasetDict
from graphs import pairs_of

from eventformers.errors import EventformersError
from eventformers.inference.commonsense.alternative_index import (
    AlternativeIndex,
    AlternativeRecord,
    build_alternative_index,
    graph_fingerprint,
)
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.search.index_folder import read_record


@pytest.fixture(scope="module")
def encoder(tiny_encoder: Path) -> EventEncoder:
    return load_encoder(tiny_encoder, device="cpu")


@pytest.fixture(scope="module")
def pairs() -> DatasetDict:
    return pairs_of()


@pytest.fixture
def index(encoder: EventEncoder, pairs: DatasetDict, tmp_path: Path) -> AlternativeIndex:
    return build_alternative_index(encoder, pairs, tmp_path / "index", graph="conceptnet")


def test_distinct_texts_with_their_normalised_vectors(
    index: AlternativeIndex, encoder: EventEncoder, pairs: DatasetDict
) -> None:
    for indexed, column in ((index.alternatives, "alternative"), (index.premises, "premise")):
        texts = indexed.texts.to_pylist()
        assert texts == list(dict.fromkeys(text for split in pairs.values() for text in split[column]))
        vectors = indexed.vectors
        np.testing.assert_allclose(vectors, encoder.encode(texts, normalize=True), atol=1e-6)


def test_known_alternatives_of_each_premise(index: AlternativeIndex, pairs: DatasetDict) -> None:
    expected: dict[str, set[str]] = {}
    for split in pairs.values():
        for row in split:
            expected.setdefault(row["premise"], set()).add(row["alternative"])
    found = {
        text: {index.alternatives.text(position) for position in index.alternatives_of(premise)}
        for premise, text in enumerate(index.premises.texts.to_pylist())
    }
    assert found == expected
    assert found["storm causes"] == {"flood", "fire"}
    assert index.record.pairs == sum(map(len, expected.values()))


def test_nearest_are_those_of_all_cosines(index: AlternativeIndex, encoder: EventEncoder) -> None:
    query = encoder.encode("the river flooded the city", normalize=True)
    vectors = encoder.encode(index.alternatives.texts.to_pylist(), normalize=True)
    cosines, positions = index.alternatives.nearest(query, 4)
    np.testing.assert_allclose(cosines, np.sort(vectors @ query)[::-1][:4], atol=1e-5)
    np.testing.assert_allclose(vectors[positions] @ query, cosines, atol=1e-5)
    np.testing.assert_allclose(index.alternatives.products(query, positions), cosines, atol=1e-5)
    assert len(index.alternatives.nearest(query, 1000)[0]) == index.record.rows["alternatives"]


def test_record(index: AlternativeIndex, encoder: EventEncoder, pairs: DatasetDict) -> None:
    record = read_record(index.folder, AlternativeRecord)
    assert record == index.record
    assert (record.model, record.model_revision) == (encoder.name, encoder.revision)
    assert (record.dimension, record.graph, record.splits) == (32, "conceptnet", ["train", "validation"])
    assert record.fingerprint == graph_fingerprint(pairs)
    assert record.versions["faiss"] == faiss.__version__
    assert {path.suffix for path in index.folder.iterdir()} == {".npy", ".arrow", ".json"}
    with pytest.raises(EventformersError, match="holds an index; accepted: overwrite=True"):
        build_alternative_index(encoder, pairs, index.folder, graph="conceptnet")


def test_chosen_splits(encoder: EventEncoder, pairs: DatasetDict, tmp_path: Path) -> None:
    index = build_alternative_index(encoder, pairs, tmp_path / "a", graph="conceptnet", splits=["train"])
    assert index.record.splits == ["train"]
    assert "hit player" not in index.alternatives.texts.to_pylist()
    assert index.record.fingerprint != graph_fingerprint(pairs)
    with pytest.raises(EventformersError, match="no split 'dev'; accepted: train, validation"):
        build_alternative_index(encoder, pairs, tmp_path / "b", graph="conceptnet", splits=["dev"])


def test_a_graph_without_pairs(encoder: EventEncoder, pairs: DatasetDict, tmp_path: Path) -> None:
    empty = DatasetDict({"train": pairs["train"].select([])})
    with pytest.raises(EventformersError, match="have no pairs"):
        build_alternative_index(encoder, empty, tmp_path / "index", graph="conceptnet")
    triples = DatasetDict({"train": pairs["train"].remove_columns("alternative")})
    with pytest.raises(EventformersError, match="the columns premise, direction; accepted"):
        build_alternative_index(encoder, triples, tmp_path / "index", graph="conceptnet")
    assert not (tmp_path / "index").exists()
