"""Two writers of one output: the second is refused at once, and nothing of the first is lost."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from random import Random

from tests.robustness.commands import commands, run_command, tiny_encoder, watched
from tests.robustness.kills import Trial
from tests.robustness.tally import Tally

from eventformers.errors import EventformersError
from eventformers.locks import LOCK_SUFFIX

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


def run(cases: int, seed: int) -> Iterator[Tally]:
    """Try `cases` pairs of every command that has a lock."""
    with tempfile.TemporaryDirectory(prefix="eventformers-writers-") as name:
        folder = Path(name)
        (folder / "inputs").mkdir()
        for number, command in enumerate(commands(folder / "inputs", tiny_encoder(folder))):
            if command.name in WITHOUT_LOCK:
                continue
            place = folder / str(number)
            place.mkdir()
            trial = Trial(command, place)
            changes = changes_under_lock(trial)
            tally = Tally(command.name)
            draw = Random(seed)  # noqa: S311, no secret
            for _ in range(cases):
                at = draw.randrange(changes)
                tally.tries += 1
                if (finding := try_pair(trial, at)) is None:
                    tally.refused += 1
                else:
                    tally.findings.append(f"change {at}: {finding}")
            yield tally
            shutil.rmtree(place)
