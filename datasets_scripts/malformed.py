"""Policy for malformed parts of raw files: raise an error, or skip, count and list them."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from eventformers.errors import SKIP_ARGUMENT, DataFormatError, UnknownNameError, counted, place_in

Item = TypeVar("Item")
Row = TypeVar("Row")
Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")

MALFORMED_POLICIES = ("error", "skip")
"""The values of the setting `malformed`."""

LISTED_PARTS = 1_000
"""Maximum number of malformed parts to list; all are counted."""
_NAMED_PARTS = 3
_PREFIX = "malformed_"

_in_force: ContextVar[str] = ContextVar("malformed", default=MALFORMED_POLICIES[0])


def malformed_policy() -> str:
    """Return the active policy for malformed parts: `error` by default."""
    return _in_force.get()


def check_malformed(value: object) -> str:
    """Check a value of the setting `malformed` and return it.

    Raises:
        UnknownNameError: it is not in `MALFORMED_POLICIES`.
    """
    if not isinstance(value, str) or value not in MALFORMED_POLICIES:
        raise UnknownNameError("value of malformed:", str(value), MALFORMED_POLICIES)
    return value


@contextmanager
def malformed_parts(policy: str | None) -> Iterator[None]:
    """Activate a policy for all raw files that are read inside the `with` statement.

    Args:
        policy: `error` or `skip`; None changes nothing.

    Raises:
        UnknownNameError: the policy is unknown.
    """
    token = _in_force.set(malformed_policy() if policy is None else check_malformed(policy))
    try:
        yield
    finally:
        _in_force.reset(token)


def takes_malformed(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Activate the policy in a function's keyword argument `malformed` while the function runs."""

    @wraps(function)
    def wrapper(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        policy: Any = options.get("malformed")
        with malformed_parts(policy):
            return function(*arguments, **options)

    return wrapper


class SkippedRows(Counter[str]):
    """Counts of what a reader skipped, by reason, and the list of malformed parts among it.

    Args:
        malformed: `error` raises an error for the first malformed part; `skip` skips the smallest unit that
            contains it, counts it as `malformed_<whole>` and lists it; None uses the active policy.

    Attributes:
        parts: the first `LISTED_PARTS` skipped malformed parts, in the order of the files, as entries of a
            build report: `file` (its name), `line` (None for a fault of the whole file), `whole` (the unit
            skipped) and `found`.

    Raises:
        UnknownNameError: `malformed` is not in `MALFORMED_POLICIES`.
    """

    def __init__(self, malformed: str | None = None) -> None:
        super().__init__()
        self.malformed = malformed_policy() if malformed is None else check_malformed(malformed)
        self.parts: list[dict[str, str | int | None]] = []

    @property
    def num_malformed(self) -> int:
        """Number of skipped malformed parts, listed or not."""
        return sum(count for reason, count in self.items() if reason.startswith(_PREFIX))

    def to_dict(self) -> dict[str, Any]:
        """Summarise malformed parts for a build report: count all, list the first `LISTED_PARTS`."""
        return {"count": self.num_malformed, "parts": [*self.parts]}

    def warn(self) -> None:
        """Warn about skipped malformed parts, with the first few places."""
        warn_of_malformed(self.to_dict())

    def update(self, *others: Any, **counts: int) -> None:
        """Add counts, as `Counter.update` does; a `SkippedRows` also adds its malformed parts."""
        super().update(*others, **counts)
        for other in others:
            if isinstance(other, SkippedRows):
                self.parts += other.parts[: LISTED_PARTS - len(self.parts)]

    def leave_out(self, error: DataFormatError, whole: str) -> None:
        """Skip a malformed part, or raise an error, depending on the policy.

        Args:
            whole: the unit to skip: "line", "row", "item", "document", "row group" (of Parquet) or "file".

        Raises:
            DataFormatError: the policy is `error`; the message names the argument to skip.
        """
        if self.malformed == "error":
            if error.way_on:
                raise error
            way_on = f"or skip each such {whole} with {SKIP_ARGUMENT}"
            raise DataFormatError(error.path, error.line, error.found, error.accepted, way_on) from error
        self[f"{_PREFIX}{whole.replace(' ', '_')}"] += 1
        if len(self.parts) < LISTED_PARTS:
            place = {"file": error.path.name, "line": error.line}
            self.parts.append({**place, "whole": whole, "found": error.found})

    def uncounted(self) -> SkippedRows:
        """Return an empty object with the same policy, for a second pass over already counted rows."""
        return SkippedRows(self.malformed)

    def parsed(
        self, items: Iterable[Item], parse: Callable[[Item], Row], whole: str = "row"
    ) -> Iterator[Row]:
        """Parse items; skip each one for which `parse` raises `DataFormatError`.

        Args:
            parse: converts an item to a row.
            whole: the unit of an item, for the counts.

        Raises:
            DataFormatError: an item is malformed, and the policy is `error`.
        """
        for item in items:
            try:
                row = parse(item)
            except DataFormatError as error:
                self.leave_out(error, whole)
            else:
                yield row

    def parsed_rows(
        self, rows: Iterable[tuple[Any, ...]], parse: Callable[..., Row], whole: str = "row"
    ) -> Iterator[Row]:
        """Parse rows whose parts are the arguments of `parse`, such as a line and its value; see `parsed`."""
        return self.parsed(rows, lambda row: parse(*row), whole)


class HeldFaults(SkippedRows):
    """Collects the faults of single lines, for a reader that skips a larger unit because of them.

    Attributes:
        faults: the faults since the last `take`.
    """

    def __init__(self) -> None:
        super().__init__("skip")
        self.faults: list[DataFormatError] = []

    def leave_out(self, error: DataFormatError, whole: str) -> None:
        """Record a fault."""
        self.faults.append(error)

    def take(self) -> DataFormatError | None:
        """Return the first recorded fault, if any, and clear all."""
        first = next(iter(self.faults), None)
        self.faults = []
        return first


def place_text(part: Mapping[str, object]) -> str:
    """Describe place and content of a malformed part, from an entry of a build report."""
    file, line = str(part["file"]), part["line"]
    place = f", {place_in(file, line)}" if isinstance(line, int) else ""
    return f"{file}{place} ({part['whole']}): {part['found']}"


def parts_text(count: int) -> str:
    """Format a number of malformed parts."""
    return counted(count, "malformed part")


def malformed_text(listed: Mapping[str, Any]) -> str:
    """Summarise skipped malformed parts in one line, with the first few places.

    Args:
        listed: output of `SkippedRows.to_dict`, as in a build report.
    """
    count, named = listed["count"], [place_text(part) for part in listed["parts"][:_NAMED_PARTS]]
    more = [f"and {count - len(named):,} more"] if count > len(named) else []
    return f"{parts_text(count)} left out: {'; '.join(named + more)}"


def warn_of_malformed(listed: Mapping[str, Any], what: str = "the raw data") -> None:
    """Warn about skipped malformed parts, once per process for the same parts.

    Args:
        listed: output of `SkippedRows.to_dict`, as in a build report.
        what: the data that they were skipped from.
    """
    if listed["count"]:
        # Python suppresses a repeated warning of the same text and line; this line is the same for all
        # callers.
        warnings.warn(f"{what}: {malformed_text(listed)}", stacklevel=1)
