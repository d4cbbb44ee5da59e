"""The command line: help without heavy libraries, and one clear line with exit code 2 for a user's error."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_lines import Outcome, run_command_lines

HELP = {
    "root": ("--help",),
    "demo": ("demo", "--help"),
    "data list": ("data", "list", "--help"),
    "data build": ("data", "build", "--help"),
    "train": ("train", "--help"),
    "evaluate": ("evaluate", "--help"),
    "embed": ("embed", "--help"),
    "complete": ("complete", "--help"),
    "explore": ("explore", "--help"),
    "extract": ("extract", "--help"),
    "next-event": ("next-event", "--help"),
    "induce": ("induce", "--help"),
    "ground": ("ground", "--help"),
    "plot": ("plot", "--help"),
    "reproduce": ("reproduce", "--help"),
    "leaderboard": ("leaderboard", "--help"),
    "push": ("push", "--help"),
    "release": ("release", "--help"),
    "data push": ("data", "push", "--help"),
    "version": ("--version",),
}
WRONG = {
    # First, while no other command has loaded the libraries of models.
    "texts": (("explore", "empty", "-o", "out"), "empty (no files); accepted: .txt, .jsonl"),
    "method": (("train", "swccc", "-o", "out"), "Did you mean 'swcc'"),
    "recipe": (("train", "swcc", "--recipe", "papper", "-o", "out"), "Did you mean 'paper'"),
    "recipe file": (("train", "swcc", "--recipe", "no.yaml", "-o", "out"), "no.yaml"),
    "recipe key": (("train", "swcc", "--set", "learning_rat=1", "-o", "out"), "Did you mean 'learning_rate'"),
    "setting": (("train", "swcc", "--set", "learning_rate", "-o", "out"), "key=value"),
    "nothing to resume": (("train", "swcc", "--resume", "-o", "out"), "no checkpoint"),
    "encoder": (("train", "swcc", "--encoder", "no/such/folder", "-o", "out"), "no/such/folder"),
    "task": (
        ("evaluate", "empty", "--task", "hard_similarty", "-o", "out"),
        "Did you mean 'hard_similarity'",
    ),
    "model folder": (("evaluate", "empty", "--task", "hard_similarity", "-o", "out"), "config.json"),
    "batch size": (("embed", "empty", "events.txt", "-o", "out.parquet", "--batch-size", "0"), "at least 1"),
    "digit of another kind": (
        ("embed", "empty", "events.txt", "-o", "out.parquet", "--batch-size", "²"),
        "at least 1",
    ),
    "graph": (("complete", "empty", "storm", "--config", "wordnet"), "Accepted: atomic, conceptnet"),
    "dataset": (("data", "build", "event_similarty", "-o", "out"), "Did you mean 'event_similarity'"),
    "paper": (("reproduce", "swc", "table2", "-o", "out"), "swcc"),
    "table": (("reproduce", "swcc", "table99", "-o", "out"), "table"),
    "chain": (("next-event", "empty", "no.txt"), "no.txt: no such file"),
    "mentions": (("induce", "no.jsonl", "-o", "out"), "no.jsonl: no such file"),
    "clusters": (("induce", "events.txt", "-o", "out", "--num-clusters", "9"), "9 clusters of 1 mentions"),
    "way to cluster": (
        ("induce", "events.txt", "-o", "out", "--method", "agglomerativ"),
        "Did you mean 'agglomerative'",
    ),
    "text": (("ground", "no.jsonl", "--knowledge-base", "no", "-o", "out"), "no.jsonl: no such file"),
    "mark": (
        ("ground", "events.txt", "--knowledge-base", "no", "-o", "out"),
        "no line has a mention between [[ and ]]",
    ),
    "knowledge base": (("ground", "marked.txt", "--knowledge-base", "no", "-o", "out"), "no dataset at no"),
    "no events": (
        ("ground", "marked.txt", "--knowledge-base", "empty", "-o", "out"),
        "empty: found no file with titles of events",
    ),
    "kind of search": (
        ("ground", "marked.txt", "--knowledge-base", "no", "--search", "exat", "-o", "out"),
        "Did you mean 'exact'",
    ),
    "way of reading": (
        ("evaluate", "empty", "--task", "mcnc", "--set", "agregation=last"),
        "Did you mean 'aggregation'",
    ),
    "nothing to push": (("push", "empty", "--repo-id", "me/events"), "has nothing that can be pushed"),
    "nothing to push as data": (("data", "push", "no", "--repo-id", "me/events"), "unknown folder or metric"),
    "option": (("train", "swcc", "--recipee", "paper", "-o", "out"), "--recipe"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Working directory of the commands."""
    path = tmp_path_factory.mktemp("commands")
    (path / "empty").mkdir()
    (path / "events.txt").write_text("police arrested thief\n", encoding="utf-8")
    (path / "marked.txt").write_text("the [[storm]] hit\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def outcomes(folder: Path) -> dict[str, Outcome]:
    """What each command line did; all run in one process, help first."""
    lines = [*HELP.values(), *(line for line, _ in WRONG.values())]
    return dict(zip([*HELP, *WRONG], run_command_lines(lines, folder), strict=True))


@pytest.mark.parametrize("name", HELP)
def test_help_loads_nothing_heavy(name: str, outcomes: dict[str, Outcome]) -> None:
    assert outcomes[name]["code"] == 0
    assert outcomes[name]["output"]
    assert not outcomes[name]["heavy"]


def test_missing_texts_are_reported_before_the_libraries_of_models_load(outcomes: dict[str, Outcome]) -> None:
    assert "datasets" in outcomes["texts"]["heavy"]
    assert not {"torch", "transformers"} & set(outcomes["texts"]["heavy"])


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_one_line_and_exit_code_2(name: str, outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes[name]
    assert outcome["code"] == 2, outcome["errors"]
    lines = outcome["errors"].strip().splitlines()
    assert len(lines) == 1, outcome["errors"]
    assert lines[0].startswith("error: ")
    assert WRONG[name][1] in lines[0]


def test_errors_leave_nothing_behind(outcomes: dict[str, Outcome], folder: Path) -> None:
    assert outcomes
    left = {path.name for path in folder.iterdir()}
    assert left <= {"empty", "events.txt", "marked.txt", "lines.json", "outcomes.json"}
    assert not list((folder / "empty").iterdir())
