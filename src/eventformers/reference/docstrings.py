"""Names and their descriptions in docstrings."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ENTRY = re.compile(r" {4}(\w+)(?: \([^)]*\))?: (.*)")
_CONTINUATION = re.compile(r" {5,}(\S.*)")


@dataclass(frozen=True)
class Documented:
    """A name and its description in a docstring.

    Attributes:
        name: the name.
        meaning: its description, on one line.
    """

    name: str
    meaning: str


def docstring_entries(docstring: str, section: str) -> list[Documented]:
    """Parse the entries of one section of a docstring, such as `Args` or `Returns`.

    Args:
        docstring: a docstring without its common indent.
        section: the section's heading, without colon.
    """
    entries: list[Documented] = []
    inside = False
    for line in docstring.splitlines():
        if not line.startswith(" "):
            inside = line == f"{section}:" or (inside and not line)
        elif inside and (entry := _ENTRY.fullmatch(line)):
            entries.append(Documented(entry[1], entry[2]))
        elif inside and entries and (more := _CONTINUATION.fullmatch(line)):
            entries[-1] = Documented(entries[-1].name, f"{entries[-1].meaning} {more[1]}")
    return entries
