"""Wrong command lines: each ends with exit code 2 and one line, or does what it says."""

from __future__ import annotations

import json
import os
import shutil
from itertools import product
from pathlib import Path
from random import Random

import pytest
import typer
from command_lines import run_command_line
from tests.robustness.limits import HangError, cases, time_limit
from tiny import save_tiny_bi_encoder, save_tiny_encoder, save_tiny_heterevent

SECONDS_OF_A_COMMAND = 90.0
_LONGEST_MESSAGE = 3_000
_VALUES: tuple[str, ...] = (
    *("", " ", "zzz", "-1", "0", "1e400", "nan", "0.5", "99999999999999999999", "true", "null", "[", "[[]]"),
    *("no/such/path", "/proc/version", "fifo", "link", "line\nbreak", "\u202eé\udce9", "x" * 5_000),
    *("encoder", "events.txt", "empty.txt", "binary.bin", "empty", ".", "-", "--"),
    *("=", "=1", "a=b=c", "learning_rate=nan", "max_steps=-5", "stages=[x]", "cuda:99", "meta"),
)
"""Values given instead of a good value, or beside it. No path leads out of the folder of a try."""

_TRAIN = ("train", "swcc", "--recipe", "demo", "--encoder", "encoder", "--set", "max_steps=1", "--no-card")
_GROUND = ("ground", "texts.txt", "--knowledge-base", "knowledge", "--model", "retriever")
_REPRODUCE = ("reproduce", "swcc", "table2", "--data", "no/such/data", "--encoder", "encoder")
COMMANDS: dict[str, tuple[str, ...]] = {
    "train": (*_TRAIN, "-o", "run"),
    "evaluate": ("evaluate", "encoder", "--task", "transitive_similarity", "-o", "scores"),
    "embed": ("embed", "encoder", "events.txt", "-o", "vectors.parquet"),
    "data build": ("data", "build", "event_similarity", "--config", "transitive", "-o", "built"),
    "data list": ("data", "list"),
    "complete": ("complete", "encoder", "umbrella, UsedFor"),
    "next-event": ("next-event", "encoder", "police | searched | house", "police | found | man"),
    "induce": ("induce", "mentions.jsonl", "-o", "types", "--model", "encoder", "--num-clusters", "2"),
    "ground": (*_GROUND, "-o", "grounded"),
    "plot": ("plot", "heterevent", "-o", "drawn.png"),
    "compare": ("compare", "first.json", "second.json"),
    "leaderboard": ("leaderboard", "scores", "--html", "board.html"),
    "result add": (
        *("result", "add", "--task", "copa", "--score", "70", "--model", "theirs", "--source", "a paper"),
        *("-o", "scores"),
    ),
    "reproduce": (*_REPRODUCE, "-o", "tables"),
    "explore": ("explore", "events.txt", "-o", "explored", "--pipeline", "no_such_pipeline"),
    "extract": ("extract", "events.txt", "-o", "extracted", "--pipeline", "no_such_pipeline"),
    "mcp": ("mcp", "events.txt"),
    "push": ("push", "encoder", "--repo-id", "me/model", "--dry-run"),
    "data push": ("data", "push", "built", "--repo-id", "me/data", "--dry-run"),
}
"""A good command line of each command, in the folder that `prepare` writes."""


def prepare(folder: Path) -> None:
    """Write what the good command lines read."""
    encoder = save_tiny_encoder(folder / "encoder")
    save_tiny_heterevent(encoder, folder / "heterevent")
    save_tiny_bi_encoder(encoder, folder / "retriever")
    (folder / "empty").mkdir()
    (folder / "knowledge").mkdir()
    event = {"label_id": "1", "label_title": "war", "label_desc": "a war", "label_lang": "en"}
    mention = {"text": "The police arrested a man.", "trigger": "arrested"}
    written = {
        "knowledge/label_dict.jsonl": json.dumps(event),
        "events.txt": "police arrested man\nbank hired worker",
        "texts.txt": "The [[war]] ended.",
        "mentions.jsonl": "\n".join(json.dumps({**mention, "id": str(n)}) for n in range(4)),
        "empty.txt": "",
    }
    for name, text in written.items():
        (folder / name).write_text(text + "\n" * bool(text), encoding="utf-8")
    (folder / "link").symlink_to("events.txt")
    (folder / "binary.bin").write_bytes(bytes(range(256)) * 8)


def options_by_command() -> dict[str, list[tuple[str, bool]]]:
    """The options of each command, and whether one is a switch."""
    from eventformers.cli import app

    found: dict[str, list[tuple[str, bool]]] = {}

    def walk(command: object, name: str) -> None:
        for part, inner in getattr(command, "commands", {}).items():
            walk(inner, f"{name} {part}".strip())
        if not hasattr(command, "commands"):
            found[name] = [
                (one.opts[0], bool(one.is_flag))
                for one in getattr(command, "params", [])
                if one.opts and one.opts[0].startswith("--") and one.opts[0] != "--help"
            ]

    walk(typer.main.get_command(app), "")
    return found


def mistaken(good: tuple[str, ...], options: list[tuple[str, bool]], random: Random) -> list[str]:
    """A good command line with one to three mistakes."""
    line = list(good)
    for _ in range(random.choice((1, 1, 2, 3))):
        kind = random.randrange(6)
        if kind < 3 and options:
            name, is_switch = random.choice(options)
            line += [name] if is_switch else [name, random.choice(_VALUES)]
        elif kind == 3 and len(line) > 1:
            line[random.randrange(1, len(line))] = random.choice(_VALUES)
        elif kind == 4 and len(line) > 1:
            del line[random.randrange(1, len(line))]
        else:
            line.insert(random.randrange(len(line) + 1), random.choice((*_VALUES, "--unknown", "-x")))
    return [part for part in line if "\0" not in part]


def mistake_of(line: list[str], original: Path, work: Path) -> str:
    """What is wrong with the end of a command; empty where it works or is refused in one line."""
    shutil.copytree(original, work, symlinks=True)
    os.mkfifo(work / "fifo")
    before = Path.cwd()
    os.chdir(work)
    try:
        with time_limit(SECONDS_OF_A_COMMAND, waiting_counts=True):
            outcome = run_command_line(line)
    except HangError as error:
        return f"hang: {error}"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    finally:
        os.chdir(before)
        shutil.rmtree(work, ignore_errors=True)
    return fault_of(outcome["code"], outcome["errors"]) if outcome["code"] else ""


def fault_of(code: int, errors: str) -> str:
    """What is wrong with the end of a refused command; empty where nothing is."""
    told = [line for line in errors.splitlines() if line.startswith("error: ")]
    if code != 2:
        return f"exit code {code}"
    if "Traceback" in errors:
        return "a traceback"
    if errors.strip() and not told and "Usage" not in errors:
        return f"no line that starts with error: {errors[:200]!r}"
    if any(len(line) > _LONGEST_MESSAGE for line in told):
        return f"a message of {max(map(len, told))} characters"
    return f"{len(told)} error lines" if len(told) > 1 else ""


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


def test_mistakes_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "original").mkdir()
    prepare(tmp_path / "original")
    options = options_by_command()
    for command, number in product(COMMANDS, range(cases(1))):
        line = mistaken(COMMANDS[command], options[command], Random(f"16/{command}/{number}"))  # noqa: S311
        assert mistake_of(line, tmp_path / "original", tmp_path / "work") == "", line


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
