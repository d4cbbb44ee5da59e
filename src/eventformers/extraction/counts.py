"""Counts of what an extraction read, skipped and wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eventformers.datasets_scripts.malformed import MalformedPart, SkippedRows


@dataclass
class ExtractionCounts:
    """Counts of an extraction or of a part of it.

    Args:
        read: items read.
        skipped: items skipped, by reason.
        written: items written.
    """

    read: Counter[str] = field(default_factory=Counter)
    skipped: SkippedRows = field(default_factory=SkippedRows)
    written: Counter[str] = field(default_factory=Counter)

    def add(self, other: ExtractionCounts) -> None:
        """Add the counts of another part."""
        self.read.update(other.read)
        self.skipped.update(other.skipped)
        self.written.update(other.written)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Convert to plain dictionaries sorted by name, without zeros; `malformed` lists the malformed
        documents, if there are any."""
        parts = {"read": self.read, "skipped": self.skipped, "written": self.written}
        malformed = {"malformed": self.skipped.to_dict()} if self.skipped.num_malformed else {}
        counted = {
            part: {name: counts[name] for name in sorted(counts) if counts[name]}
            for part, counts in parts.items()
        }
        return {**counted, **malformed}

    @classmethod
    def from_dict(cls, parts: Mapping[str, Mapping[str, Any]]) -> ExtractionCounts:
        """Convert from the output of `to_dict`."""
        counts = cls()
        for part in ("read", "skipped", "written"):
            getattr(counts, part).update(parts[part])
        for part in parts.get("malformed", {}).get("parts", []):
            counts.skipped.parts.append(MalformedPart.from_dict(part))
        return counts
