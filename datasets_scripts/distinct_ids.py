"""Ids that repeat get new ones."""

from __future__ import annotations


class DistinctIds:
    """Gives each repeat of an id a new one that no other has: `a`, `a#2`, `a#3`.

    Args:
        mark: what stands before the number.

    Attributes:
        repeats: number of ids that were replaced.
    """

    def __init__(self, mark: str = "#") -> None:
        self._mark = mark
        self._numbers: dict[str, int] = {}
        self.repeats = 0

    def of(self, identifier: str) -> str:
        """Return the id, or a new one if it is taken."""
        distinct = identifier
        while distinct in self._numbers:
            self._numbers[identifier] += 1
            distinct = f"{identifier}{self._mark}{self._numbers[identifier]}"
        self._numbers[distinct] = 1
        self.repeats += distinct != identifier
        return distinct
