"""The candidate index on disk: right, mapped, of one model and one knowledge base, whole or absent."""

from __future__ import annotations

import gc
import json
import os
import resource
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pyarrow as pa
import pytest
from datasets import Dataset

from eventformers.errors import EventformersError
from eventformers.inference.encoding.vectors import Vectors
from eventformers.inference.grounding.knowledge_base import CandidateRecord, EventRow, stored_candidates
from eventformers.inference.search import index_folder
from eventformers.inference.search.candidate_index import CandidateIndex
from eventformers.inference.search.index_folder import (
    IndexedModel,
    open_index,
    read_record,
    verify_index,
    write_table,
)
from eventformers.inference.search.vector_search import SMALLEST, ApproximateSearch

MODEL = IndexedModel("tiny", "0123456789abcdef", "cls")
ROWS = [
    {"event_id": event_id, "language": language, "title": title, "description": ""}
    for event_id, language, title in (
        ("Q2", "en", "World War"),
        ("Q1", "de", "Landung"),
        ("Q1", "en", "Landing"),
        ("Q3", "de", "Belagerung"),
        ("Q2", "de", "Weltkrieg"),
    )
]


def encode(rows: Sequence[EventRow]) -> Vectors:
    """Vectors that differ by title."""
    return np.array(
        [np.random.default_rng(sum(map(ord, row["title"]))).normal(size=8) for row in rows], dtype=np.float32
    )


def never(rows: Sequence[EventRow]) -> Vectors:
    raise AssertionError("the index was built again")


@pytest.fixture
def events() -> Dataset:
    return Dataset.from_list(ROWS)


@pytest.fixture
def folder(events: Dataset, tmp_path: Path) -> Path:
    """Folder of an index."""
    stored_candidates(tmp_path / "index", events, encode, model=MODEL, dimension=8)
    return tmp_path / "index"


def opened(folder: Path, events: Dataset, **settings: Any) -> CandidateIndex:
    return stored_candidates(folder, events, never, **{"model": MODEL, "dimension": 8} | settings)


@pytest.mark.parametrize("by_language", [True, False])
def test_it_searches_as_an_index_in_memory(tmp_path: Path, by_language: bool) -> None:
    rows = ROWS if by_language else [row for row in ROWS if row["language"] == "de"]
    languages = [row["language"] for row in rows] if by_language else None
    index = CandidateIndex([row["event_id"] for row in rows], encode(rows), languages)
    mentions = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
    asked = ["en", "de"] * 3
    expected = index.search(mentions, 3, languages=asked)
    for encode_rows in (encode, never):
        stored = stored_candidates(
            tmp_path, Dataset.from_list(rows), encode_rows, model=MODEL, dimension=8, by_language=by_language
        )
        found = stored.search(mentions, 3, languages=asked)
        assert found.ids(stored.event_ids) == expected.ids(index.event_ids)
        np.testing.assert_array_equal(found.scores, expected.scores)
        assert stored.pools == index.pools


def test_texts_stand_in_the_order_of_the_vectors(folder: Path) -> None:
    rows = open_index(folder, CandidateRecord)[1]["events"].rows.to_pylist()
    assert [(row["language"], row["event_id"]) for row in rows] == [
        ("de", "Q1"),
        ("de", "Q3"),
        ("de", "Q2"),
        ("en", "Q2"),
        ("en", "Q1"),
    ]
    assert sorted(rows, key=str) == sorted(ROWS, key=str)


def test_files_are_mapped_for_as_long_as_the_index_lives(folder: Path, events: Dataset) -> None:
    maps = Path("/proc/self/maps")
    if not maps.is_file():
        pytest.skip("this system does not list a process's maps")
    index = opened(folder, events)
    gc.collect()
    assert str(folder / "events.npy") in maps.read_text()
    assert index.search(encode(ROWS[:1]), 1, languages=["en"]).ids(index.event_ids) == [["Q2"]]


def test_record(folder: Path) -> None:
    record = read_record(folder, CandidateRecord)
    assert record.built_by == MODEL
    assert (record.rows, record.by_language, record.dimension) == ({"events": 5}, True, 8)
    assert record.versions["faiss"] == faiss.__version__


def test_another_model_or_other_events(folder: Path, events: Dataset) -> None:
    for other in (MODEL._replace(revision="other"), MODEL._replace(pooling="mean")):
        with pytest.raises(EventformersError, match=r"built by the model 'tiny'.*received.*--overwrite"):
            opened(folder, events, model=other)
    opened(folder, events, model=MODEL._replace(name="moved"))
    opened(folder, events, overwrite=True)
    fewer = events.select([0, 1])
    with pytest.raises(EventformersError, match=r"built from events with the fingerprint.*--overwrite"):
        opened(folder, fewer)
    stored_candidates(folder, fewer, encode, model=MODEL, dimension=8, overwrite=True)
    assert opened(folder, fewer).pools == {"de": 1, "en": 1}


def test_known_events_are_not_encoded_again(folder: Path) -> None:
    new = {"event_id": "Q9", "language": "de", "title": "Frieden", "description": ""}
    changed = [*ROWS[1:], new, ROWS[0] | {"description": "of 1914"}]
    encoded: list[str] = []

    def counting(rows: Sequence[EventRow]) -> Vectors:
        encoded.extend(row["title"] for row in rows)
        return encode(rows)

    events = Dataset.from_list(changed)
    stored = stored_candidates(folder, events, counting, model=MODEL, dimension=8, overwrite=True)
    assert sorted(encoded) == ["Frieden", "World War"]
    index = CandidateIndex(
        [row["event_id"] for row in changed], encode(changed), [row["language"] for row in changed]
    )
    mentions = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
    found, expected = (one.search(mentions, 4, languages=["en", "de"] * 3) for one in (stored, index))
    assert found.ids(stored.event_ids) == expected.ids(index.event_ids)
    encoded.clear()
    other = MODEL._replace(revision="other")
    stored_candidates(folder, events, counting, model=other, dimension=8, overwrite=True)
    assert len(encoded) == len(changed)


def test_an_approximate_search_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {
            "event_id": f"Q{place}",
            "language": "en",
            "title": f"{'a' * (place % 40)} {place}",
            "description": "",
        }
        for place in range(SMALLEST + 100)
    ]
    settings: dict[str, Any] = {"model": MODEL, "dimension": 8, "kind": "ivf"}
    first = stored_candidates(tmp_path, Dataset.from_list(rows[:-50]), encode, **settings)
    mentions = encode(rows[-3:])
    found = first.search(mentions, 8, languages=["en"] * 3)
    assert 0.5 < found.recall["en"] <= 1
    monkeypatch.setattr(ApproximateSearch, "build", None)
    again = stored_candidates(tmp_path, Dataset.from_list(rows[:-50]), never, **settings)
    assert again.search(mentions, 8, languages=["en"] * 3).recall == found.recall
    # 50 events go and 50 come.
    changed = stored_candidates(tmp_path, Dataset.from_list(rows[50:]), encode, overwrite=True, **settings)
    best = changed.search(mentions, 1, languages=["en"] * 3)
    exact = stored_candidates(tmp_path, Dataset.from_list(rows[50:]), never, **settings | {"kind": "exact"})
    expected = exact.search(mentions, 1, languages=["en"] * 3)
    assert np.isclose(best.scores, expected.scores).sum() >= 2
    assert (best.scores <= expected.scores + 1e-4).all()
    # Other files of an index are replaced with it, so a new index has no search of other vectors.
    stored_candidates(tmp_path, Dataset.from_list(rows[:9]), encode, overwrite=True, **settings)
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".")) == [
        *("events.arrow", "events.npy", "index.json"),
    ]


def test_an_index_of_an_older_format(folder: Path, events: Dataset) -> None:
    path = folder / "index.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({"format": 1, "events": 3, "descriptions": {"de": 3, "en": 2}}))
    with pytest.raises(EventformersError, match=r"the format 1, written by .*; build it again .*--overwrite"):
        opened(folder, events)
    path.write_text(json.dumps(record | {"rows": {"premises": 3}}))
    with pytest.raises(EventformersError, match="an index of premises; accepted: an index of events"):
        opened(folder, events)
    with pytest.raises(EventformersError, match=r"holds no index, as it has no index\.json"):
        open_index(folder.parent, CandidateRecord)
    stored_candidates(folder, events, encode, model=MODEL, dimension=8, overwrite=True)
    assert json.loads(path.read_text()).keys() == record.keys()


def test_files_of_two_indexes_mixed(folder: Path, events: Dataset, tmp_path: Path) -> None:
    stored_candidates(tmp_path / "other", events.select([0]), encode, model=MODEL, dimension=8)
    path = folder / "events.npy"
    path.write_bytes((tmp_path / "other" / "events.npy").read_bytes())
    with pytest.raises(EventformersError, match=r"events\.npy: damaged: 160 bytes instead of 288"):
        opened(folder, events)
    path.unlink()
    with pytest.raises(EventformersError, match=r"events\.npy: damaged: absent"):
        opened(folder, events)


@pytest.mark.parametrize(
    "changed",
    [
        {"rows": ["events"]},
        {"rows": {"events": "5"}},
        {"rows": None},
        {"by_language": None},
        {"fingerprint": None},
        {"model_revision": 7},
        {"dimension": "8"},
        {"owner": "me"},
    ],
)
def test_a_record_with_other_values_is_told(
    folder: Path, events: Dataset, changed: dict[str, object]
) -> None:
    path = folder / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(EventformersError, match=r"index\.json is not a valid record of an index"):
        opened(folder, events)


def test_no_changed_byte_goes_unseen(folder: Path, events: Dataset) -> None:
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        for place in range(0, len(data), 61):
            path.write_bytes(data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :])
            os.utime(path, ns=(0, place))
            if path.suffix == ".json":
                with suppress(EventformersError):
                    open_index(folder, CandidateRecord)
            else:
                with pytest.raises(EventformersError, match=f"{path.name}: damaged: its content differs"):
                    open_index(folder, CandidateRecord)
        path.write_bytes(data[: len(data) // 2])
        with pytest.raises(EventformersError):
            open_index(folder, CandidateRecord)
        path.write_bytes(data)
        os.utime(path, ns=(0, len(data)))
    opened(folder, events)


def test_a_large_file_is_checked_on_request(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_folder, "DIGESTED_BYTES", 10)
    data = (folder / "events.npy").read_bytes()
    (folder / "events.npy").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    open_index(folder, CandidateRecord)
    with pytest.raises(EventformersError, match=r"events\.npy: damaged"):
        verify_index(folder, CandidateRecord)
    verify_index(folder / "absent", CandidateRecord)


def test_a_full_disk_keeps_the_earlier_index(
    folder: Path, events: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_memmap = np.lib.format.open_memmap

    def only_to_read(path: Path, *, mode: str) -> Any:
        assert mode == "r", "a write to a map of a sparse file on a full disk kills the process"
        return open_memmap(path, mode=mode)

    monkeypatch.setattr(np.lib.format, "open_memmap", only_to_read)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            stored_candidates(
                folder, events.select([0, 1, 2, 3]), encode, model=MODEL, dimension=8, overwrite=True
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_files_of_another_kind_are_told(
    folder: Path, events: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_folder, "check_files", lambda *arguments: None)
    np.save(folder / "events.npy", encode(ROWS).astype(np.float64))
    with pytest.raises(EventformersError, match=r"damaged: events\.npy holds float64 of shape \(5, 8\)"):
        opened(folder, events)
    np.savez(folder / "events.npy", encode(ROWS))
    (folder / "events.npy.npz").replace(folder / "events.npy")
    with pytest.raises(EventformersError, match="damaged: "):
        opened(folder, events)
    write_table(folder / "events.arrow", pa.table({"event_id": ["Q1"] * 5}))
    with pytest.raises(EventformersError, match=r"damaged: .*language"):
        opened(folder, events)
    (folder / "index.json").write_text("[" * 100_000)
    with pytest.raises(EventformersError, match="is not a valid record of an index"):
        opened(folder, events)


@pytest.mark.parametrize("name", ["mine.npy", "events.csv", "events.npy.bak", "other.ivf", "notes.txt"])
def test_files_of_the_user_are_no_files_of_an_index(folder: Path, events: Dataset, name: str) -> None:
    (folder / name).write_bytes(b"mine")
    with pytest.raises(
        EventformersError, match=f"other files, such as {name}; accepted: an empty or new folder"
    ):
        stored_candidates(folder, events.select([0]), encode, model=MODEL, dimension=8, overwrite=True)
    assert (folder / name).read_bytes() == b"mine"


def test_what_cannot_be_indexed(events: Dataset, tmp_path: Path) -> None:
    def build(rows: Dataset, encode: Any = encode, model: IndexedModel = MODEL, **settings: Any) -> None:
        stored_candidates(tmp_path, rows, encode, model=model, dimension=8, **settings)

    with pytest.raises(EventformersError, match="2 events given several times, the first 'Q2'; accepted"):
        build(events, by_language=False)
    with pytest.raises(EventformersError, match="1 event given several times, the first 'Q1' in 'de'"):
        build(Dataset.from_list([*ROWS, ROWS[1]]))
    with pytest.raises(EventformersError, match="is a file; accepted: a folder to write to"):
        stored_candidates(Path(__file__), events, encode, model=MODEL, dimension=8)
    with pytest.raises(EventformersError, match="has no revision"):
        build(events, model=MODEL._replace(revision=None))
    with pytest.raises(EventformersError, match="not finite"):
        build(events, lambda rows: np.full((len(rows), 8), np.nan))
    assert not list(tmp_path.iterdir())
