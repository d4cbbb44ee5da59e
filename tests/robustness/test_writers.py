"""Two writers of one output: the second is refused at once, and nothing of the first is lost."""

from __future__ import annotations

import os
import threading
from contextlib import nullcontext
from itertools import chain
from pathlib import Path

import pytest
from tests.robustness.commands import TRIED, Command, commands, run_command, watched
from tests.robustness.trial import Trial

from eventformers import locks
from eventformers.errors import EventformersError
from eventformers.locks import LOCK_SUFFIX
from eventformers.trainers import run as training_run
from eventformers.training import train

WITHOUT_LOCK = ("leaderboard --html",)
"""They write one file in one moment: the last one wins, whole."""


class Pause:
    """Stops one thread before one of the changes that it makes under its lock, until it may continue.

    Args:
        place: the output.
        at: number of the change, from 0; None counts alone.
    """

    def __init__(self, place: Path, at: int | None) -> None:
        self.place, self.at, self.changes = place, at, 0
        self.thread = threading.current_thread()
        self.reached, self.goes_on = threading.Event(), threading.Event()

    def __call__(self) -> None:
        locks = (self.place.parent.glob(f".*{LOCK_SUFFIX}"), self.place.rglob(f".*{LOCK_SUFFIX}"))
        if threading.current_thread() is not self.thread or not any(chain(*locks)):
            return
        if self.changes == self.at:
            self.reached.set()
            self.goes_on.wait()
        self.changes += 1


def changes_under_lock(trial: Trial) -> int:
    """The number of changes that a command makes while it holds its lock."""
    trial.reset()
    count = Pause(trial.place, None)
    with watched(trial.place, count):
        run_command(trial.again)
    return count.changes


def try_pair(trial: Trial, at: int) -> str | None:
    """Start a command while the same one waits before a change; what was wrong, None where nothing was."""
    trial.reset()
    pause, faults = Pause(trial.place, at), list[BaseException]()

    def first() -> None:
        try:
            run_command(trial.again)
        except BaseException as error:
            faults.append(error)
        finally:
            pause.reached.set()

    pause.thread = threading.Thread(target=first)
    finding = None
    with watched(trial.place, pause):
        pause.thread.start()
        pause.reached.wait()
        try:
            run_command(trial.again)
            finding = "the second wrote, too"
        except EventformersError as error:
            if f"is being written to by process {os.getpid()}, which started at" not in str(error):
                finding = f"the second was refused otherwise: {error}"
        except Exception as error:
            finding = f"the second: {type(error).__name__}: {error}"
        finally:
            pause.goes_on.set()
            pause.thread.join()
    if faults:
        return f"the first: {type(faults[0]).__name__}: {faults[0]}"
    return finding or (None if trial.is_new() else "the output is not that of the first")


@pytest.fixture(scope="module")
def quick(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Command]:
    found = commands(tmp_path_factory.mktemp("inputs"), tiny_encoder)
    return {command.name: command for command in found}


@pytest.mark.parametrize("name", [name for name in TRIED if name not in WITHOUT_LOCK])
def test_the_second_is_refused_and_the_first_is_whole(
    quick: dict[str, Command], name: str, tmp_path: Path
) -> None:
    trial = Trial(quick[name], tmp_path)
    changes = changes_under_lock(trial)
    assert changes
    for at in {0, changes // 2, changes - 1}:
        assert try_pair(trial, at) is None


def test_a_second_training_run_is_refused_before_it_touches_anything(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of an unfinished run goes away, neither with --overwrite nor with --resume."""
    (tmp_path / "run" / "checkpoint-5").mkdir(parents=True)
    (tmp_path / "run" / "run.json").write_text("{}")
    monkeypatch.setattr(training_run, "train_head", None)
    is_held, goes_on = threading.Event(), threading.Event()

    def hold() -> None:
        with locks.one_writer(tmp_path / "run"):
            is_held.set()
            goes_on.wait()

    first = threading.Thread(target=hold)
    first.start()
    is_held.wait()
    try:
        for options in ({}, {"overwrite": True}, {"resume": True}):
            with pytest.raises(EventformersError, match="is being written to by process"):
                train("swcc", tmp_path / "run", encoder=str(tiny_encoder), **options)
    finally:
        goes_on.set()
        first.join()
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"checkpoint-5", "run.json"}


def test_rank_1_of_the_same_run_is_no_second_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr("eventformers.training.output_folder", None)
    (tmp_path / "config.json").touch()
    with pytest.raises(EventformersError, match="already holds a model"):
        train("swcc", tmp_path)


def test_two_that_write_are_found(
    quick: dict[str, Command], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = Trial(quick["induce"], tmp_path)
    monkeypatch.setattr("eventformers.files.one_writer", lambda *_, **__: nullcontext())
    assert try_pair(trial, 0) is not None
