"""Lines and markup."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from eventformers.datasets_scripts.reading.lines import file_stem, format_suffix, is_json_lines
from eventformers.datasets_scripts.reading.markup import children, elements, read_xml
from eventformers.datasets_scripts.reading.tables import has_records, is_table
from eventformers.errors import DataFormatError


@pytest.mark.parametrize(
    ("name", "suffix", "stem"),
    [
        ("events.jsonl", ".jsonl", "events"),
        ("News.2020.CSV.gz", ".csv", "News.2020"),
        ("docs.jsonl.bz2", ".jsonl", "docs"),
        ("nyt_eng_199407.gz", "", "nyt_eng_199407"),
        ("news.2020", ".2020", "news.2020"),
        (".jsonl", "", ".jsonl"),
    ],
)
def test_format_and_stem(name: str, suffix: str, stem: str) -> None:
    assert (format_suffix(Path(name)), file_stem(Path(name))) == (suffix, stem)


def test_names_of_records() -> None:
    assert all(map(is_json_lines, map(Path, ("a.JSONL", "a.json.gz", "a.ndjson.bz2"))))
    assert all(map(is_table, map(Path, ("a.CSV", "a.tsv.bz2", "a.Parquet"))))
    assert not any(map(has_records, map(Path, ("a.txt", "a.parquet.gz", "jsonl", "a.csv.txt"))))


def write(folder: Path, text: str) -> Path:
    path = folder / "file.xml"
    path.write_text(text, encoding="utf-8")
    return path


def test_elements_know_their_lines_and_lose_their_namespaces(tmp_path: Path) -> None:
    text = '<?xml version="1.0"?>\n<a xmlns="http://example.org/x">\n <b>é</b>\n <c>\n  <b/></c>\n</a>\n'
    root = read_xml(write(tmp_path, text))
    assert (root.tag, root.line) == ("a", 2)
    assert [(item.line, item.text) for item in elements(root, "b")] == [(3, "é"), (5, None)]
    assert [item.line for item in children(root, "b")] == [3]


def test_a_document_type_beside_the_file_is_never_opened(tmp_path: Path) -> None:
    (tmp_path / "apf.dtd").write_text('<!ENTITY x "from the type">', encoding="utf-8")
    assert read_xml(write(tmp_path, '<!DOCTYPE a SYSTEM "apf.dtd">\n<a>b</a>')).text == "b"
    with pytest.raises(DataFormatError, match="line 2: found broken XML"):
        read_xml(write(tmp_path, '<!DOCTYPE a SYSTEM "apf.dtd">\n<a>&x;</a>'))


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ('<!DOCTYPE a SYSTEM "http://example.org/a.dtd">\n<a/>', 1, "a document type outside of the folder"),
        ('<!DOCTYPE a SYSTEM "../a.dtd">\n<a/>', 1, "('../a.dtd')"),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd">\n<a/>', 1, "'file:///etc/passwd'"),
        ('<!DOCTYPE a PUBLIC "-//x//y" "https://example.org/a.dtd">\n<a/>', 1, "document type outside"),
        ('<!DOCTYPE a [\n<!ENTITY x SYSTEM "file:///etc/passwd">]>\n<a>&x;</a>', 2, "XML with entities"),
        ('<!DOCTYPE a [\n<!ENTITY % x SYSTEM "http://example.org/x">\n%x;]>\n<a/>', 2, "XML with entities"),
        ('<!DOCTYPE a [<!ENTITY x "xx">]>\n<a>&x;</a>', 1, "XML with entities"),
        ('<!DOCTYPE a [\n<!ATTLIST b c CDATA "long">]>\n<a><b/></a>', 2, "XML that declares attributes"),
        ("<a>\n<b></a>", 2, "broken XML"),
        ("<a>\n", 2, "broken XML"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, line: int, found: str) -> None:
    with pytest.raises(DataFormatError, match=re.escape(found)) as caught:
        read_xml(write(tmp_path, text))
    assert caught.value.line == line
