"""Errors that a user can mend. Commands print them in one line and exit with code 2."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class EventformersError(Exception):
    """What was wrong, what was received, what is accepted and what to do, in one line."""


class DataFormatError(EventformersError):
    """A row of a raw file cannot be read.

    Args:
        path: the file.
        line: its line, counted from 1; None where the whole file is at fault.
        found: what stands there.
        accepted: what would be accepted there.
    """

    def __init__(self, path: str | Path, line: int | None, found: str, accepted: str) -> None:
        self.path, self.line, self.found, self.accepted = Path(path), line, found, accepted
        where = f"{path}, line {line}" if line is not None else f"{path}"
        super().__init__(f"{where}: found {found}; accepted: {accepted}")


_SHOWN_NAMES = 30


class UnknownNameError(EventformersError):
    """A name that is not in a registry; suggests the nearest one, and of many names tells the nearest few.

    Args:
        kind: what the name names, such as "task" or "metric".
        name: the name received.
        known: the names accepted.
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        accepted = sorted(known)
        nearest = difflib.get_close_matches(name, accepted, n=1, cutoff=0.4)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        told = ", ".join(accepted)
        if len(accepted) > _SHOWN_NAMES:
            few = difflib.get_close_matches(name, accepted, n=8, cutoff=0.0)
            told = f"{len(accepted)} names, among them {', '.join(sorted(few))}"
        super().__init__(f"unknown {kind} {name!r}.{hint} Accepted: {told}.")
