"""What the names of raw files say: format, compression and stem."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventformers.datasets_scripts.reading.lines import file_stem, format_suffix, is_json_lines
from eventformers.datasets_scripts.reading.tables import has_records, is_table


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
