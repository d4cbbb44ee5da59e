"""Threads of a gloo process group, by their names."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_THREADS = Path("/proc/self/task")


def group_threads() -> list[str]:
    """Names of the threads of this process that serve a group; none where the system does not list them."""
    names = []
    for thread in _THREADS.glob("*"):
        with suppress(OSError):  # It ended meanwhile.
            names.append((thread / "comm").read_text().strip())
    return [name for name in names if "gloo" in name]
