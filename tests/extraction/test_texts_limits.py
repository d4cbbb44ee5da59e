"""Small files that stand for much text: they are read within a limit, or named."""

from __future__ import annotations

import bz2
import gzip
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.reading.lines import MAX_LINE_BYTES_VARIABLE
from eventformers.datasets_scripts.reading.tables import BLOCK_ROWS, _block_rows
from eventformers.errors import DataFormatError
from eventformers.extraction.texts import TextDocument, find_text_files, read_texts

LIMIT = 2**16
SGML = b'<DOC id="a" type="story">\n<TEXT>\n<P>\n' + b"a b\n" * LIMIT + b"</P>\n</TEXT>\n</DOC>\n"


@pytest.fixture(autouse=True)
def _limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MAX_LINE_BYTES_VARIABLE, str(LIMIT))


def texts(path: Path) -> list[TextDocument]:
    skipped = SkippedRows("error")
    return list(read_texts(find_text_files(path, skipped), Counter(), skipped))


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("a.txt.gz", gzip.compress(b"a b\n" * LIMIT), "a text of more than 65,536 characters"),
        ("a.txt.bz2", bz2.compress(b"\n" * (LIMIT + 1)), "a text of more than 65,536 characters"),
        ("a.txt", b"word\n" * LIMIT, "line 13108: found a text of more than 65,536 characters"),
        ("a.sgml.gz", gzip.compress(SGML), "a text of more than 65,536 characters"),
        (
            "a.csv.gz",
            gzip.compress(b'text\n"' + b"a\n" * LIMIT + b'"\n'),
            "a row of more than 2,595 lines",
        ),
        ("a.jsonl.gz", gzip.compress(b"x" * 2 * LIMIT), "a line of more than 65,536 bytes"),
    ],
)
def test_the_limit_holds_for_what_a_file_unpacks_to(
    tmp_path: Path, name: str, content: bytes, found: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataFormatError, match=f"{name}.*{found}"):
        texts(path)


def test_a_json_line_of_many_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MAX_LINE_BYTES_VARIABLE, str(2**21))
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a b", "metadata": [' + "0, " * 2**19 + "0]}\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match="found JSON with 524,291 values; accepted: at most 32,768"):
        texts(path)
    path.write_text('{"text": "' + "a " * 2**19 + '"}\n', encoding="utf-8")
    assert len(texts(path)) == 1


def test_a_text_of_just_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a b\r\n\n" + "x" * (LIMIT - 6), encoding="utf-8")
    assert texts(path)[0].text == "a b\n\n" + "x" * (LIMIT - 6)


def test_repeated_values_of_parquet_are_read_in_few_rows(tmp_path: Path) -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int32()), pa.array(["a " * 10_000]))
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": values}), path, compression="zstd")
    group = pq.ParquetFile(path).metadata.row_group(0)
    assert _block_rows(path, group, {"text"}) == LIMIT // group.column(0).total_uncompressed_size == 3
    assert len(texts(path)) == 1000
    assert _block_rows(path, group, {"other"}) == BLOCK_ROWS


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (["a " * LIMIT], r"131,\d+ bytes of the column 'text' in"),
        ([[0] * LIMIT], r"65,535 items of the column 'text\.list\.element' in"),
    ],
)
def test_long_values_of_parquet_are_named(tmp_path: Path, values: list[object], found: str) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": values}), path, compression="zstd")
    with pytest.raises(DataFormatError, match=found):
        texts(path)
