"""Knowledge bases and their index on disk: right, mapped, of one model, whole or absent."""

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
from event_files import write_edges, write_events

from eventformers.datasets_scripts.base import SAMPLES
from eventformers.datasets_scripts.building import build_dataset
from eventformers.errors import DataFormatError, EventformersError
from eventformers.inference.encoding.vectors import Vectors
from eventformers.inference.grounding.knowledge_base import (
    CandidateRecord,
    EventRow,
    load_knowledge_base,
    stored_candidates,
)
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
from eventformers.models.processing_event_grounding import EventText

EVENTS = [
    ("war", "fr", "Guerre", ""),
    ("war", "en", "War", "a war"),
    ("battle", "en", "Battle", ""),
    ("siege", "de", "Belagerung", ""),
    ("siege", "fr", "Siège", "un siège"),
]
EDGES = [("battle", "war"), ("siege", "battle")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_edges(write_events(tmp_path / "kb", EVENTS), EDGES)


def test_events_and_their_hierarchy_are_read(folder: Path) -> None:
    known = load_knowledge_base(folder)
    assert len(known.events) == 5
    assert known.languages == ["de", "en", "fr"]
    assert known.ancestors("siege") == ["battle", "war"]
    assert known.ancestors("war") == []
    assert known.counts == {"events": 3, "event_texts": 5, "hierarchy_edges": 2}
    assert load_knowledge_base(known) is known


def test_texts_fall_back_to_another_language(folder: Path) -> None:
    known = load_knowledge_base(folder)
    assert known.text("war", "fr") == EventText("Guerre", "")
    assert known.text("war", "fi") == EventText("War", "a war")
    assert known.title("battle", "fr") == "Battle"
    # There is no English one: the first that there is.
    assert known.title("siege", "fi") == known.title("siege", "en") == "Belagerung"
    assert known.title("siege", "fr") == "Siège"
    with pytest.raises(KeyError):
        known.text("fire", "en")


def test_languages_are_chosen(folder: Path) -> None:
    known = load_knowledge_base(folder)
    assert known.in_languages({"fr", "fi"})["event_id"][:] == ["war", "siege"]
    assert len(known.in_languages({"de", "en", "fr"})) == 5


def test_the_samples_have_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    known = load_knowledge_base("samples")
    assert known.counts["events"] > 1
    assert known.counts == load_knowledge_base(SAMPLES / "event_hierarchies").counts


def test_a_hierarchy_is_not_needed(tmp_path: Path) -> None:
    known = load_knowledge_base(write_events(tmp_path / "kb", EVENTS) / "label_dict.jsonl.gz")
    assert known.ancestors("siege") == []
    assert known.counts == {"events": 3, "event_texts": 5, "hierarchy_edges": 0}


def test_several_files_are_one_knowledge_base(folder: Path, tmp_path: Path) -> None:
    paths = [str(folder / "label_dict.jsonl.gz"), str(folder / "edges.csv")]
    for data in (paths, os.pathsep.join(paths)):
        assert load_knowledge_base(data).ancestors("siege") == ["battle", "war"]


def test_a_built_dataset_is_the_same_as_its_raw_files(tmp_path: Path) -> None:
    folder = build_dataset("event_hierarchies", None, None, tmp_path / "built")
    built = load_knowledge_base(folder)
    raw = load_knowledge_base(Path(__file__).parents[2] / "datasets_scripts/samples/event_hierarchies")
    assert built.counts == raw.counts
    assert built.graph.parents == raw.graph.parents
    texts = [sorted(known.events.to_list(), key=lambda row: sorted(row.items())) for known in (built, raw)]
    assert texts[0] == texts[1]
    flat = build_dataset("event_hierarchies", "events", None, tmp_path / "flat")
    assert load_knowledge_base(flat).counts["hierarchy_edges"] == 0


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    events = [*EVENTS, ("war", "en", "Again", ""), ("fire", "en", "", "no title")]
    edges = [*EDGES, ("war", "siege"), ("battle", "fire"), ("war", "war")]
    folder = write_edges(write_events(tmp_path / "kb", events), edges)
    # Which event comes before which is not asked.
    (folder / "next.csv").write_text("event_id,next_event_id\nwar,fire\n", encoding="utf-8")
    known = load_knowledge_base(folder)
    assert known.counts == {
        "events": 3,
        "event_texts": 5,
        "hierarchy_edges": 2,
        "event_repeated_in_a_language": 1,
        "event_without_title": 1,
        "hierarchy_edge_of_an_event_to_itself": 1,
        "hierarchy_edge_that_closes_a_cycle": 1,
        "hierarchy_edge_to_no_event": 1,
    }
    assert known.title("war", "en") == "War"


@pytest.mark.parametrize("configs", ["events", "[1, 2]", "{a: b}", "[{path: a}]"])
def test_a_readme_of_something_else_is_passed_over(configs: str, folder: Path) -> None:
    (folder / "README.md").write_text(f"---\nconfigs: {configs}\n---\n", encoding="utf-8")
    assert load_knowledge_base(folder).counts["events"] == 3


def test_a_file_that_nothing_is_known_of_is_told(folder: Path) -> None:
    # In a folder it is passed over; who names it expects it to be read.
    other = folder / "links.csv"
    other.write_text("child,parent\nbattle,war\n", encoding="utf-8")
    assert load_knowledge_base(folder).counts["hierarchy_edges"] == 2
    with pytest.raises(
        EventformersError, match=r"links\.csv: neither its first line nor its name identifies"
    ):
        load_knowledge_base([folder / "label_dict.jsonl.gz", other])


def test_what_is_no_knowledge_base_is_told(tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match="no dataset at missing"):
        load_knowledge_base("missing")
    with pytest.raises(EventformersError, match="found no file with titles of events; accepted: files of"):
        load_knowledge_base(tmp_path)
    empty = write_events(tmp_path / "empty", [("a", "en", "", "")])
    with pytest.raises(EventformersError, match="the knowledge base has no event"):
        load_knowledge_base(empty)
    broken: Any = write_events(tmp_path / "broken", [("a", "", "A", "")])
    with pytest.raises(
        DataFormatError, match=r"label_dict\.jsonl\.gz, line 1: found an event without a lang"
    ):
        load_knowledge_base(broken)


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
def index_at(events: Dataset, tmp_path: Path) -> Path:
    """Folder of an index."""
    stored_candidates(tmp_path / "index", events, encode, model=MODEL, dimension=8)
    return tmp_path / "index"


def opened(index_at: Path, events: Dataset, **settings: Any) -> CandidateIndex:
    return stored_candidates(index_at, events, never, **{"model": MODEL, "dimension": 8} | settings)


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


def test_texts_stand_in_the_order_of_the_vectors(index_at: Path) -> None:
    rows = open_index(index_at, CandidateRecord)[1]["events"].rows.to_pylist()
    assert [(row["language"], row["event_id"]) for row in rows] == [
        ("de", "Q1"),
        ("de", "Q3"),
        ("de", "Q2"),
        ("en", "Q2"),
        ("en", "Q1"),
    ]
    assert sorted(rows, key=str) == sorted(ROWS, key=str)


def test_files_are_mapped_for_as_long_as_the_index_lives(index_at: Path, events: Dataset) -> None:
    maps = Path("/proc/self/maps")
    if not maps.is_file():
        pytest.skip("this system does not list a process's maps")
    index = opened(index_at, events)
    gc.collect()
    assert str(index_at / "events.npy") in maps.read_text()
    assert index.search(encode(ROWS[:1]), 1, languages=["en"]).ids(index.event_ids) == [["Q2"]]


def test_record(index_at: Path) -> None:
    record = read_record(index_at, CandidateRecord)
    assert record.built_by == MODEL
    assert (record.rows, record.by_language, record.dimension) == ({"events": 5}, True, 8)
    assert record.versions["faiss"] == faiss.__version__


def test_another_model_or_other_events(index_at: Path, events: Dataset) -> None:
    for other in (MODEL._replace(revision="other"), MODEL._replace(pooling="mean")):
        with pytest.raises(EventformersError, match=r"built by the model 'tiny'.*received.*--overwrite"):
            opened(index_at, events, model=other)
    opened(index_at, events, model=MODEL._replace(name="moved"))
    opened(index_at, events, overwrite=True)
    fewer = events.select([0, 1])
    with pytest.raises(EventformersError, match=r"built from events with the fingerprint.*--overwrite"):
        opened(index_at, fewer)
    stored_candidates(index_at, fewer, encode, model=MODEL, dimension=8, overwrite=True)
    assert opened(index_at, fewer).pools == {"de": 1, "en": 1}


def test_known_events_are_not_encoded_again(index_at: Path) -> None:
    new = {"event_id": "Q9", "language": "de", "title": "Frieden", "description": ""}
    changed = [*ROWS[1:], new, ROWS[0] | {"description": "of 1914"}]
    encoded: list[str] = []

    def counting(rows: Sequence[EventRow]) -> Vectors:
        encoded.extend(row["title"] for row in rows)
        return encode(rows)

    events = Dataset.from_list(changed)
    stored = stored_candidates(index_at, events, counting, model=MODEL, dimension=8, overwrite=True)
    assert sorted(encoded) == ["Frieden", "World War"]
    index = CandidateIndex(
        [row["event_id"] for row in changed], encode(changed), [row["language"] for row in changed]
    )
    mentions = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
    found, expected = (one.search(mentions, 4, languages=["en", "de"] * 3) for one in (stored, index))
    assert found.ids(stored.event_ids) == expected.ids(index.event_ids)
    encoded.clear()
    other = MODEL._replace(revision="other")
    stored_candidates(index_at, events, counting, model=other, dimension=8, overwrite=True)
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


def test_an_index_of_an_older_format(index_at: Path, events: Dataset) -> None:
    path = index_at / "index.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({"format": 1, "events": 3, "descriptions": {"de": 3, "en": 2}}))
    with pytest.raises(EventformersError, match=r"the format 1, written by .*; build it again .*--overwrite"):
        opened(index_at, events)
    path.write_text(json.dumps(record | {"rows": {"premises": 3}}))
    with pytest.raises(EventformersError, match="an index of premises; accepted: an index of events"):
        opened(index_at, events)
    with pytest.raises(EventformersError, match=r"holds no index, as it has no index\.json"):
        open_index(index_at.parent, CandidateRecord)
    # Format 2 had its vectors in this file.
    (index_at / "events.faiss").write_bytes(b"vectors")
    stored_candidates(index_at, events, encode, model=MODEL, dimension=8, overwrite=True)
    assert json.loads(path.read_text()).keys() == record.keys()
    assert not (index_at / "events.faiss").exists()


def test_files_of_two_indexes_mixed(index_at: Path, events: Dataset, tmp_path: Path) -> None:
    stored_candidates(tmp_path / "other", events.select([0]), encode, model=MODEL, dimension=8)
    path = index_at / "events.npy"
    path.write_bytes((tmp_path / "other" / "events.npy").read_bytes())
    with pytest.raises(EventformersError, match=r"events\.npy: damaged: 160 bytes instead of 288"):
        opened(index_at, events)
    path.unlink()
    with pytest.raises(EventformersError, match=r"events\.npy: damaged: absent"):
        opened(index_at, events)


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
    index_at: Path, events: Dataset, changed: dict[str, object]
) -> None:
    path = index_at / "index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    with pytest.raises(EventformersError, match=r"index\.json is not a valid record of an index"):
        opened(index_at, events)


def test_no_changed_byte_goes_unseen(index_at: Path, events: Dataset) -> None:
    for path in sorted(index_at.iterdir()):
        data = path.read_bytes()
        for place in range(0, len(data), 61):
            path.write_bytes(data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :])
            os.utime(path, ns=(0, place))
            if path.suffix == ".json":
                with suppress(EventformersError):
                    open_index(index_at, CandidateRecord)
            else:
                with pytest.raises(EventformersError, match=f"{path.name}: damaged: its content differs"):
                    open_index(index_at, CandidateRecord)
        path.write_bytes(data[: len(data) // 2])
        with pytest.raises(EventformersError):
            open_index(index_at, CandidateRecord)
        path.write_bytes(data)
        os.utime(path, ns=(0, len(data)))
    opened(index_at, events)


def test_a_large_file_is_checked_on_request(index_at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_folder, "DIGESTED_BYTES", 10)
    data = (index_at / "events.npy").read_bytes()
    (index_at / "events.npy").write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    open_index(index_at, CandidateRecord)
    with pytest.raises(EventformersError, match=r"events\.npy: damaged"):
        verify_index(index_at, CandidateRecord)
    verify_index(index_at / "absent", CandidateRecord)


def test_a_full_disk_keeps_the_earlier_index(
    index_at: Path, events: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_memmap = np.lib.format.open_memmap

    def only_to_read(path: Path, *, mode: str) -> Any:
        assert mode == "r", "a write to a map of a sparse file on a full disk kills the process"
        return open_memmap(path, mode=mode)

    monkeypatch.setattr(np.lib.format, "open_memmap", only_to_read)
    before = {path.name: path.read_bytes() for path in index_at.iterdir()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            stored_candidates(
                index_at, events.select([0, 1, 2, 3]), encode, model=MODEL, dimension=8, overwrite=True
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {path.name: path.read_bytes() for path in index_at.iterdir()} == before


def test_files_of_another_kind_are_told(
    index_at: Path, events: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_folder, "check_files", lambda *arguments: None)
    np.save(index_at / "events.npy", encode(ROWS).astype(np.float64))
    with pytest.raises(EventformersError, match=r"damaged: events\.npy holds float64 of shape \(5, 8\)"):
        opened(index_at, events)
    np.savez(index_at / "events.npy", encode(ROWS))
    (index_at / "events.npy.npz").replace(index_at / "events.npy")
    with pytest.raises(EventformersError, match="damaged: "):
        opened(index_at, events)
    write_table(index_at / "events.arrow", pa.table({"event_id": ["Q1"] * 5}))
    with pytest.raises(EventformersError, match=r"damaged: .*language"):
        opened(index_at, events)
    (index_at / "index.json").write_text("[" * 100_000)
    with pytest.raises(EventformersError, match="is not a valid record of an index"):
        opened(index_at, events)


@pytest.mark.parametrize("name", ["mine.npy", "events.csv", "events.npy.bak", "other.ivf", "notes.txt"])
def test_files_of_the_user_are_no_files_of_an_index(index_at: Path, events: Dataset, name: str) -> None:
    (index_at / name).write_bytes(b"mine")
    with pytest.raises(
        EventformersError, match=f"other files, such as {name}; accepted: an empty or new folder"
    ):
        stored_candidates(index_at, events.select([0]), encode, model=MODEL, dimension=8, overwrite=True)
    assert (index_at / name).read_bytes() == b"mine"


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
