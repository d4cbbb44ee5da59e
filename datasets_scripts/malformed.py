"""What becomes of malformed parts of raw files: an error, or left out, counted and listed."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from eventformers.errors import DataFormatError, UnknownNameError

Item = TypeVar("Item")
Row = TypeVar("Row")
Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")

MALFORMED_POLICIES = ("error", "skip")
"""The values of the setting `malformed`."""

LISTED_PARTS = 1_000
"""The most malformed parts that are listed; all are counted."""
_NAMED_PARTS = 3
_PREFIX = "malformed_"

_in_force: ContextVar[str] = ContextVar("malformed", default=MALFORMED_POLICIES[0])


def malformed_policy() -> str:
    """Return the policy for malformed parts that is in force: `error` where nothing else was set."""
    return _in_force.get()


def check_malformed(value: object) -> str:
    """Return a value of the setting `malformed` as it is.

    Raises:
        UnknownNameError: it is none of `MALFORMED_POLICIES`.
    """
    if not isinstance(value, str) or value not in MALFORMED_POLICIES:
        raise UnknownNameError("value of malformed:", str(value), MALFORMED_POLICIES)
    return value


@contextmanager
def malformed_parts(policy: str | None) -> Iterator[None]:
    """Put a policy in force for all raw files that are read inside the `with` statement.

    Args:
        policy: `error` or `skip`; None changes nothing.

    Raises:
        UnknownNameError: it is neither.
    """
    token = _in_force.set(malformed_policy() if policy is None else check_malformed(policy))
    try:
        yield
    finally:
        _in_force.reset(token)


def takes_malformed(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Put what a function receives by the keyword `malformed` in force while the function runs."""

    @wraps(function)
    def wrapper(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        policy: Any = options.get("malformed")
        with malformed_parts(policy):
            return function(*arguments, **options)

    return wrapper


@dataclass(frozen=True)
class MalformedPart:
    """A part of a raw file that was left out.

    Attributes:
        path: the file.
        line: the line of the fault, from 1; None where the whole file is at fault.
        whole: what was left out: "line", "row", "item", "document" or "file".
        found: what stands there.
    """

    path: Path
    line: int | None
    whole: str
    found: str

    def __str__(self) -> str:
        return place_text(self.to_dict())

    def to_dict(self) -> dict[str, str | int | None]:
        """What a build report lists: the name of the file, not where it lies."""
        return {"file": self.path.name, "line": self.line, "whole": self.whole, "found": self.found}

    @classmethod
    def from_dict(cls, part: Mapping[str, Any]) -> MalformedPart:
        """The part that a report lists."""
        return cls(Path(part["file"]), part["line"], part["whole"], part["found"])


class SkippedRows(Counter[str]):
    """Counts of what a reader left out, by reason, and the list of malformed parts among it.

    Args:
        malformed: `error` raises for the first malformed part; `skip` leaves out the smallest whole that it
            belongs to, counts it as `malformed_<whole>` and lists it; None takes the policy in force.

    Attributes:
        malformed: the policy.
        parts: the first `LISTED_PARTS` malformed parts that were left out, in the order of the files.

    Raises:
        UnknownNameError: `malformed` is none of `MALFORMED_POLICIES`.
    """

    def __init__(self, malformed: str | None = None) -> None:
        super().__init__()
        self.malformed = malformed_policy() if malformed is None else check_malformed(malformed)
        self.parts: list[MalformedPart] = []

    @property
    def num_malformed(self) -> int:
        """How many malformed parts were left out, listed or not."""
        return sum(count for reason, count in self.items() if reason.startswith(_PREFIX))

    def to_dict(self) -> dict[str, Any]:
        """The malformed parts as a build report has them: all counted, the first `LISTED_PARTS` listed."""
        return {"count": self.num_malformed, "parts": [part.to_dict() for part in self.parts]}

    def warn(self) -> None:
        """Warn of malformed parts that were left out, with the first few places."""
        warn_of_malformed(self.to_dict())

    def update(self, *others: Any, **counts: int) -> None:
        """Add counts, as `Counter.update` does; those of a `SkippedRows` with its malformed parts."""
        super().update(*others, **counts)
        for other in others:
            if isinstance(other, SkippedRows):
                self.parts += other.parts[: LISTED_PARTS - len(self.parts)]

    def leave_out(self, error: DataFormatError, whole: str) -> None:
        """Leave out a malformed part, or raise.

        Args:
            error: what is wrong.
            whole: what is left out: "line", "row", "item", "document" or "file".

        Raises:
            DataFormatError: malformed parts are not to be left out; names the way on.
        """
        if self.malformed == "error":
            if error.way_on:
                raise error
            way_on = f"or leave out each such {whole} by --malformed skip"
            raise DataFormatError(error.path, error.line, error.found, error.accepted, way_on) from error
        self[f"{_PREFIX}{whole}"] += 1
        if len(self.parts) < LISTED_PARTS:
            self.parts.append(MalformedPart(error.path, error.line, whole, error.found))

    def uncounted(self) -> SkippedRows:
        """Return an empty one of the same policy, for a second pass over rows that are counted already."""
        return SkippedRows(self.malformed)

    def parsed(
        self, items: Iterable[Item], parse: Callable[[Item], Row], whole: str = "row"
    ) -> Iterator[Row]:
        """Yield what `parse` makes of each item; one that it refuses with `DataFormatError` is left out.

        Args:
            items: the items of a file.
            parse: makes a row of an item.
            whole: what an item is, for the counts.

        Raises:
            DataFormatError: an item is malformed, and malformed parts are not to be left out.
        """
        for item in items:
            try:
                row = parse(item)
            except DataFormatError as error:
                self.leave_out(error, whole)
            else:
                yield row


class HeldFaults(SkippedRows):
    """The faults of single lines, for a reader that leaves out a larger whole with them.

    Attributes:
        faults: the faults since they were taken last.
    """

    def __init__(self) -> None:
        super().__init__("skip")
        self.faults: list[DataFormatError] = []

    def leave_out(self, error: DataFormatError, whole: str) -> None:
        """Keep a fault."""
        self.faults.append(error)

    def take(self) -> DataFormatError | None:
        """Return the first fault that is kept, if any, and forget all."""
        first = next(iter(self.faults), None)
        self.faults = []
        return first


def place_text(part: Mapping[str, object]) -> str:
    """Return where a malformed part stands and what was found there, from an entry of a build report."""
    line = f", line {part['line']}" if part["line"] is not None else ""
    return f"{part['file']}{line} ({part['whole']}): {part['found']}"


def parts_text(count: int) -> str:
    """Return a number of malformed parts in words."""
    return "1 malformed part" if count == 1 else f"{count:,} malformed parts"


def malformed_text(listed: Mapping[str, Any]) -> str:
    """Return one line about malformed parts that were left out, with the first few places.

    Args:
        listed: what `SkippedRows.to_dict` gives, and a build report holds.
    """
    count, named = listed["count"], [place_text(part) for part in listed["parts"][:_NAMED_PARTS]]
    more = [f"and {count - len(named):,} more"] if count > len(named) else []
    return f"{parts_text(count)} left out: {'; '.join(named + more)}"


def warn_of_malformed(listed: Mapping[str, Any], what: str = "the raw data") -> None:
    """Warn of malformed parts that were left out; of the same ones once in a process.

    Args:
        listed: what `SkippedRows.to_dict` gives, and a build report holds.
        what: where they were left out.
    """
    if listed["count"]:
        # Python repeats no warning of one text and line, and this line is the same for every caller.
        warnings.warn(f"{what}: {malformed_text(listed)}", stacklevel=1)
