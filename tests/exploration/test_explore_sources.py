"""Sources of texts, and what is read of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from exploration_steps import ROWS, STORIES, Explore, rows_of

from eventformers.datasets_scripts import loading
from eventformers.errors import EventformersError
from eventformers.exploration import documents


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
