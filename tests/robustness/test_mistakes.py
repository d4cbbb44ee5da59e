"""Wrong command lines: each ends with exit code 2 and one line, or does what it says."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

import pytest
import typer
from command_lines import run_command_line
from tests.robustness.good_lines import COMMANDS, prepare
from tests.robustness.limits import cases, time_limit

from eventformers.cli import app

SECONDS_OF_A_COMMAND = 90.0
VALUES = (
    *("", " ", "zzz", "-1", "0", "1e400", "nan", "0.5", "99999999999999999999", "true", "null", "[", "[[]]"),
    *("no/such/path", "/proc/version", "fifo", "link", "line\nbreak", "\u202eé\udce9", "x" * 5_000),
    *("encoder", "events.txt", "empty.txt", "binary.bin", "empty", ".", "-", "--", "--unknown", "-x"),
    *("=", "=1", "a=b=c", "learning_rate=nan", "max_steps=-5", "stages=[x]", "cuda:99", "meta"),
)
"""Values given instead of a good value, or beside it. No path leads out of the folder of a try."""
WORKING = ("embed", "data build", "data list", "complete", "next-event", "induce", "ground", "leaderboard")
UNTRIED = {"demo", "release"}
"""They train for minutes; tests/hub/test_release.py has the mistakes of a release."""


def options_by_command() -> dict[str, list[tuple[str, bool]]]:
    """The options of each command, and whether one is a switch."""
    found: dict[str, list[tuple[str, bool]]] = {}

    def walk(command: object, name: str) -> None:
        for part, inner in getattr(command, "commands", {}).items():
            walk(inner, f"{name} {part}".strip())
        if not hasattr(command, "commands"):
            options = [one for one in getattr(command, "params", []) if one.opts[0].startswith("--")]
            found[name] = [(one.opts[0], one.is_flag) for one in options if one.opts[0] != "--help"]

    walk(typer.main.get_command(app), "")
    return found


def mistaken(good: str, options: list[tuple[str, bool]], random: Random) -> list[str]:
    """A good command line with one to three mistakes."""
    line = good.split()
    for _ in range(random.choice((1, 1, 2, 3))):
        kind, place = random.randrange(6), random.randrange(len(line))
        if kind < 3 and options:
            name, is_switch = random.choice(options)
            line += [name] if is_switch else [name, random.choice(VALUES)]
        elif kind == 5 or place == 0:
            line.insert(place, random.choice(VALUES))
        elif kind == 3:
            line[place] = random.choice(VALUES)
        else:
            del line[place]
    return line


def fault_of_line(line: list[str], must_work: bool) -> str:
    """What is wrong with the end of a command; empty where it works, or may be and is refused in one line."""
    try:
        with time_limit(SECONDS_OF_A_COMMAND, waiting_counts=True):
            outcome = run_command_line(line)
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    if must_work or not outcome["code"]:
        return outcome["errors"] if outcome["code"] else ""
    return fault_of_refusal(outcome["code"], outcome["errors"])


def fault_of_refusal(code: int, errors: str) -> str:
    told = [line for line in errors.splitlines() if line.startswith("error: ")]
    if code != 2:
        return f"exit code {code}"
    if "Traceback" in errors:
        return "a traceback"
    if errors.strip() and not told and "Usage" not in errors:
        return f"no line that starts with error: {errors[:200]!r}"
    if any(len(line) > 3_000 for line in told):
        return f"a message of {max(map(len, told))} characters"
    return f"{len(told)} error lines" if len(told) > 1 else ""


def test_mistakes_are_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, work, options = prepare(tmp_path / "original"), tmp_path / "work", options_by_command()
    assert set(options) - UNTRIED == set(COMMANDS)
    for command, good in COMMANDS.items():
        seeds = [Random(f"16/{command}/{number}") for number in range(cases(1))]  # noqa: S311
        lines = [mistaken(good, options[command], seed) for seed in seeds]
        for line in [good.split()] * (command in WORKING) + lines:
            shutil.copytree(original, work, symlinks=True)
            os.mkfifo(work / "fifo")
            monkeypatch.chdir(work)
            assert fault_of_line(line, must_work=line == good.split()) == "", line
            shutil.rmtree(work)


@pytest.mark.parametrize(
    ("code", "errors", "fault"),
    [
        (1, "error: a\n", "exit code 1"),
        (2, "Traceback (most recent call last):\n", "a traceback"),
        (2, "what\n", "no line that starts with error"),
        (2, "error: a\nerror: b\n", "2 error lines"),
        (2, f"error: {'x' * 4_000}\n", "a message of"),
    ],
)
def test_faults_of_a_refusal(code: int, errors: str, fault: str) -> None:
    assert fault in fault_of_refusal(code, errors)
    assert fault_of_refusal(2, "warning: a\nerror: b\n") == ""
