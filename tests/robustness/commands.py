"""The commands that write, on tiny inputs, in two generations whose outputs differ."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import StringIO
from itertools import product
from pathlib import Path
from unittest import mock

import typer
from event_files import write_edges, write_events
from tests.robustness.limits import cases
from tiny import save_tiny_encoder

from eventformers.cli import app
from eventformers.datasets_scripts.base import SAMPLES
from eventformers.datasets_scripts.loading import load_built
from eventformers.extraction.extractor import installed_pipeline
from eventformers.inference.commonsense.alternative_index import load_alternative_index
from eventformers.inference.encode import load_encoder
from eventformers.model_cards import card

RECIPES = Path(__file__).parents[1] / "trainers"
QUICK = ("leaderboard --html", "embed", "data build", "induce")
SLOW = ("complete --index", "ground", "extract", "evaluate")
SLOW += ("train swcc", "train swcc --lora", "train heterevent")
TRIED = QUICK + SLOW * (cases(0) > 0)
"""Names of the commands that are tried: the slow ones only with more tries than usual."""
CHANGES = ("replace", "rename", "unlink", "remove", "rmdir", "mkdir", "link", "symlink")
"""What a command does to names; a kill is tried at each such call."""

_TASK = ("--task", "hard_similarity", "--device", "cpu")
_KEPT = ("checkpoint", "stages")

Arguments = list[str]
Fault = Callable[[], None]


@dataclass(frozen=True)
class Command:
    """A command with its output.

    Attributes:
        name: what it is called in the table.
        arguments: from the place of the output and a generation, 1 or 2, to the command line.
        opened_by: the files without which no library reads the output; empty where it is one file.
        load: reads the output as the suite does; None where each file stands for itself.
    """

    name: str
    arguments: Callable[[Path, int], Arguments]
    opened_by: tuple[str, ...] = ()
    load: Callable[[Path], object] | None = None


def commands(inputs: Path, encoder: Path) -> list[Command]:
    """Every command that writes, from the quickest to the slowest.

    Args:
        inputs: an empty folder for what they read.
        encoder: a tiny encoder.
    """
    _write_inputs(inputs)
    built = {"--model": str(encoder), "--device": "cpu"}
    model = [word for pair in built.items() for word in pair]

    def training(method: str, *settings: str) -> Callable[[Path, int], Arguments]:
        recipe = str(RECIPES / f"quick_{method}.yaml")
        options = ["--recipe", recipe, "--encoder", str(encoder), "--device", "cpu", "--overwrite"]
        options += [word for setting in settings for word in ("--set", setting)]
        return lambda place, number: ["train", method, "-o", str(place), *options, "--seed", str(number)]

    return [
        Command(
            "leaderboard --html",
            lambda place, number: [
                *("leaderboard", str(_results(inputs, encoder, number)), "--html", str(place / "board.html"))
            ],
        ),
        Command(
            "embed",
            lambda place, number: [
                *("embed", str(encoder), str(inputs / f"events-{number}.txt")),
                *("-o", str(place / "vectors.parquet"), "--device", "cpu"),
            ],
        ),
        Command(
            "data build",
            lambda place, number: [
                *("data", "build", "event_similarity", "-o", str(place)),
                *("--data-dir", str(inputs / f"similarity-{number}")),
            ],
            opened_by=("README.md",),
            load=lambda place: [load_built(place, config) for config in ("hard", "transitive")],
        ),
        Command(
            "complete --index",
            lambda place, number: [
                *(
                    "complete",
                    str(encoder),
                    "dog, CapableOf",
                    "--config",
                    "conceptnet",
                    "--index",
                    str(place),
                ),
                *("--data", str(SAMPLES / "commonsense"), "--device", "cpu", "--overwrite"),
                *("--split", ("train", "validation")[number - 1]),
            ],
            opened_by=("index.json",),
            load=load_alternative_index,
        ),
        Command(
            "induce",
            lambda place, number: [
                *("induce", str(inputs / "mentions.txt"), "-o", str(place), *model, "--overwrite"),
                *("--num-clusters", str(number + 1)),
            ],
            opened_by=("types.jsonl",),
        ),
        Command(
            "ground",
            lambda place, number: [
                *("ground", str(inputs / f"marked-{number}.txt"), "--knowledge-base", str(inputs / "base")),
                *("-o", str(place), *model, "--language", "en", "--overwrite"),
            ],
            opened_by=("grounding.json",),
        ),
        Command(
            "extract",
            lambda place, number: [
                *("extract", str(inputs / f"stories-{number}"), "-o", str(place), "--overwrite"),
                *("--pipeline", installed_pipeline(), "--min-chain-length", "2"),
            ],
            opened_by=("report.json",),
        ),
        Command(
            "evaluate",
            lambda place, number: [
                *("evaluate", str(encoder), *_TASK, "-o", str(place)),
                *("--pooling", ("mean", "cls")[number - 1]),
            ],
        ),
        Command(
            "train swcc",
            training("swcc", "max_steps=2", "save_steps=1"),
            opened_by=("config.json",),
            load=lambda place: load_encoder(place, device="cpu"),
        ),
        Command(
            "train swcc --lora",
            lambda place, number: [*training("swcc", "max_steps=2", "save_steps=1")(place, number), "--lora"],
            opened_by=("config.json",),
            load=lambda place: load_encoder(place, device="cpu"),
        ),
        Command(
            "train heterevent",
            training("heterevent", "max_steps=1", "save_steps=1"),
            opened_by=("config.json",),
            load=lambda place: load_encoder(place, device="cpu"),
        ),
    ]


def run_command(arguments: Arguments) -> None:
    """Run a command in this process, without what it prints."""
    with (
        redirect_stdout(StringIO()),
        redirect_stderr(StringIO()),
        # The examples of a card run in processes of their own, for seconds, and write nothing in the folder.
        # Under pytest they rest anyway.
        mock.patch.object(card, "run_snippet", lambda snippet, *_: snippet),
    ):
        _all_commands()(arguments, prog_name="eventformers", standalone_mode=False)


@cache
def _all_commands() -> Callable[..., object]:
    """Build the parser of all commands once; `app` builds a new one at each call."""
    return typer.main.get_command(app)


@contextmanager
def watched(folder: Path, on_change: Callable[[], None]) -> Iterator[None]:
    """Call a function before each change of a name in a folder; what it raises stops the change.

    Args:
        folder: the folder.
        on_change: the function.
    """
    root = os.path.realpath(folder)

    def watching(change: Callable[..., None]) -> Callable[..., None]:
        def watched_change(*arguments: object, **options: object) -> None:
            if _is_in(root, *arguments[:2], **options):
                on_change()
            change(*arguments, **options)

        return watched_change

    with mock.patch.multiple(os, **{name: watching(getattr(os, name)) for name in CHANGES}):
        yield


def _is_in(root: str, path: object, *_: object, dir_fd: int | None = None, **__: object) -> bool:
    base = os.readlink(f"/proc/self/fd/{dir_fd}") if dir_fd is not None else os.getcwd()
    name = os.path.join(base, os.fspath(path))  # type: ignore[call-overload]
    return os.path.realpath(os.path.dirname(name)).startswith(root)


def outcome(folder: Path) -> dict[str, str]:
    """The digest of each file of a command's output, by its name.

    What a training run keeps for a later one, and what is hidden, are no part of it.
    """
    found = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        hidden = any(part.startswith(".") and part != ".eval_results" for part in name.split("/"))
        if not hidden and name != "run.json" and name.split("/")[0].partition("-")[0] not in _KEPT:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def _write_inputs(folder: Path) -> None:
    words = product(("police", "company", "judge"), ("arrested", "bought"), ("thief", "house"))
    mentions = [f"the {who} {what} a {whom}" for who, what, whom in words]
    (folder / "mentions.txt").write_text("\n".join(mentions) + "\n")
    write_edges(
        write_events(folder / "base", [("storm", "en", "storm", ""), ("year", "en", "year", "")]),
        [("storm", "year")],
    )
    for number in (1, 2):
        (folder / f"marked-{number}.txt").write_text("the [[storm]] hit the [[city]]\n" * number)
        (folder / f"stories-{number}").mkdir()
        story = "Anna opened the door. Anna called Police. " * number
        (folder / f"stories-{number}" / "story.txt").write_text(story)
        (folder / f"events-{number}.txt").write_text("\n".join(mentions[::number]) + "\n")
        raw = folder / f"similarity-{number}"
        shutil.copytree(SAMPLES / "similarity", raw)
        for path in raw.iterdir():
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            path.write_text("".join(lines[number:]), encoding="utf-8")


def _results(folder: Path, encoder: Path, number: int) -> Path:
    """Results of a plain encoder, measured where they are first asked for."""
    place = folder / f"results-{number}"
    if not place.exists():
        pooling = ("mean", "cls")[number - 1]
        run_command(["evaluate", str(encoder), *_TASK, "-o", str(place), "--pooling", pooling])
    return place


def tiny_encoder(folder: Path) -> Path:
    """A tiny encoder in a new folder."""
    return save_tiny_encoder(folder / "encoder")
