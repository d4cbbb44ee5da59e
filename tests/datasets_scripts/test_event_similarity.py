"""The similarity tests, good and bad."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from eventformers.datasets_scripts import build_dataset, build_reports, load_built
from eventformers.datasets_scripts.event_similarity import EventSimilarity
from eventformers.errors import DataFormatError, EventformersError, UnknownNameError

HARD = "a | runs | b | c | walks | d | a | runs | b | a | runs | e\n"
TRANSITIVE = "author | write | book | delegate | buy | land | 1.13\n"


def test_hard_rows(tmp_path: Path) -> None:
    (tmp_path / "hard.txt").write_bytes(b"\xef\xbb\xbf" + HARD.replace("\n", "\r\n").encode() + b"\r\n")
    rows = load_built(tmp_path, "hard")["test"]
    assert rows.to_list() == [
        {
            "similar_a": {"subject": "a", "predicate": "runs", "object": "b"},
            "similar_b": {"subject": "c", "predicate": "walks", "object": "d"},
            "dissimilar_a": {"subject": "a", "predicate": "runs", "object": "b"},
            "dissimilar_b": {"subject": "a", "predicate": "runs", "object": "e"},
        }
    ]


def test_absent_roles_are_empty_text(tmp_path: Path) -> None:
    (tmp_path / "transitive.txt").write_text("it | rains | | | shut up | door | 7\n", encoding="utf-8")
    (row,) = load_built(tmp_path, "transitive")["test"]
    assert row["event_a"] == {"subject": "it", "predicate": "rains", "object": ""}
    assert row["event_b"] == {"subject": "", "predicate": "shut up", "object": "door"}
    assert row["score"] == 7.0


@pytest.mark.parametrize(
    ("config", "text", "line", "found"),
    [
        ("hard", HARD + HARD.replace(" | e", ""), 2, "found 11 fields; accepted: 12 fields"),
        ("hard", HARD.replace("c | walks | d", " | | "), 1, "found an event without any word"),
        ("hard", "", None, "found an empty file"),
        ("transitive", TRANSITIVE.replace("1.13", "high"), 1, "found the score 'high'; accepted: a number"),
        ("transitive", TRANSITIVE.replace("1.13", "nan"), 1, "found the score 'nan'"),
        ("transitive", TRANSITIVE.replace("1.13", "7.5"), 1, "from 1 to 7"),
        ("transitive", HARD, 1, "found 12 fields; accepted: 7 fields"),
    ],
)
def test_bad_rows_name_file_and_line(
    tmp_path: Path, config: str, text: str, line: int | None, found: str
) -> None:
    path = tmp_path / f"{config}.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataFormatError, match=re.escape(found)) as caught:
        build_dataset("event_similarity", config, data_dir=tmp_path, output=tmp_path / "out")
    assert (caught.value.path, caught.value.line) == (path, line)
    assert not [item for item in (tmp_path / "out").rglob("*") if item.is_file()]


def test_only_configs_with_a_raw_file_are_built(tmp_path: Path) -> None:
    (tmp_path / "transitive.txt").write_text(TRANSITIVE, encoding="utf-8")
    folder = build_dataset("event_similarity", data_dir=tmp_path, output=tmp_path / "out")
    assert list(build_reports(folder)) == ["transitive"]
    with pytest.raises(EventformersError, match=r"config hard, in .*; accepted: hard\.txt with 12 fields"):
        EventSimilarity("hard", data_dir=tmp_path)
    with pytest.raises(UnknownNameError, match="Did you mean 'hard_extended'"):
        EventSimilarity("hard_extend", data_dir=tmp_path)


def test_pairs_that_differ_in_the_verb_have_the_columns_of_rated_pairs(tmp_path: Path) -> None:
    (tmp_path / "verbs_in_context.txt").write_text(
        "map | show | way | map | picture | way | 2.5\n", encoding="utf-8"
    )
    (row,) = load_built(tmp_path, "verbs_in_context")["test"]
    assert (row["event_a"]["predicate"], row["event_b"]["predicate"], row["score"]) == (
        "show",
        "picture",
        2.5,
    )


def test_the_real_files(shared_data: Path, tmp_path: Path) -> None:
    folder = build_dataset("event_similarity", data_dir=shared_data / "similarity", output=tmp_path / "out")
    reports = build_reports(folder)
    assert {config: report["rows"] for config, report in reports.items()} == {
        "hard": 115,
        "hard_extended": 500,
        "transitive": 20,
        "verbs_in_context": 199,
    }
    assert all(report["skipped"] == {} for report in reports.values())
    rows = load_built(folder, "hard")["test"]
    # 81 of the 115 rows take up their first event in the dissimilar pair again.
    assert sum(row["similar_a"] == row["dissimilar_a"] for row in rows) == 81


@pytest.mark.parametrize("score", ["nan", "inf", "-inf", "-1", "0.5", "8", "", "one"])
def test_a_malformed_row_is_refused_or_left_out(tmp_path: Path, score: str) -> None:
    path = tmp_path / "transitive.txt"
    good = "a | b | c | d | e | f | 3.5"
    path.write_text(f"{good}\n\n{good[:-3]}{score}\n{good}\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match=r"line 3: .*malformed=.skip"):
        EventSimilarity("transitive", data_dir=path, cache_dir=tmp_path / "a").download_and_prepare()
    builder = EventSimilarity("transitive", data_dir=path, cache_dir=tmp_path / "b", malformed="skip")
    builder.download_and_prepare()
    report = builder.reports["test"]
    assert report.read["rows"] == 2
    assert report.skipped == {"malformed_row": 1, "blank_line": 1}


def test_two_files_of_one_test_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "transitive.txt").write_text("a|b|c|d|e|f|2\n", encoding="utf-8")
    with pytest.raises(EventformersError, match=r"a/transitive\.txt and .*b/transitive\.txt; accepted: one"):
        EventSimilarity.find_raw_files("transitive", [tmp_path / "a", tmp_path / "b"])
