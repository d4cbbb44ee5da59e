"""Vectors in fewer bits equal those of sentence-transformers, and bad settings are one clear error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from sentence_transformers import quantize_embeddings

import eventformers
from eventformers.errors import EventformersError
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.encoding.event_files import embed_file
from eventformers.inference.encoding.precision import PRECISIONS, quantized, ranges_of, restored

TEXTS = ["police arrested man", "storm closed road", "judge sentenced thief", "storm closed road"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> EventEncoder:
    from tiny import save_tiny_encoder

    return load_encoder(save_tiny_encoder(tmp_path_factory.mktemp("tiny")), device="cpu")


@pytest.mark.parametrize("precision", PRECISIONS)
def test_precisions_are_those_of_sentence_transformers(precision: str) -> None:
    generator = np.random.default_rng(0)
    # 12 dimensions do not fill the last byte, one without variation has no width to divide, and the sign of
    # one close to 0 counts.
    vectors = generator.normal(size=(40, 12)).astype(np.float32)
    vectors[:, 3] = 0.5
    vectors[:, 5] *= 1e-4
    for given in (vectors, vectors[7]):
        ranges = ranges_of(vectors[:20]) if precision.endswith("int8") else None
        expected = quantize_embeddings(given, precision, ranges=ranges)
        found = quantized(given, precision, ranges)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(quantized(vectors, precision), quantize_embeddings(vectors, precision))


@pytest.mark.parametrize("precision", ["int8", "uint8"])
def test_restored_vectors_differ_by_half_a_step(precision: str) -> None:
    vectors = np.random.default_rng(0).normal(size=(40, 12)).astype(np.float32)
    ranges = ranges_of(vectors)
    differences = abs(restored(quantized(vectors, precision, ranges), ranges) - vectors)
    steps = (ranges[1] - ranges[0]) / 255
    assert (differences <= steps * 0.501).all()
    assert differences.max() > 0


@pytest.mark.parametrize(("precision", "dtype", "size"), [("int8", np.int8, 32), ("ubinary", np.uint8, 4)])
def test_files_and_encode_agree(
    tmp_path: Path, encoder: EventEncoder, precision: str, dtype: type, size: int
) -> None:
    source, target = tmp_path / "events.txt", tmp_path / "vectors.parquet"
    source.write_text("\n".join(TEXTS) + "\n")
    embed_file(encoder, source, target, precision=precision)
    column = pq.read_table(target)["embedding"].combine_chunks()
    vectors = column.flatten().to_numpy().reshape(-1, column.type.list_size)
    assert (vectors.dtype, vectors.shape) == (dtype, (4, size))
    assert pq.read_schema(target).metadata[b"precision"] == precision.encode()
    np.testing.assert_array_equal(vectors, eventformers.encode(encoder, TEXTS, precision=precision))
    if precision == "int8":
        assert vectors.min() == -128
        assert vectors.max() == 127
        # A text alone, and a second file, with the ranges of the first.
        alone = eventformers.encode(encoder, TEXTS[1], precision="int8", ranges=target)
        # A batch of another size can round the last place differently.
        np.testing.assert_allclose(alone.astype(int), vectors[1].astype(int), atol=1)
        source.write_text(TEXTS[2] + "\n")
        embed_file(encoder, source, tmp_path / "second.parquet", precision="int8", ranges=target)
        second, first = (pq.read_table(tmp_path / "second.parquet"), pq.read_table(target))
        np.testing.assert_allclose(second["embedding"][0].as_py(), first["embedding"][2].as_py(), atol=1)
        assert second.schema.metadata[b"ranges"] == first.schema.metadata[b"ranges"]
        with pytest.raises(
            EventformersError, match="ranges of vectors with normalize=false; accepted: those"
        ):
            eventformers.encode(encoder, TEXTS, precision="int8", ranges=target, normalize=True)


def test_errors_of_precision(tmp_path: Path, encoder: EventEncoder) -> None:
    with pytest.raises(EventformersError, match=r"precision 'int9'\. Did you mean 'int8'"):
        eventformers.encode(tmp_path / "no-model", TEXTS, precision="int9")
    with pytest.raises(EventformersError, match="one vector alone; accepted: two or more, or ranges"):
        eventformers.encode(encoder, TEXTS[0], precision="int8")
    with pytest.raises(EventformersError, match="ranges that are not finite"):
        eventformers.encode(encoder, TEXTS, precision="int8", ranges=np.full((2, 32), np.nan))
    with pytest.raises(EventformersError, match="ranges with the precision binary"):
        eventformers.encode(encoder, TEXTS, precision="binary", ranges=np.zeros((2, 32)))
    with pytest.raises(EventformersError, match=r"shape \(2, 7\); accepted: \(2, 32\)"):
        eventformers.encode(encoder, TEXTS, precision="int8", ranges=np.zeros((2, 7)))
    source, target = tmp_path / "events.txt", tmp_path / "vectors.parquet"
    source.write_text("\n".join(TEXTS) + "\n")
    embed_file(encoder, source, target)
    with pytest.raises(EventformersError, match="no ranges; accepted: a file that embed wrote with --prec"):
        eventformers.encode(encoder, TEXTS, precision="int8", ranges=target)
    with pytest.raises(EventformersError, match=r"events\.txt: found .*; accepted: a Parquet file"):
        eventformers.encode(encoder, TEXTS, precision="int8", ranges=source)
