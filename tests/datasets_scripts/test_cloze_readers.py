"""Items of the narrative cloze files of Weber et al., good and bad."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventformers.datasets_scripts.chain_readers import checked_question, read_cloze_items
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.errors import DataFormatError


def test_items_keep_their_parts_and_lines(tmp_path: Path) -> None:
    path = tmp_path / "mcnc_dev.txt"
    path.write_text(
        "rocket|rose at|station\nexploded\n\nHOLDOUT_SEP\n\nwe|on|voyage\nNEG_SEP\n\n"
        "a|b|c\nd|e|f\nDOC_SEP\n\n"
        "|fell|\nHOLDOUT_SEP\nx|y|z\nNEG_SEP\nu|v|w\n",
        encoding="utf-8",
    )
    first, second = read_cloze_items(path, SkippedRows())
    assert [event["predicate"] for event in first.context] == ["rose at", "exploded"]
    assert [event["predicate"] for event in first.held_out] == ["on"]
    assert [event["predicate"] for event in first.wrong] == ["b", "e"]
    assert [(item.item_id, item.line) for item in (first, second)] == [
        ("mcnc_dev/0", 11),
        ("mcnc_dev/1", 17),
    ]
    assert checked_question(second, path) is second


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("HOLDOUT_SEP\na|b|c\nNEG_SEP\nd|e|f\nDOC_SEP\n", "line 5: found an item without context"),
        ("a|b|c\nHOLDOUT_SEP\nNEG_SEP\nd|e|f\nDOC_SEP\n", "an item with 0 held-out events"),
        ("a|b|c\nHOLDOUT_SEP\na|b|c\nx|y|z\nNEG_SEP\nd|e|f\nDOC_SEP\n", "an item with 2 held-out events"),
        ("a|b|c\nHOLDOUT_SEP\nx|y|z\nNEG_SEP\nDOC_SEP\n", "line 5: found an item with one choice"),
    ],
)
def test_items_that_cannot_be_asked_are_refused(tmp_path: Path, text: str, found: str) -> None:
    path = tmp_path / "mcnc_dev.txt"
    path.write_text(text, encoding="utf-8")
    (item,) = read_cloze_items(path, SkippedRows())
    with pytest.raises(DataFormatError, match=found):
        checked_question(item, path)
