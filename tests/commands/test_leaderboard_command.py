"""The command of leaderboards: what it prints and writes, and one clear line for a user's error."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from leaderboard_inputs import make_result, write_seeds

from eventformers import cli
from eventformers.commands.options import console
from eventformers.evaluation.results import write_result

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A working directory with results of three seeds, and a terminal that breaks no line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(console, "width", 300)
    write_seeds(tmp_path / "runs", "hard_similarity", [80.0, 81.0, 85.0])


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        cli.main(["leaderboard", *map(str, arguments)])
    told = capsys.readouterr()
    assert isinstance(stop.value.code, int)
    return stop.value.code, told.out, told.err


def test_results_below_the_working_directory_are_shown(capsys):
    code, out, _ = run(capsys)
    assert code == 0
    (line,) = [line for line in out.splitlines() if "82.0" in line]
    assert [part.strip() for part in line.strip("│").split("│")] == [
        "1",
        "mine",
        "3",
        "82.0 ± 2.6",
        "22.7 M",
        "150",
    ]
    assert "Baselines and untrained encoders" in out
    assert "SWCC, BERT-base (Gao et al. 2022)" in out


def test_what_is_asked_for_is_written(capsys, tmp_path):
    code, out, _ = run(
        capsys, "runs", "--html", "a/board.html", "--markdown", "board.md", "--task", "hard_similarity"
    )
    assert code == 0
    assert "Wrote a/board.html, board.md." in out
    assert (tmp_path / "a" / "board.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert "| 1 | mine |" in (tmp_path / "board.md").read_text(encoding="utf-8")


def test_json_is_all_that_is_printed(capsys):
    code, out, _ = run(capsys, "runs", "--json")
    assert code == 0
    assert json.loads(out)["boards"][0]["rows"][0]["model"] == "mine"


def test_other_data_is_told_and_chosen(capsys, tmp_path):
    result = make_result(model="other")
    write_result(replace(result, dataset=replace(result.dataset, fingerprint="0" * 64)), tmp_path / "more")
    code, out, err = run(capsys)
    assert (code, out) == (2, "")
    assert err.startswith("error: hard_similarity (test): found results on different data")
    assert len(err.splitlines()) == 1
    code, out, _ = run(capsys, "--fingerprint", "000")
    assert code == 0
    assert (
        "hard_similarity (test): left out, on other data: fingerprint ffffffffffff (115 rows, local) by"
        in out
    )


def change_format(tmp_path: Path) -> None:
    path = next(tmp_path.rglob("hard_similarity.json"))
    path.write_text(path.read_text(encoding="utf-8").replace('"format": 2', '"format": 3'), encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("missing",), "missing: no such folder"),
        (("--task", "hard_similarty"), "Did you mean 'hard_similarity'"),
        (("--sort", "speeed"), "unknown column 'speeed'. Did you mean 'speed'"),
        (("--task", "mcnc"), "found no result of mcnc"),
        (("--fingerprint", "abc"), "found no result on data abc; accepted: one of ffffffffffff"),
        (("--html", "runs"), "runs: a folder; accepted: a file to write to"),
    ],
)
def test_a_wrong_argument_is_one_line(arguments, told, capsys):
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert told in err
    assert len(err.splitlines()) == 1


def test_a_result_of_another_version_is_one_line(capsys, tmp_path):
    change_format(tmp_path)
    code, out, err = run(capsys)
    assert (code, out) == (2, "")
    assert (
        "found format 3; accepted: a result file of format 1 or 2; this one is of a newer eventformers" in err
    )
    assert len(err.splitlines()) == 1


def test_the_results_of_this_repository_can_be_shown(capsys):
    if not (REPOSITORY / "results").is_dir():
        pytest.skip("the results are not part of an installed package")
    code, out, err = run(capsys, REPOSITORY / "results", "--task", "hard_similarity", "--json")
    assert (code, err) == (0, "")
    rows = {row["model"]: row for row in json.loads(out)["boards"][0]["rows"]}
    assert rows["swcc-minilm"]["seeds"] == [1, 2, 3]
    assert rows["swcc-minilm"]["scores"]["hard_similarity/test"]["value"] == pytest.approx(81.159, abs=1e-3)
