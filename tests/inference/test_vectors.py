"""Reading and writing large memory-mapped arrays keeps few of their pages in memory, with the same values."""

from __future__ import annotations

import mmap
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import faiss
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sentence_transformers import quantize_embeddings
from tiny import save_tiny_encoder
from typer.testing import CliRunner

import eventformers
from eventformers.cli import app
from eventformers.errors import EventformersError
from eventformers.inference.chains.next_event import EventRecord
from eventformers.inference.encode import EventEncoder, load_encoder
from eventformers.inference.encoding import event_files
from eventformers.inference.encoding import vectors as vector_arrays
from eventformers.inference.encoding.event_files import embed_file
from eventformers.inference.encoding.precision import PRECISIONS, quantized, ranges_of, restored
from eventformers.inference.encoding.vectors import Vectors, release_pages, rows_at
from eventformers.inference.search import index_folder
from eventformers.inference.search.index_folder import IndexedModel, IndexTable, build_index, open_index
from eventformers.inference.search.vector_search import ExactSearch

STATUS = Path("/proc/self/status")
LINES = ("RssFile", "RssShmem")
"""Memory of mapped files; a file in memory (tmpfs) counts as the second."""

ROWS, WIDTH = 6_400, 8_192
SIZE = 4 * ROWS * WIDTH
"""Size of the arrays: 210 MB."""
ALLOWED = SIZE // 2


def mapped_bytes() -> int:
    text = STATUS.read_text(encoding="utf-8")
    return 1024 * sum(int(text.partition(f"{line}:")[2].split()[0]) for line in LINES)


@pytest.fixture
def start() -> int:
    """Mapped memory before the test."""
    if not STATUS.is_file() or any(f"{line}:" not in STATUS.read_text(encoding="utf-8") for line in LINES):
        pytest.skip("this system does not list a process's mapped memory")
    return mapped_bytes()


def mapped(path: Path, mode: Any = "r", rows: int = ROWS, width: int = WIDTH) -> np.memmap:
    """Map an array whose rows differ."""
    block = np.random.default_rng(0).normal(size=(64, width)).astype(np.float32)
    with path.open("wb") as file:
        for first in range(0, rows, 64):
            block[:, 0] = np.arange(first, first + 64)
            file.write(block[: rows - first].tobytes())
    return np.memmap(path, np.float32, mode, shape=(rows, width))


class TestReleasedPages:
    def test_the_whole_array(self, tmp_path: Path, start: int) -> None:
        array = mapped(tmp_path / "array")
        total = array.sum()
        assert mapped_bytes() - start > ALLOWED
        release_pages(array)
        assert mapped_bytes() - start < ALLOWED
        assert array.sum() == total

    def test_a_slice_behind_a_header(self, tmp_path: Path, start: int) -> None:
        """Only its own pages are released, also for an array that lies within its map."""
        np.save(tmp_path / "array.npy", mapped(tmp_path / "array"))
        array = np.load(tmp_path / "array.npy", mmap_mode="r")
        array.sum()
        before = mapped_bytes()
        release_pages(np.ascontiguousarray(array)[ROWS // 2 :])
        assert SIZE // 4 < before - mapped_bytes() < 3 * SIZE // 4

    @pytest.mark.parametrize("flush", [True, False])
    def test_no_change_of_a_shared_map_is_lost(self, tmp_path: Path, flush: bool) -> None:
        array = mapped(tmp_path / "array", "r+", 200, 1_000)
        array[50:150] = 7
        if flush:
            array.flush()
        release_pages(array[60:140])
        assert (array[50:150] == 7).all()
        assert array[:, 0].tolist() == [*range(50), *[7] * 100, *range(150, 200)]
        array[100] = 8
        release_pages(array)
        assert np.array_equal(np.fromfile(tmp_path / "array", np.float32), array.ravel())

    def test_no_change_of_a_private_map_is_lost(self, tmp_path: Path) -> None:
        array = mapped(tmp_path / "array", "c", 200, 1_000)
        array[50:150] = 7
        release_pages(array)
        assert (array[50:150] == 7).all()

    def test_arrays_in_memory_and_other_systems(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        array = np.arange(12.0).reshape(3, 4)
        release_pages(array[1:])
        assert array.ravel().tolist() == list(range(12))
        monkeypatch.delattr(mmap, "MADV_DONTNEED", raising=False)
        release_pages(mapped(tmp_path / "array", rows=2, width=3))


class TestRows:
    def test_values(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(vector_arrays, "_SPAN_BYTES", 4 * 30 * 7)
        array = mapped(tmp_path / "array", rows=200, width=30)
        draw = np.random.default_rng(0)
        for shape in ((0,), (1,), (500,), (6, 40)):
            positions = draw.integers(-200, 200, shape)
            found = rows_at(array, positions)
            assert found.shape == (*shape, 30)
            assert np.array_equal(found, np.asarray(array)[positions])
            assert np.array_equal(rows_at(np.array(array), positions), found)
        for wrong in (200, -201):
            with pytest.raises(IndexError):
                rows_at(array, np.array([0, wrong]))

    def test_memory(self, tmp_path: Path, start: int) -> None:
        array = mapped(tmp_path / "array")
        for first in range(0, ROWS, 640):
            rows_at(array, np.arange(first, first + 640))
        assert mapped_bytes() - start < ALLOWED


class TestExactSearch:
    def test_memory(self, tmp_path: Path, start: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(vector_arrays, "_SPAN_BYTES", SIZE // 10)
        array = mapped(tmp_path / "array")
        search = ExactSearch(array)
        assert mapped_bytes() - start < ALLOWED
        search.search(np.ones((1, WIDTH), dtype=np.float32), 4)
        assert mapped_bytes() - start < ALLOWED

    def test_values(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(vector_arrays, "_SPAN_BYTES", 64 * 32 * 4)
        array = mapped(tmp_path / "array", rows=1_000, width=32)
        queries = np.array(array[5::99])
        found, in_memory = (ExactSearch(vectors).search(queries, 4) for vectors in (array, np.array(array)))
        assert np.array_equal(found.positions, in_memory.positions)
        assert np.array_equal(found.scores, in_memory.scores)


def test_ranges(tmp_path: Path, start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventformers.inference.encoding.precision._BLOCK_VECTORS", 1_000)
    array = mapped(tmp_path / "array")
    ranges = ranges_of(array)
    assert mapped_bytes() - start < ALLOWED
    assert np.array_equal(ranges, np.stack([array.min(axis=0), array.max(axis=0)]))


def test_embed(tmp_path: Path, start: int, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []

    def encode(self: EventEncoder, texts: Sequence[str], **_: Any) -> Vectors:
        found.append(mapped_bytes() - start)
        numbers = np.array([int(text.split()[1]) for text in texts], dtype=np.float32)
        return np.repeat(numbers[:, None], WIDTH, axis=1)

    encoder = load_encoder(tiny_encoder, device="cpu")
    monkeypatch.setattr(event_files, "BLOCK_ROWS", 64)
    monkeypatch.setattr(EventEncoder, "dimension", WIDTH)
    monkeypatch.setattr(EventEncoder, "encode", encode)
    numbers = [number if number % 4 else number // 8 for number in range(ROWS)]
    (tmp_path / "events.txt").write_text("".join(f"event {number}\n" for number in numbers))
    embed_file(encoder, tmp_path / "events.txt", tmp_path / "vectors.parquet")
    assert max(found) < ALLOWED
    vectors = pq.ParquetFile(tmp_path / "vectors.parquet").iter_batches(64, columns=["embedding"])
    first_entries = [row[0] for batch in vectors for row in batch["embedding"].to_numpy(zero_copy_only=False)]
    assert first_entries == numbers


class TestNearest:
    """The nearest rows of one query."""

    def test_memory(self, tmp_path: Path, start: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """At any time, since a block is released before the next one is read."""
        monkeypatch.setattr(vector_arrays, "_SPAN_BYTES", SIZE // 10)
        found = []
        knn = faiss.knn

        def noted(*arguments: Any) -> Any:
            answer = knn(*arguments)
            found.append(mapped_bytes() - start)
            return answer

        monkeypatch.setattr(faiss, "knn", noted)
        table = IndexTable(pa.table({"text": ["a"] * ROWS}), mapped(tmp_path / "array"))
        table.nearest(np.ones(WIDTH, dtype=np.float32), 3)
        assert len(found) == 10
        assert max(found) < ALLOWED

    @pytest.mark.parametrize("number", [1, 7, 500])
    def test_values(self, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
        draw = np.random.default_rng(1)
        vectors = draw.integers(-2, 3, (300, 4)).astype(np.float32)
        vectors[-1] = 9
        table = IndexTable(pa.table({"text": ["a"] * 300}), vectors)
        query = np.array([1, 2, 3, 4], dtype=np.float32)
        monkeypatch.setattr(vector_arrays, "_SPAN_BYTES", 4 * 4 * 70)
        products, positions = table.nearest(query, number)
        order = np.argsort(-(vectors @ query), kind="stable")[:number]
        assert products.tolist() == (vectors @ query)[order].tolist()
        assert positions[0] == 299
        assert sorted(vectors[positions] @ query, reverse=True) == products.tolist()
        assert len(set(positions.tolist())) == len(order)


def test_index(tmp_path: Path, start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Building an index, and building it again from the vectors that it has."""
    monkeypatch.setattr(index_folder, "BLOCK_TEXTS", 640)
    found = []

    def encode(_: str, rows: pa.Table) -> Vectors:
        found.append(mapped_bytes() - start)
        numbers = [float(text.removeprefix("event ")) for text in rows["subject"].to_pylist()]
        return np.repeat(np.array(numbers, dtype=np.float32)[:, None], WIDTH, axis=1)

    def build(numbers: range) -> None:
        texts = pa.array([f"event {number}" for number in numbers], pa.large_string())
        build_index(
            tmp_path / "index",
            EventRecord,
            {"events": pa.table({role: texts for role in EventRecord.tables["events"]})},
            encode,
            model=IndexedModel("model", "1", "cls"),
            dimension=WIDTH,
            fingerprint="",
            details={},
            overwrite=True,
        )

    build(range(ROWS))
    build(range(ROWS + 1))
    assert len(found) == 11
    assert max(found) < ALLOWED
    table = open_index(tmp_path / "index", EventRecord)[1]["events"]
    before = mapped_bytes()
    products, positions = table.nearest(np.ones(WIDTH, dtype=np.float32), 3)
    assert mapped_bytes() - before < ALLOWED
    assert positions.tolist() == [ROWS, ROWS - 1, ROWS - 2]
    assert products.tolist() == [WIDTH * number for number in positions]
    assert not table.vectors.flags.writeable


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


PAGE = Path(__file__).parents[2] / "docs" / "neighbours.md"
SECTION = PAGE.read_text(encoding="utf-8").split("\n## Vectors for")[1].split("\n## ")[0]
FAISS, LANCEDB, DUCKDB = re.findall(r"^```python\n(.*?)^```$", SECTION, re.DOTALL | re.MULTILINE)
COMMANDS = re.findall(r"^eventformers (.*)$", SECTION, re.MULTILINE)
EVENTS = "company,fired,worker\nstorm,closed,road\nfirm,sold,car\njudge,sentenced,thief\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and the files of vectors that the commands of the page write."""
    folder = tmp_path_factory.mktemp("recipes")
    save_tiny_encoder(folder / "my-events")
    (folder / "events.csv").write_text("subject,predicate,object\n" + EVENTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in COMMANDS:
            result = CliRunner().invoke(app, command.split(), catch_exceptions=False)
            assert result.exit_code == 0, result.output
    return folder


def nearest(files: Path) -> str:
    """The event whose vector has the largest cosine with the query of the page."""
    texts = [line.replace(",", " ") for line in EVENTS.splitlines()]
    vectors = eventformers.encode(files / "my-events", [*texts, "business dismisses worker"], normalize=True)
    return texts[int(np.argmax(vectors[:-1] @ vectors[-1]))]


def run_snippet(code: str, files: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Run a snippet in the folder; return what it prints."""
    printed: list[Any] = []
    monkeypatch.chdir(files)
    exec(code, {"print": printed.append})  # noqa: S102
    return printed


def test_faiss(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    floats, integers, bits = run_snippet(FAISS, files, monkeypatch)
    assert floats[0] == integers[0] == nearest(files)
    assert len(set(bits)) == 2


@pytest.mark.process
def test_lancedb(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lancedb")
    floats, bits = run_snippet(LANCEDB, files, monkeypatch)
    assert floats[0] == nearest(files)
    assert len(set(bits)) == 2


def test_duckdb(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb, "execute", duckdb.connect().execute)
    (floats,) = run_snippet(DUCKDB, files, monkeypatch)
    assert floats[0] == (nearest(files),)
    of_integers = DUCKDB.replace("vectors.parquet", "int8.parquet").replace(
        'worker")', 'worker", normalize=True, precision="int8", ranges="int8.parquet")'
    )
    (integers,) = run_snippet(of_integers, files, monkeypatch)
    assert len(integers) == 2
