"""The tables and the page of an induction: whole, self-contained, and with texts escaped."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from html_pages import Page, assert_self_contained

from eventformers.errors import EventformersError
from eventformers.inference.induction import report as induction_map
from eventformers.inference.induction import report as induction_report
from eventformers.inference.induction.induce import Induction, induce
from eventformers.inference.induction.report import (
    drawn_mentions,
    marker,
    place_mentions,
    report_page,
    write_induction,
)

ROWS = [
    {"text": "the <b>police</b> arrested & held a man", "trigger_start": 18, "trigger_end": 26},
    {"text": "a storm hit the city"},
    {"text": "the police arrested a thief", "trigger_start": 11, "trigger_end": 19, "event_type": "Arrest"},
    {"text": "a flood hit the road", "event_type": "Arrest", "license": "CC-BY-4.0"},
]


@pytest.fixture
def induction(tiny_encoder: Path) -> Induction:
    with pytest.warns(UserWarning, match="2 of 4 mentions have no trigger"):
        return induce(tiny_encoder, ROWS, num_clusters=2)


def test_writes_tables_and_page(induction: Induction, tmp_path: Path) -> None:
    files = write_induction(induction, tmp_path / "out")
    table = pq.read_table(files[0])
    assert table["text"].to_pylist() == [row["text"] for row in ROWS]
    assert table["license"].to_pylist()[3] == "CC-BY-4.0"
    assert table["cluster"].to_pylist() == induction.cluster.tolist()
    assert table["trigger_start"].to_pylist() == [18, -1, 11, -1]
    assert json.loads(table.schema.metadata[b"settings"])["num_clusters"] == 2
    lines = [json.loads(line) for line in files[1].read_text(encoding="utf-8").splitlines()]
    assert [line["name"] for line in lines] == [found.name for found in induction.types]
    assert sum(line["size"] for line in lines) == 4
    assert sum(line["weak"] != "" for line in lines) == induction.counts["weak_types"]
    assert {path.name for path in (tmp_path / "out").iterdir()} == {path.name for path in files}
    with pytest.raises(EventformersError, match="--overwrite"):
        write_induction(induction, tmp_path / "out")
    write_induction(induction, tmp_path / "out", overwrite=True)


def test_page_is_self_contained_and_escapes_texts(induction: Induction) -> None:
    page = report_page(induction)
    assert "<b>police" not in page
    assert "the &lt;b&gt;police&lt;/b&gt; <mark>arrested</mark> &amp; held a man" in page
    without_trigger = next(row["text"] for row in induction.mentions if row["trigger_start"] < 0)
    assert f"<li>{escape(without_trigger, quote=False)}</li>" in page
    assert_self_contained(page)
    assert page.count("</title></path>") == 4
    assert "purity" in page
    for found in induction.types:
        assert f'id="cluster-{found.number}"' in page
        assert found.weak == "fewer than 3 mentions" or found.size >= 3
    assert page.count("Weak as a type: fewer than 3 mentions.") == page.count(" (weak)</td>") >= 1

    assert {f"#{name}" for name in Page(page).ids} >= set(Page(page).links)


@pytest.mark.parametrize("number", [1, 2, 3, 5, 40])
def test_points_lie_in_the_picture(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.random.default_rng(0).normal(size=(number, 8)).astype(np.float32)
    for most in (3000, 4):
        monkeypatch.setattr(induction_map, "MOST_BY_TSNE", most)
        places = place_mentions(vectors)
        assert places.shape == (number, 2)
        assert (places >= induction_map.MARGIN - 1e-6).all()
        assert (places <= [induction_map.WIDTH, induction_map.HEIGHT]).all()
    middle = place_mentions(np.ones((number, 8), dtype=np.float32))
    np.testing.assert_array_equal(middle, np.tile([430, 310], (number, 1)))


def test_many_mentions_are_drawn_in_part(monkeypatch: pytest.MonkeyPatch, induction: Induction) -> None:
    monkeypatch.setattr(induction_map, "MOST_POINTS", 3)
    drawn = drawn_mentions(4)
    assert len(drawn) == 3
    assert (np.diff(drawn) > 0).all()
    assert "drawn at random of 4" in report_page(induction)


def test_clusters_beyond_the_colours_have_other_shapes() -> None:
    assert len({marker(number) for number in range(40)}) == 40
    assert marker(40) == marker(0)


def test_a_folder_that_cannot_be_written_is_told(induction: Induction, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(EventformersError, match="accepted: a folder to write to"):
        write_induction(induction, tmp_path / "file")


def test_nothing_is_left_where_a_part_fails(
    induction: Induction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Induction) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(induction_report, "report_page", fail)
    with pytest.raises(EventformersError, match="No space left"):
        write_induction(induction, tmp_path / "out")
    assert not (tmp_path / "out").exists()
