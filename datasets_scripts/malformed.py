"""What becomes of malformed parts of raw files: an error, or left out, counted and listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from eventformers.errors import DataFormatError, UnknownNameError

Item = TypeVar("Item")
Row = TypeVar("Row")

MALFORMED_POLICIES = ("error", "skip")
"""The values of the setting `malformed`."""


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
        where = f"{self.path}, line {self.line}" if self.line is not None else f"{self.path}"
        return f"{where}: {self.whole} left out, found {self.found}"


class SkippedRows(Counter[str]):
    """Counts of what a reader left out, by reason, and the list of malformed parts among it.

    Args:
        malformed: `error` raises for the first malformed part; `skip` leaves out the smallest whole that it
            belongs to, counts it as `malformed_<whole>` and lists it.

    Attributes:
        parts: the malformed parts that were left out, in the order of the files.

    Raises:
        UnknownNameError: `malformed` is none of `MALFORMED_POLICIES`.
    """

    def __init__(self, malformed: str = "error") -> None:
        super().__init__()
        if malformed not in MALFORMED_POLICIES:
            raise UnknownNameError("value of malformed:", malformed, MALFORMED_POLICIES)
        self.malformed = malformed
        self.parts: list[MalformedPart] = []

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
        self[f"malformed_{whole}"] += 1
        self.parts.append(MalformedPart(error.path, error.line, whole, error.found))

    def uncounted(self) -> SkippedRows:
        """Return an empty one of the same policy, for a second pass over rows that are counted already."""
        return SkippedRows(self.malformed)

    def copy(self) -> SkippedRows:
        """Return an independent copy."""
        return _restored(dict(self), self.malformed, list(self.parts))

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (dict(self), self.malformed, self.parts)

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


def _restored(counts: dict[str, int], malformed: str, parts: list[MalformedPart]) -> SkippedRows:
    skipped = SkippedRows(malformed)
    skipped.update(counts)
    skipped.parts = parts
    return skipped
