"""Command lines: help, options of models, and what is printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from command_lines import Outcome, run_command_lines

from eventformers import cli
from eventformers.cli import app
from eventformers.commands.options import model_and_argument, take_model
from eventformers.datasets_scripts import build_reports, list_datasets
from eventformers.errors import EventformersError
from eventformers.evaluation import core
from eventformers.inference.chains import next_event
from eventformers.inference.commonsense import complete
from eventformers.inference.encoding import event_files
from eventformers.terminal import counts_text

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


NOTE = "no model named: using the packaged encoder sentence-transformers/all-MiniLM-L6-v2"
EVENTS = ["police | arrested | thief", "judge | sentenced | thief"]
LINES = {
    "embed": (event_files, "embed_file", ["embed"], ["events.csv"], ["-o", "vectors.parquet"]),
    "complete": (complete, "complete", ["complete"], ["umbrella, UsedFor"], []),
    "file": (next_event, "next_event", ["next-event"], ["chain.txt"], []),
    "chain": (next_event, "next_event", ["next-event"], EVENTS, []),
    "evaluate": (core, "evaluate", ["evaluate"], [], ["--task", "hard_similarity"]),
}


class CalledError(Exception):
    """Raised instead of the work of a command."""


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize(
    "given", [["my-model"], ["--model", "my-model"], []], ids=["argument", "option", "none"]
)
def test_the_model_may_be_an_argument_an_option_or_absent(
    name: str, given: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, function, command, words, rest = LINES[name]
    calls = []

    def stop(*arguments: object, **options: object) -> None:
        calls.append(arguments)
        raise CalledError

    monkeypatch.setattr(module, function, stop)
    with pytest.raises(CalledError):
        cli.main([*command, *given, *words, *rest])
    [(model, *others)] = calls
    assert model == ("my-model" if given else None)
    if words:
        assert others[0] in (words, words[0])
    assert (NOTE in capsys.readouterr().err) == (not given)


def test_too_many_arguments_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(EventformersError, match=r"received 3 arguments: .*accepted: MODEL FILE, FILE alone"):
        model_and_argument(None, ["a", "b", "c"], "FILE")
    with pytest.raises(EventformersError, match="received the model mico alone; accepted: mico QUERY"):
        model_and_argument(None, ["mico"], "QUERY")
    with pytest.raises(SystemExit):
        cli.main(["next-event", "mico"])
    assert "received the model mico alone; accepted: mico CHAIN" in capsys.readouterr().err
    with pytest.raises(EventformersError, match="received 2 arguments"):
        model_and_argument("model", ["a", "b"], "FILE")


def test_a_model_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["evaluate", "one", "--model", "other", "--task", "hard_similarity"])
    assert stop.value.code == 2
    assert "received MODEL 'one' and --model 'other'; accepted: one" in capsys.readouterr().err
    assert take_model("other", ["one"], first_is_model=True) == ("other", ["one"])


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 0
    return capsys.readouterr().out


def test_rows_in_a_pipe_are_whole(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "data", "list").splitlines()
    rows = {tuple(cell.strip() for cell in line.strip("│").split("│")) for line in lines if line[0] == "│"}
    assert rows == {
        (entry["name"], entry["config"], ", ".join(entry["columns"]), entry["raw_files"])
        for entry in list_datasets()
    }


def test_the_list_of_datasets_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(printed(capsys, "data", "list", "--json")) == list_datasets()


def test_every_named_config_is_built(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    chosen = ("--config", "hard", "--config", "transitive")
    printed(capsys, "data", "build", "event_similarity", *chosen, "-o", str(tmp_path))
    assert sorted(build_reports(tmp_path)) == ["hard", "transitive"]


def test_numbers_of_built_rows_have_separators(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shown = printed(capsys, "data", "build", "event_chains", "--config", "cooccurrence", "-o", str(tmp_path))
    [rows, read] = [cell.strip() for cell in shown.splitlines()[3].split("│")[2:4]]
    assert (rows, read) == ("4,934", "772 documents, 6,190 events")


def test_scores_as_json(capsys: pytest.CaptureFixture[str], tiny_encoder: Path) -> None:
    arguments = ("evaluate", str(tiny_encoder), "--task", "hard_similarity")
    (result,) = json.loads(printed(capsys, *arguments, "--json"))
    assert result["task"] == "hard_similarity"
    assert result["main_value"] == result["scores"]["accuracy"]
    assert f"{result['main_value']:.1f}" in printed(capsys, *arguments)


def test_control_characters_never_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither in a result, nor in JSON, nor in an error."""
    evil = "\x1b]0;owned\x07storm\x9b31m\u202e\ud800"
    candidates = tmp_path / "candidates.jsonl"
    candidates.write_text(
        json.dumps({"subject": "a", "predicate": evil[:-1], "object": "[red]b[/red]"}) + "\n"
    )
    words = ["next-event", "storm | flood | town", "--candidates", str(candidates)]
    for more, shown in (([], r"\x1b]0;owned"), (["--json"], r"\u001b]0;owned")):
        with pytest.raises(SystemExit) as stopped:
            cli.main([*words, *more])
        assert stopped.value.code == 0
        told = capsys.readouterr().out
        assert shown in told
        assert "[red]b" in told
        assert not any(character in told for character in evil if not 32 <= ord(character) < 127)
    with pytest.raises(SystemExit):
        cli.main(["next-event", "--model", f"no{evil}", "storm | flood | town"])
    told = capsys.readouterr().err
    assert r"\x1b]0;owned" in told
    assert "\x1b" not in told


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ({"document_without_event": 59, "malformed_row": 1}, "59 documents without event, 1 malformed row"),
        (
            {"documents": 1, "blank_line": 2, "entity_that_is_no_event": 2},
            "1 document, 2 blank lines, 2 entities",
        ),
        ({"distinct_event_texts": 359, "chain_events": 1}, "359 distinct event texts, 1 chain event"),
        ({"events": 3, "hierarchy_edges": 1}, "3 events, 1 hierarchy edge"),
        (
            {"stories": 1, "linked_actors": 1, "links_of_actors": 1, "regions": 2},
            "1 story, 1 linked actor, 1 link of actors, 2 regions",
        ),
        ({"triggers_found": 1, "actors": 1, "kilobytes": 1}, "1 trigger found, 1 actor, 1 kilobyte"),
        ({}, "none"),
    ],
)
def test_counts_have_singular_and_plural(counts: dict[str, int], told: str) -> None:
    assert counts_text(counts).startswith(told)
