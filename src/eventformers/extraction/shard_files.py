"""Files of a datatrove task, which get their names when they are complete."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from datatrove.io import DataFolder

UNFINISHED = "unfinished"
"""Folder of the files that a task has not completed."""


@contextmanager
def completed_file(folder: DataFolder, name: str) -> Iterator[IO[bytes]]:
    """Write a file in `unfinished/` and move it to its name at the end, unless an error is raised.

    Args:
        folder: its folder.
        name: its name.

    Yields:
        The opened file.
    """
    folder.makedirs(UNFINISHED, exist_ok=True)
    # A worker whose executor was stopped may still write when its task is run again.
    own = f"{UNFINISHED}/{name}.{uuid4().hex}"
    with folder.open(own, "wb") as file:
        yield file
    try:
        folder.mv(own, name)
    except FileNotFoundError:
        # The other run of the task was faster: it wrote the same, and removed this file.
        if not folder.isfile(name):
            raise
    for other in folder.list_files(UNFINISHED, glob_pattern=f"{name}.*"):
        with suppress(FileNotFoundError):
            folder.rm(other)
