"""Scores of papers that a user adds, and their place on a leaderboard."""

from __future__ import annotations

from pathlib import Path

import pytest
from leaderboard_inputs import measured, write_seeds

from eventformers.cli import main
from eventformers.errors import DataFormatError, EventformersError
from eventformers.leaderboard.board import build_leaderboard, leaderboard
from eventformers.leaderboard.page import markdown, to_json
from eventformers.leaderboard.sources import PUBLISHED_FILE, add_published, read_folder

PAPER = {
    "task": "hard_similarity",
    "score": 81.5,
    "model": "Their model",
    "source": "https://arxiv.org/abs/1",
}


def test_a_share_where_a_percentage_is_expected_is_pointed_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add_published(tmp_path, **{**PAPER, "score": 0.815})
    assert "0.815 of hard_similarity is less than one percent" in caplog.text
    assert "for 81.5, run again" in caplog.text
    caplog.clear()
    add_published(tmp_path, **{**PAPER, "task": "transitive_similarity", "score": 0.815})
    assert not caplog.text


def test_a_score_of_a_paper_stands_apart_beside_own_results(tmp_path: Path) -> None:
    write_seeds(tmp_path, "hard_similarity", [80.0])
    add_published(tmp_path, **PAPER)
    (board,) = leaderboard([tmp_path]).boards
    (row,) = [row for row in board.rows if row.model == "Their model"]
    assert (row.kind, row.variant, row.runs) == ("published", PAPER["source"], 0)
    assert row.cells[0] is not None
    assert (row.cells[0].value, row.cells[0].rank) == (81.5, None)
    assert "[Their model](https://arxiv.org/abs/1)" in markdown(leaderboard([tmp_path]))


def test_without_own_results_it_has_a_column_of_its_own(tmp_path: Path) -> None:
    add_published(tmp_path, **PAPER)
    (board,) = leaderboard([tmp_path]).boards
    assert [row.kind for row in board.rows] == ["published"]
    assert '"value": 81.5' in to_json(leaderboard([tmp_path]))


def test_it_does_not_stand_beside_scores_of_the_samples(tmp_path: Path) -> None:
    add_published(tmp_path, **PAPER)
    found = build_leaderboard([measured(origin="samples"), *read_folder(tmp_path)])
    assert all(row.model != "Their model" for row in found.boards[0].rows)
    assert "left out the published score of Their model" in found.left_out[-1]


def test_a_score_is_replaced_only_on_request(tmp_path: Path) -> None:
    add_published(tmp_path, **PAPER)
    path = add_published(tmp_path, **PAPER)
    assert path.read_text(encoding="utf-8").count("Their model") == 1
    with pytest.raises(EventformersError, match=r"has 81\.5 for Their model .* --overwrite"):
        add_published(tmp_path, **{**PAPER, "score": 82})
    add_published(tmp_path, **{**PAPER, "score": 82}, overwrite=True)
    add_published(tmp_path, **{**PAPER, "source": "Another paper"})
    assert path.read_text(encoding="utf-8").count("score:") == 2


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"score": 120}, "score: found 120; accepted for accuracy: a number from 0 to 100"),
        ({"score": float("nan")}, "score: found nan"),
        ({"score": True}, "score: found True"),
        ({"score": "80"}, "score: found '80'"),
        ({"model": " "}, "model: found an empty text"),
        ({"split": "dev"}, "split 'dev' of hard_similarity; accepted"),
        ({"task": "transitive_similarity", "score": 70}, "a number from -1 to 1"),
        ({"task": "hard_similarty"}, "Did you mean 'hard_similarity'"),
    ],
)
def test_what_is_refused(tmp_path: Path, changed: dict[str, object], told: str) -> None:
    with pytest.raises(EventformersError, match=told):
        add_published(tmp_path, **{**PAPER, **changed})
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("text", ["task: hard_similarity\n", "- 5\n", "- {task: x}\n", "{", ""])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    path = add_published(tmp_path, **PAPER)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataFormatError, match=PUBLISHED_FILE):
        leaderboard([tmp_path])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--task", "hard_similarity", "--score", "81.5", "--model", "M", "--source", "Doe 2024"]
    with pytest.raises(SystemExit, match="0"):
        main(["result", "add", *words, "-o", str(tmp_path)])
    with pytest.raises(SystemExit, match="0"):
        main(["leaderboard", str(tmp_path)])
    assert "Doe 2024" in capsys.readouterr().out
