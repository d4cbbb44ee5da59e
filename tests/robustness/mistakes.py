"""Wrong command lines: each ends with exit code 2 and one line, or does what it says."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

import typer
from command_lines import run_command_line
from tests.robustness.tally import HangError, Tally, time_limit
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


def run(cases: int, seed: int) -> Iterator[Tally]:
    """Give each command wrong lines, `cases` over all commands.

    Args:
        cases: number of command lines.
        seed: the same seed gives the same lines.

    Yields:
        One tally a command.
    """
    options = options_by_command()
    with tempfile.TemporaryDirectory(prefix="mistakes-") as place:
        original = Path(place) / "original"
        original.mkdir()
        prepare(original)
        for number, command in enumerate(COMMANDS):
            share = cases // len(COMMANDS) + (number < cases % len(COMMANDS))
            tally = Tally(f"eventformers {command}")
            for case in range(share):
                random = Random(f"{seed}/{command}/{case}")  # noqa: S311
                line = mistaken(COMMANDS[command], options[command], random)
                _try(line, original, Path(place) / "work", tally)
            yield tally


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


def _try(line: list[str], original: Path, work: Path, tally: Tally) -> None:
    shutil.copytree(original, work, symlinks=True, ignore=shutil.ignore_patterns("fifo"))
    os.mkfifo(work / "fifo")
    before = Path.cwd()
    os.chdir(work)
    tally.tries += 1
    try:
        with time_limit(SECONDS_OF_A_COMMAND, waiting_counts=True):
            outcome = run_command_line(line)
    except HangError as error:
        tally.findings.append(f"{line}: hang: {error}")
    except BaseException as error:
        tally.findings.append(f"{line}: {type(error).__name__}: {str(error)[:300]}")
    else:
        if outcome["code"] == 0:
            tally.worked += 1
        elif fault := fault_of(outcome["code"], outcome["errors"]):
            tally.findings.append(f"{line}: {fault}")
        else:
            tally.refused += 1
    finally:
        os.chdir(before)
        shutil.rmtree(work, ignore_errors=True)


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
