"""Texts in CSV, TSV, Parquet and memory: equal documents, named columns, dates, and bad input."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eventformers
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.errors import DataFormatError, EventformersError
from eventformers.extraction.texts import (
    USUAL_COLUMNS,
    TextColumns,
    TextDocument,
    TextRows,
    find_text_files,
    iso_date,
    read_texts,
    split_document,
)

Row = dict[str, Any]
ROWS: list[Row] = [
    {"id": "a", "text": 'One, "two"\nlines.', "license": "CC BY 2.5", "source": "s", "date": "2024-05-31"},
    {"id": "b", "text": "Zwölf.", "license": "", "source": "", "date": ""},
]


def read(
    *sources: Path | TextRows, malformed: str = "error", columns: TextColumns = USUAL_COLUMNS, **options: Any
) -> tuple[list[TextDocument], Counter[str], SkippedRows]:
    read_counts: Counter[str] = Counter()
    skipped = SkippedRows(malformed)
    places = [
        place
        for source in sources
        for place in ([source] if isinstance(source, TextRows) else find_text_files(source, skipped))
    ]
    return list(read_texts(places, read_counts, skipped, columns=columns, **options)), read_counts, skipped


def write(path: Path, rows: Sequence[Row]) -> Path:
    import pandas as pd

    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
    elif ".jsonl" in path.suffixes:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        pd.DataFrame(rows).to_csv(path, index=False, sep="\t" if ".tsv" in path.suffixes else ",")
    return path


@pytest.mark.parametrize("name", ["s.jsonl", "s.csv", "s.csv.gz", "s.tsv", "s.parquet", "memory"])
def test_formats_are_equal(tmp_path: Path, name: str) -> None:
    source = TextRows(ROWS, "row", "s") if name == "memory" else write(tmp_path / name, ROWS)
    documents, counted, skipped = read(source)
    assert documents == [
        TextDocument("a", 'One, "two"\nlines.', "s", "CC-BY-2.5", "", "2024-05-31"),
        TextDocument("b", "Zwölf.", "s", "unspecified", "", ""),
    ]
    assert (counted["documents"], sum(skipped.values())) == (2, 0)


def test_rows_without_an_id(tmp_path: Path) -> None:
    table = write(tmp_path / "s.csv", [{"text": "One\nline."}, {"text": "Two."}])
    assert [document.document_id for document in read(table)[0]] == ["s/3", "s/4"], "the last line of a row"
    rows = TextRows(["One.", {"text": "Two."}], "row", "s")
    assert [document.document_id for document in read(rows)[0]] == ["row/1", "row/2"]


def test_files_of_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", ROWS[:1])
    write(tmp_path / "b.parquet", ROWS[1:])
    (tmp_path / "c.txt").write_text("Three.", encoding="utf-8")
    documents, counted, _ = read(tmp_path)
    assert [document.document_id for document in documents] == ["a", "b", "c"]
    assert counted["files"] == 3


def test_named_columns(tmp_path: Path) -> None:
    row = {"Body": "One.", "text": "teaser", "day": "2024-05-31", "key": "k", "head": "H", "author": "A"}
    columns = TextColumns(text="body", id="key", title="head", date="day")
    expected = TextDocument("k", "One.", "s", "unspecified", "H", "2024-05-31")
    for name in ("s.jsonl", "s.csv", "s.parquet"):
        documents, *_ = read(write(tmp_path / name, [row]), columns=columns)
        assert documents == [expected], name
    assert read(TextRows([row], "row", "s"), columns=columns)[0] == [expected]
    strings = TextRows(["One."], "row", "s")
    assert read(strings, columns=TextColumns(text="body"))[0][0].text == "One."


def test_other_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "s.csv", [{"text": "One.", "author": "A"}])
    with pytest.warns(UserWarning, match=r"s\.csv: ignored the column 'author'"):
        assert len(read(path)[0]) == 1
    assert len(read(path, columns=TextColumns(others=True))[0]) == 1
    assert len(read(path, columns=TextColumns(text="text"))[0]) == 1


@pytest.mark.parametrize(
    ("columns", "row", "found"),
    [
        (
            TextColumns(others=True),
            {"content": "a"},
            "found the .* content; accepted: a .* text; --text-column",
        ),
        (TextColumns(text="body"), {"text": "a"}, "found the .* text; accepted: a .* body; --text-column"),
        (TextColumns(date="day"), {"text": "a"}, "found the .* text; accepted: a .* day; --date-column"),
        (TextColumns(others=True), {"text": "a", "id": 1.5}, '"id" of type float'),
        (
            TextColumns(date="day"),
            {"text": "a", "day": "May"},
            "the date 'May'; accepted: a date in ISO 8601",
        ),
        (TextColumns(), {"text": "a", "id": "b", "document_id": "c"}, '"id" and "document_id" that differ'),
    ],
)
def test_bad_rows(tmp_path: Path, columns: TextColumns, row: Row, found: str) -> None:
    for source in (write(tmp_path / "s.jsonl", [row]), write(tmp_path / "s.parquet", [row])):
        with pytest.raises(DataFormatError, match=found) as caught:
            read(source, columns=columns)
        assert caught.value.line == 1
    with pytest.raises(DataFormatError, match=found) as caught:
        read(TextRows([row], "row", "mine"), columns=columns)
    assert "mine, row 1" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "line", "found"),
    [
        ("a.csv", b"id,text\n1,a\n2\n", 3, "1 column;"),
        ("a.csv", b'id,text\n1,"a\n', 2, "broken CSV"),
        ("a.csv", b"text,text\na,b\n", 1, "the column 'text' twice"),
        ("a.csv", b"text\n", None, "a header without rows"),
        ("a.csv", b"text\ncaf\xe9\n", 2, "byte 0xe9"),
        ("a.parquet", b"no parquet at all", None, "no Parquet"),
        ("a.txt", b"%PDF-1.7\n%\xe2\xe3\n", None, "a PDF file; accepted: plain text in UTF-8; convert"),
        ("a.txt", b"PK\x03\x04\x14", None, "a ZIP archive or an Office file"),
        ("a.txt", "Text".encode("utf-16"), None, "text in UTF-16"),
        ("a.txt", b"One.\nT\0w\0o\0", 2, "a NUL character"),
        ("a", b"%PDF-1.7\n", None, "a PDF file"),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: bytes, line: int | None, found: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataFormatError, match=found) as caught:
        read(path)
    assert caught.value.path == path
    assert caught.value.line == line
    assert "\n" not in str(caught.value)


def test_malformed_rows_and_binary_files_can_be_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"%PDF-1.7\n")
    (tmp_path / "b.txt").write_bytes(b"T\0wo")
    (tmp_path / "c.csv").write_text("id,text,date\n1,One.,2024-05-31\n2,Two.,May\n3\n", encoding="utf-8")
    documents, _, skipped = read(tmp_path, malformed="skip", columns=TextColumns(date="date"))
    assert [document.text for document in documents] == ["One."]
    assert skipped == {"malformed_document": 3, "malformed_row": 1}


def test_a_field_may_be_long(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [{"text": "words " * 100_000}])
    assert len(read(path)[0][0].text) == 600_000


def test_a_folder_without_texts(tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match=r"no text in .*no files.; accepted: \.txt, \.jsonl, \.csv"):
        read(tmp_path)
    for name in ("a.pdf", "b.PDF", "c.docx"):
        (tmp_path / name).touch()
    with pytest.raises(EventformersError, match=r"files: 2 with \.pdf, 1 with \.docx"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ""),
        (" ", ""),
        ("2024-05-31", "2024-05-31"),
        ("2024-05-31 00:00:00", "2024-05-31"),
        ("2024-05-31T00:00:00Z", "2024-05-31T00:00:00+00:00"),
        ("2024-05-31 14:30", "2024-05-31T14:30:00"),
        ("2024", "2024"),
        (" 2024-05", "2024-05"),
        (2024, "2024"),
        (20240531, "2024-05-31"),
        (date(2024, 5, 31), "2024-05-31"),
        (datetime(2024, 5, 31), "2024-05-31"),
        (datetime(2024, 5, 31, 14, tzinfo=UTC), "2024-05-31T14:00:00+00:00"),
    ],
)
def test_dates(value: object, expected: str) -> None:
    assert iso_date(value, Path("a"), 1) == expected


@pytest.mark.parametrize(
    "value", ["31.05.2024", "05/31/2024", "2024-13-01", "May 2024", "2024-5", 1717171717, True]
)
def test_other_dates(value: object) -> None:
    with pytest.raises(DataFormatError, match="found the date"):
        iso_date(value, Path("a"), 1)


def test_dates_without_a_named_column_are_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [{"text": "One.", "date": "May"}])
    documents, counted, _ = read(path)
    assert documents[0].date == ""
    assert counted["document_with_unreadable_date"] == 1


def test_values_of_another_type_in_columns_that_are_not_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    row = {"text": "One.", "source": {"name": "BBC"}, "title": ["One"], "license": 1.5}
    path.write_text(json.dumps(row))
    documents, counted, _ = read(path)
    assert (documents[0].source, documents[0].title) == ("a", "")
    assert {reason for reason in counted if "unreadable" in reason} == {
        f"document_with_unreadable_{part}" for part in ("source", "license", "title")
    }
    with pytest.raises(DataFormatError, match='"title" of type list'):
        read(path, columns=TextColumns(title="title"))
    path.write_text(json.dumps({"text": "One.", "id": {"a": 1}}))
    with pytest.raises(DataFormatError, match='"id" of type dict'):
        read(path)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("short", ["short"]),
        ("aaaa\nbbbb\n\ncccc dddd", ["aaaa\nbbbb", "cccc dddd"]),
        ("aaaa bbbb\ncccc dddd", ["aaaa bbbb", "cccc dddd"]),
        ("aaaa. bbb ccc ddd eee", ["aaaa.", "bbb ccc", "ddd eee"]),
        ("aaaa bbbb cccc dddd", ["aaaa bbbb", "cccc dddd"]),
        ("a" * 30, ["a" * 12, "a" * 12, "a" * 6]),
        ("\n" * 20 + "end", ["end"]),
    ],
)
def test_splitting(text: str, parts: list[str]) -> None:
    documents = split_document(TextDocument("d", text, "s", "l", "T", "2024-05-31"), 12)
    assert [document.text for document in documents] == parts
    assert all(document.date == "2024-05-31" for document in documents)
    ids = ["d/1", "d/2", "d/3"][: len(parts)] if len(text) > 12 else ["d"]
    assert [document.document_id for document in documents] == ids


def test_extract_reads_columns(english_pipeline: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [{"body": "Anna opened the door.", "author": "A", "key": "k"}])
    finished = eventformers.extract(
        path, tmp_path / "out", pipeline=english_pipeline, text_column="body", id_column="key"
    )
    assert finished.counts.written["events"] == 1
    with pytest.raises(EventformersError, match="extracted with other columns"):
        eventformers.extract(
            path, tmp_path / "out", pipeline=english_pipeline, text_column="body", resume=True
        )


def test_names_of_columns() -> None:
    with pytest.raises(EventformersError, match="--id-column: found an empty name"):
        TextColumns(id="").named()
    with pytest.raises(EventformersError, match="found 'a' for two columns"):
        TextColumns(id="a", text="a").named()


def test_a_named_column_without_a_table_is_not_used_and_said(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("One.\n", encoding="utf-8")
    with pytest.warns(UserWarning, match="--text-column body: not used, as no file is a table") as shown:
        read(tmp_path / "a.txt", columns=TextColumns(text="body"))
    # Commands show the warnings of this package alone.
    assert Path(shown[0].filename).name == "texts.py"
    (tmp_path / "b.csv").write_text("body\nTwo.\n", encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(tmp_path / "a.txt", tmp_path / "b.csv", columns=TextColumns(text="body"))
