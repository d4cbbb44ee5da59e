"""What commands print in a pipe: whole rows, and JSON on request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eventformers import cli
from eventformers.datasets_scripts import build_reports, list_datasets
from eventformers.terminal import counts_text


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
