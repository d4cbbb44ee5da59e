"""Kills and full disks at some changes of quick commands; `python -m tests.robustness kills` tries all."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.robustness.commands import Command, commands
from tests.robustness.kills import Trial, look_at_every_change, try_command

QUICK = ("leaderboard --html", "embed", "data build", "induce")


@pytest.fixture(scope="module")
def quick(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Command]:
    found = commands(tmp_path_factory.mktemp("inputs"), tiny_encoder)
    return {command.name: command for command in found}


@pytest.mark.process
@pytest.mark.parametrize("name", QUICK)
def test_an_output_is_whole_or_refused(quick: dict[str, Command], name: str, tmp_path: Path) -> None:
    trial = Trial(quick[name], tmp_path)
    looked = look_at_every_change(trial)
    assert not looked.findings
    assert looked.tries == trial.changes
    tally = try_command(trial, cases=6, seed=1)
    assert not tally.findings
    assert tally.tries >= 4


def test_a_mixed_folder_is_found(quick: dict[str, Command], tmp_path: Path) -> None:
    trial = Trial(quick["induce"], tmp_path)
    (trial.place / "report.html").write_bytes((tmp_path / "old" / "report.html").read_bytes())
    assert trial.found() == "types.jsonl beside a part of the files: ['report.html']"
    (trial.place / "types.jsonl").unlink()
    assert trial.found() is None
