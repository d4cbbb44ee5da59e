"""The candidate index on disk: right, mapped, of one model and one knowledge base, whole or absent."""

from __future__ import annotations

import gc
import json
from collections.abc import Sequence
from pathlib import Path

import faiss
import numpy as np
import pyarrow as pa
import pytest
from datasets import Dataset

from eventformers.errors import EventformersError
from eventformers.inference.encode import Vectors
from eventformers.inference.grounding import candidate_files
from eventformers.inference.grounding.candidate_files import (
    EventRow,
    StoredCandidates,
    build_candidate_files,
    events_fingerprint,
    load_candidate_files,
)
from eventformers.inference.search.candidate_index import CandidateIndex
from eventformers.inference.search.index_files import IndexedModel, write_table

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


@pytest.fixture
def events() -> Dataset:
    return Dataset.from_list(ROWS)


@pytest.fixture
def stored(events: Dataset, tmp_path: Path) -> StoredCandidates:
    return build_candidate_files(events, encode, tmp_path / "index", model=MODEL, dimension=8)


@pytest.mark.parametrize("by_language", [True, False])
def test_it_searches_as_an_index_in_memory(tmp_path: Path, by_language: bool) -> None:
    rows = ROWS if by_language else [row for row in ROWS if row["language"] == "de"]
    stored = build_candidate_files(
        Dataset.from_list(rows), encode, tmp_path, model=MODEL, dimension=8, by_language=by_language
    )
    languages = [row["language"] for row in rows] if by_language else None
    index = CandidateIndex([row["event_id"] for row in rows], encode(rows), languages)
    mentions = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
    asked = ["en", "de"] * 3
    found = stored.index.search(mentions, 3, languages=asked)
    expected = index.search(mentions, 3, languages=asked)
    assert found.ids(stored.index.event_ids) == expected.ids(index.event_ids)
    np.testing.assert_array_equal(found.scores, expected.scores)
    assert stored.index.pools == stored.record.descriptions == index.pools


def test_texts_stand_in_the_order_of_the_vectors(stored: StoredCandidates) -> None:
    rows = stored.rows.to_pylist()
    assert [(row["language"], row["event_id"]) for row in rows] == [
        ("de", "Q1"),
        ("de", "Q3"),
        ("de", "Q2"),
        ("en", "Q2"),
        ("en", "Q1"),
    ]
    assert sorted(rows, key=str) == sorted(ROWS, key=str)


def test_files_are_mapped_for_as_long_as_the_index_lives(stored: StoredCandidates) -> None:
    maps = Path("/proc/self/maps")
    if not maps.is_file():
        pytest.skip("this system does not list a process's maps")
    index = load_candidate_files(stored.folder).index
    gc.collect()
    assert str(stored.folder / "events.faiss") in maps.read_text()
    assert index.search(encode(ROWS[:1]), 1, languages=["en"]).ids(index.event_ids) == [["Q2"]]


def test_record(stored: StoredCandidates, events: Dataset) -> None:
    record = load_candidate_files(stored.folder, model=MODEL, fingerprint=events_fingerprint(events)).record
    assert record == stored.record
    assert record.built_by == MODEL
    assert (record.events, record.descriptions, record.dimension) == (3, {"de": 3, "en": 2}, 8)
    assert record.events_fingerprint == events_fingerprint(events)


def test_another_model_or_other_events(stored: StoredCandidates, events: Dataset) -> None:
    for other in (MODEL._replace(revision="other"), MODEL._replace(pooling="mean")):
        with pytest.raises(EventformersError, match=r"built by the model 'tiny'.*received.*--overwrite"):
            load_candidate_files(stored.folder, model=other)
    load_candidate_files(stored.folder, model=MODEL._replace(name="moved"))
    with pytest.raises(EventformersError, match=r"built of events with the fingerprint.*--overwrite"):
        load_candidate_files(stored.folder, fingerprint=events_fingerprint(events.select([0, 1])))


def test_interrupted_building_leaves_what_was_there(
    stored: StoredCandidates, events: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(candidate_files, "write_table", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build_candidate_files(events, encode, stored.folder, model=MODEL, dimension=8, overwrite=True)
    assert load_candidate_files(stored.folder).record == stored.record


def test_torn_and_mixed_files(stored: StoredCandidates, events: Dataset, tmp_path: Path) -> None:
    other = build_candidate_files(events.select([0]), encode, tmp_path / "o", model=MODEL, dimension=8)
    path = stored.folder / "events.faiss"
    path.write_bytes((other.folder / "events.faiss").read_bytes())
    with pytest.raises(EventformersError, match="5 events, 1 vectors and a record of 5 do not fit"):
        load_candidate_files(stored.folder)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(EventformersError, match="not whole"):
        load_candidate_files(stored.folder)


@pytest.mark.parametrize(
    "changed",
    [
        {"descriptions": ["de"]},
        {"descriptions": {"de": "3", "en": "2"}},
        {"descriptions": None},
        {"events_fingerprint": None},
        {"model_revision": 7},
        {"dimension": "8"},
        {"owner": "me"},
    ],
)
def test_a_record_with_other_values_is_told(stored: StoredCandidates, changed: dict[str, object]) -> None:
    path = stored.folder / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(EventformersError, match=r"index\.json: no record of an index"):
        load_candidate_files(stored.folder, model=MODEL, fingerprint="other")


def test_files_of_another_kind_are_told(stored: StoredCandidates) -> None:
    hnsw = faiss.IndexHNSWFlat(8, 4)
    hnsw.add(encode(ROWS))
    faiss.write_index(hnsw, str(stored.folder / "events.faiss"))
    with pytest.raises(EventformersError, match=r"not whole: events\.faiss holds IndexHNSWFlat"):
        load_candidate_files(stored.folder)
    write_table(stored.folder / "events.arrow", pa.table({"event_id": ["Q1"] * 5}))
    with pytest.raises(EventformersError, match=r"not whole: .*language"):
        load_candidate_files(stored.folder)
    (stored.folder / "index.json").write_text("[" * 100_000)
    with pytest.raises(EventformersError, match="no record of an index"):
        load_candidate_files(stored.folder)


def test_what_else_lies_in_its_folder_is_never_replaced(stored: StoredCandidates, events: Dataset) -> None:
    notes = stored.folder / "notes.txt"
    notes.write_text("mine")
    with pytest.raises(EventformersError, match=r"holds other files, such as notes\.txt; accepted: a folder"):
        build_candidate_files(events, encode, stored.folder, model=MODEL, dimension=8, overwrite=True)
    assert notes.read_text() == "mine"
    notes.unlink()
    build_candidate_files(events, encode, stored.folder, model=MODEL, dimension=8, overwrite=True)


def test_what_cannot_be_indexed(events: Dataset, tmp_path: Path) -> None:
    def build(rows: Dataset, **settings: object) -> None:
        build_candidate_files(rows, encode, tmp_path, model=MODEL, dimension=8, **settings)

    with pytest.raises(EventformersError, match="the events have no row"):
        build(events.select([]))
    with pytest.raises(EventformersError, match="no column title"):
        build(events.remove_columns("title"))
    with pytest.raises(EventformersError, match="2 events stand several times, the first 'Q2'; accepted"):
        build(events, by_language=False)
    with pytest.raises(EventformersError, match="1 events stand several times, the first 'Q1' in 'de'"):
        build(Dataset.from_list([*ROWS, ROWS[1]]))
    with pytest.raises(EventformersError, match="has no revision"):
        build_candidate_files(events, encode, tmp_path, model=MODEL._replace(revision=None), dimension=8)
    with pytest.raises(EventformersError, match="not finite"):
        build_candidate_files(
            events, lambda rows: np.full((len(rows), 8), np.nan), tmp_path, model=MODEL, dimension=8
        )
    assert not list(tmp_path.iterdir())
