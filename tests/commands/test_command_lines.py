"""The command line: help without heavy libraries."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from command_lines import Outcome, run_command_lines

from eventformers.cli import app

TEXTS = ("explore", "empty", "-o", "out")


def command_names(command: object, name: str = "") -> list[str]:
    """The names of a command's commands, with those of theirs."""
    parts = getattr(command, "commands", {}).items()
    return [name, *(found for part, inner in parts for found in command_names(inner, f"{name} {part}"))]


HELP = {name: (*name.split(), "--help") for name in command_names(typer.main.get_command(app))}
HELP["version"] = ("--version",)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Working directory of the commands."""
    path = tmp_path_factory.mktemp("commands")
    (path / "empty").mkdir()
    return path


@pytest.fixture(scope="module")
def outcomes(folder: Path) -> dict[str, Outcome]:
    """What each command line did; all run in one process, help first."""
    lines = [*HELP.values(), TEXTS]
    return dict(zip([*HELP, "texts"], run_command_lines(lines, folder), strict=True))


@pytest.mark.parametrize("name", HELP)
def test_help_loads_nothing_heavy(name: str, outcomes: dict[str, Outcome]) -> None:
    assert outcomes[name]["code"] == 0
    assert outcomes[name]["output"]
    assert not outcomes[name]["heavy"]


def test_missing_texts_are_reported_before_the_libraries_of_models_load(
    outcomes: dict[str, Outcome], folder: Path
) -> None:
    outcome = outcomes["texts"]
    assert outcome["code"] == 2
    [line] = outcome["errors"].strip().splitlines()
    assert line.startswith("error: ")
    assert "empty (no files); accepted: .txt, .jsonl" in line
    assert "datasets" in outcome["heavy"]
    assert not {"torch", "transformers"} & set(outcome["heavy"])
    assert {path.name for path in folder.iterdir()} == {"empty", "lines.json", "outcomes.json"}
