"""What an extraction read, left out and wrote, by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from eventformers.datasets_scripts.malformed import SkippedRows


@dataclass
class ExtractionCounts:
    """Counts of an extraction or of a part of it.

    Args:
        read: what was read.
        skipped: what was left out, by reason.
        written: what was kept.
    """

    read: Counter[str] = field(default_factory=Counter)
    skipped: SkippedRows = field(default_factory=SkippedRows)
    written: Counter[str] = field(default_factory=Counter)

    def add(self, other: ExtractionCounts) -> None:
        """Add the counts of another part."""
        self.read.update(other.read)
        self.skipped.update(other.skipped)
        self.written.update(other.written)

    def to_dict(self) -> dict[str, dict[str, int]]:
        """Plain dictionaries in the order of names, without what occurred not once."""
        parts = {"read": self.read, "skipped": self.skipped, "written": self.written}
        return {
            part: {name: counts[name] for name in sorted(counts) if counts[name]}
            for part, counts in parts.items()
        }

    @classmethod
    def from_dict(cls, parts: Mapping[str, Mapping[str, int]]) -> ExtractionCounts:
        """The counts that `to_dict` gave."""
        counts = cls()
        for part in ("read", "skipped", "written"):
            getattr(counts, part).update(parts[part])
        return counts
