"""Wrong command lines, a few; `python -m tests.robustness mistakes` runs more."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_lines import run_command_line
from tests.robustness.mistakes import COMMANDS, fault_of, options_by_command, prepare, run

WORKING = ("embed", "data build", "data list", "complete", "next-event", "induce", "ground")


def test_every_command_is_tried() -> None:
    without = {
        "demo",
        "release",
    }  # They train for minutes; tests/hub/test_release.py has the mistakes of a release.
    assert set(options_by_command()) - without == set(COMMANDS)


def test_good_lines_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    outcomes = {name: run_command_line(list(COMMANDS[name])) for name in WORKING}
    assert {name: outcome["code"] for name, outcome in outcomes.items()} == dict.fromkeys(WORKING, 0)


def test_mistakes_are_refused_in_one_line() -> None:
    tallies = list(run(len(COMMANDS), seed=16))
    assert sum(tally.tries for tally in tallies) == len(COMMANDS)
    assert [finding for tally in tallies for finding in tally.findings] == []


@pytest.mark.parametrize(
    ("code", "errors", "fault"),
    [
        (1, "error: a\n", "exit code 1"),
        (2, "Traceback (most recent call last):\n", "a traceback"),
        (2, "what\n", "no line that starts with error"),
        (2, "error: a\nerror: b\n", "2 error lines"),
        (2, f"error: {'x' * 4_000}\n", "a message of"),
        (2, "warning: a\nerror: b\n", ""),
    ],
)
def test_faults_of_a_refusal(code: int, errors: str, fault: str) -> None:
    assert fault in fault_of(code, errors)
    assert bool(fault) == bool(fault_of(code, errors))
