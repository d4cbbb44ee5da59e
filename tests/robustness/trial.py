"""A command that replaces its output while something goes wrong."""

from __future__ import annotations

import errno
import gc
import os
import shutil
from pathlib import Path

from tests.robustness.commands import Arguments, Command, outcome, run_command, watched

from eventformers.errors import EventformersError
from eventformers.terminal import describe_fault

WAYS = ("kill", "full disk")


class Killed(BaseException):
    """The end of the process."""


class Faults:
    """Fails at one change; after a kill at all that follow, for the dead clean nothing up.

    Args:
        at: number of the change, from 0; None counts alone.
        way: one of `WAYS`.
    """

    def __init__(self, at: int | None, way: str) -> None:
        self.at, self.way, self.changes = at, way, 0

    def __call__(self) -> None:
        number, self.changes = self.changes, self.changes + 1
        if self.at is None or number < self.at:
            return
        if self.way == "kill":
            raise Killed
        if number == self.at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Trial:
    """A command that replaces its earlier output.

    Args:
        command: the command.
        folder: an empty folder for its outputs.
    """

    def __init__(self, command: Command, folder: Path) -> None:
        self.command, self.folder = command, folder
        self.place = folder / "out"
        self.again = command.arguments(self.place, 2)
        self.execute(command.arguments(self.place, 1))
        shutil.copytree(self.place, folder / "old", symlinks=True)
        self.old = outcome(self.place)
        counting = Faults(None, "")
        with watched(self.place, counting):
            self.execute(self.again)
        self.changes = counting.changes
        self.new = outcome(self.place)
        if self.new == self.old:
            raise ValueError(f"{command.name}: both generations are the same")

    def execute(self, arguments: Arguments) -> None:
        """Run a command to its end."""
        run_command(arguments)

    def reset(self) -> None:
        """Put the output of the first generation in place."""
        shutil.rmtree(self.place)
        shutil.copytree(self.folder / "old", self.place, symlinks=True)

    def run(self, at: int, way: str) -> str | None:
        """What is wrong after a fault; None where nothing is."""
        self.reset()
        try:
            with watched(self.place, Faults(at, way)):
                self.execute(self.again)
        except Killed:
            pass
        except Exception as error:
            if describe_fault(error) is None:
                return f"{type(error).__name__}: {error}"
        # The system releases the locks of the dead; here they go with what holds them.
        gc.collect()
        return self.after_fault()

    def after_fault(self) -> str | None:
        """What is wrong after a fault: with the output, or with the command run again; None where nothing."""
        if (found := self.found()) is not None:
            return found
        try:
            self.execute(self.again)
        except BaseException as error:
            return f"the command run again: {type(error).__name__}: {error}"
        if not self.is_new():
            return "the command run again left another output than a first run"
        hidden = sorted(path.name for path in self.place.glob(".*") if path.name != ".eval_results")
        return f"left behind: {', '.join(hidden)}" if hidden else None

    def found(self) -> str | None:
        """What is wrong with the output as it is; None where it is whole or refused."""
        state = outcome(self.place)
        if state == self.old or self.is_new():
            return None
        if not self.command.opened_by:
            return f"neither old nor new: {sorted(state)}"
        opened = [name for name in self.command.opened_by if (self.place / name).exists()]
        if opened:
            return f"{opened[0]} beside a part of the files: {sorted(self._differing(state))}"
        if self.command.load is not None:
            try:
                self.command.load(self.place)
            except EventformersError:
                return None
            return "a part of the files loads"
        return None

    def is_new(self) -> bool:
        """Whether the output is that of the command; times and dates in it may differ."""
        state = outcome(self.place)
        if state.keys() != self.new.keys():
            return False
        changed = {name for name, digest in self.new.items() if self.old.get(name) != digest}
        return all(
            state[name] != self.old.get(name) if name in changed else state[name] == digest
            for name, digest in self.new.items()
        )

    def _differing(self, state: dict[str, str]) -> set[str]:
        names = state.keys() | self.new.keys()
        return {name for name in names if state.get(name) != self.new.get(name)}
