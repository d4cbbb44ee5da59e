"""The wide table of events in each format: joins, order, formulas and limits."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import load_dataset

import eventformers
from eventformers.datasets_scripts.events import DOCUMENT_SCHEMA, EVENT_SCHEMA, empty_details
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.extraction import wide
from eventformers.extraction.wide import WIDE_FILES, check_format, write_wide

HOSTILE = '=HYPERLINK("https://example.org")'


def event(number: int, document: str, text: str, trigger: str, **columns: Any) -> dict[str, Any]:
    start = text.index(trigger)
    return {
        **empty_details(),
        **{"event_id": f"{document}#{number}", "document_id": document, "number": number, "sentence": 0},
        **{"sentence_start": 0, "sentence_end": len(text), "trigger": trigger, "trigger_start": start},
        **{"trigger_end": start + len(trigger), "subject": "anna", "predicate": trigger, "object": ""},
        **{"text": f"anna {trigger}", "lemma": trigger, "negated": False, "passive": False},
        **columns,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Tables in a folder whose name is a pattern for DuckDB; the later document has the first event."""
    folder = tmp_path / "run [1]*"
    folder.mkdir()
    first, second = "\U0001f30d Anna left\nParis.", "Anna, who won, sang."
    participants = [{"preposition": "in", "text": "Paris", "start": 0, "end": 1, "actor_id": ""}]
    participants += [{"preposition": "", "text": "-her dog", "start": 0, "end": 1, "actor_id": ""}]
    events = [
        event(0, "b", second, "sang", subject_id="a1", factuality="reported", source_id="a2"),
        event(1, "b", second, "won", latitude=-33.9, country="AU", participants=participants),
        event(0, "a", first, "left", object=HOSTILE, factuality="fact"),
    ]
    origin = {"source": "news", "license": "CC0-1.0", "date": "2024-05-31"}
    documents = [
        {"document_id": "a", "title": "@one", "url": "https://example.org", "text": first, **origin},
        {"document_id": "b", "title": 'Two, "b"', "url": "", "text": second, **origin},
    ]
    actors = {"actor_id": ["a1", "a2"], "name": ["Anna Lee", "Reuters"], "kind": ["person", "organisation"]}
    pq.write_table(pa.Table.from_pylist(events, schema=EVENT_SCHEMA), folder / "events.parquet")
    pq.write_table(pa.Table.from_pylist(documents, schema=DOCUMENT_SCHEMA), folder / "documents.parquet")
    pq.write_table(pa.table(actors), folder / "actors.parquet")
    pq.write_table(pa.table({"type_id": [4], "name": ["sing"]}), folder / "types.parquet")
    pq.write_table(pa.table({"event_id": ["b#0"], "type_id": [4]}), folder / "event_types.parquet")
    pq.write_table(pa.table({"event_id": ["a#0"], "story_id": ["s7"]}), folder / "event_stories.parquet")
    pq.write_table(pa.table({"story_id": ["s7"], "name": ["Anna leaves"]}), folder / "stories.parquet")
    return folder


def test_a_row_an_event_in_their_order(folder: Path) -> None:
    write_wide(folder, "parquet", folder / "wide.parquet")
    rows = pq.read_table(folder / "wide.parquet").to_pylist()
    assert [row["event_id"] for row in rows] == ["b#0", "b#1", "a#0"]
    assert (rows[0]["subject_name"], rows[0]["lemma"]) == ("Anna Lee", "sang")
    assert (rows[0]["source_name"], rows[0]["source_kind"]) == ("Reuters", "organisation")
    assert (rows[0]["type_id"], rows[0]["type"], rows[0]["story_id"]) == (4, "sing", None)
    assert (rows[1]["participants"], rows[1]["latitude"]) == ("in Paris; -her dog", -33.9)
    assert (rows[2]["title"], rows[2]["url"]) == ("@one", "https://example.org")
    # Places count characters, and a cell has one line.
    assert rows[2]["sentence_text"] == "\U0001f30d Anna left Paris."
    assert (rows[2]["object"], rows[2]["story_id"], rows[2]["story"]) == (HOSTILE, "s7", "Anna leaves")


def test_csv_has_no_formulas(folder: Path) -> None:
    write_wide(folder, "csv", folder / "wide.csv")
    with open(folder / "wide.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["title"] for row in rows] == ['Two, "b"', 'Two, "b"', "'@one"]
    assert rows[2]["object"] == f"'{HOSTILE}"
    # Numbers are no formulas.
    assert (rows[1]["latitude"], rows[0]["latitude"]) == ("-33.9", "")
    write_wide(folder, "csv-bom", folder / "bom.csv")
    assert (folder / "bom.csv").read_bytes() == b"\xef\xbb\xbf" + (folder / "wide.csv").read_bytes()


def test_a_sheet_has_texts_and_numbers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xlsxwriter", reason="XlsxWriter is in the extra excel")
    write_wide(folder, "xlsx", folder / "wide.xlsx")
    with ZipFile(folder / "wide.xlsx") as book:
        sheet = book.read("xl/worksheets/sheet1.xml").decode()
    assert "<f>" not in sheet
    assert "=HYPERLINK(" in sheet
    assert "<v>-33.9</v>" in sheet
    monkeypatch.setattr(wide, "XLSX_ROWS", 2)
    with pytest.raises(EventformersError, match="3 events for an xlsx file; accepted: at most 2"):
        write_wide(folder, "xlsx", folder / "other.xlsx")
    assert not (folder / "other.xlsx").exists()


def test_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    check_format(None)
    with pytest.raises(UnknownNameError, match="unknown format 'xls'"):
        check_format("xls")
    monkeypatch.setattr(wide, "find_spec", lambda name: None)
    with pytest.raises(EventformersError, match=r"eventformers\[excel\]"):
        check_format("xlsx")


def test_extract_and_explore_write_it(english_pipeline: str, tiny_encoder: Path, tmp_path: Path) -> None:
    text = tmp_path / "one.txt"
    text.write_text("Anna opened the door. Police said Peter sold the car.", encoding="utf-8")
    output, settings = tmp_path / "events", {"pipeline": english_pipeline}
    found = eventformers.extract(text, output, file_format="csv", **settings)
    assert output / "events.csv" in found.files
    for kind, name in (("parquet", "events.parquet"), ("csv", "events.csv")):
        read = load_dataset(kind, data_files=str(output / name), cache_dir=str(tmp_path / "cache"))["train"]
        assert read["factuality"] == ["fact", "fact", "reported"]
    eventformers.extract(text, output, file_format="parquet", resume=True, **settings)
    table = pq.read_table(output / "events_wide.parquet")
    assert table["factuality"].to_pylist() == ["fact", "fact", "reported"]
    assert "type" not in table.column_names
    eventformers.extract(text, output, overwrite=True, **settings)
    assert not {path.name for path in output.iterdir()} & set(WIDE_FILES.values())
    explored = {"events": tiny_encoder, "types": tiny_encoder, "device": "cpu", "skip": ["map"], **settings}
    folder = eventformers.explore(text, tmp_path / "explored", file_format="csv", **explored).folder
    with open(folder / "events.csv", encoding="utf-8", newline="") as file:
        assert "type" in next(csv.reader(file))
    assert 'href="events.csv"' in (folder / "index.html").read_text(encoding="utf-8")
    eventformers.explore(text, folder, **explored)
    assert not (folder / "events.csv").exists()
