"""Writing that is never half done: a temporary name first, then a rename."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

_STAGING_PREFIX = ".staging-"


def write_text(path: Path, text: str) -> None:
    """Write a text file so that a reader sees the old content or the new, never a part.

    Args:
        path: the file; its folder is made where it is absent.
        text: the whole content.

    Raises:
        OSError: the disk is full or the folder is not writable; what stood there before still does.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def staged_folder(folder: Path) -> Iterator[Path]:
    """Collect files in a hidden folder inside `folder`, and move them into place when all are complete.

    What an earlier, killed run left there is removed first. Where the block raises, `folder` keeps its
    earlier content.

    Args:
        folder: where the files go; made where it is absent.

    Yields:
        The folder to write into.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for left_over in folder.glob(f"{_STAGING_PREFIX}*"):
        shutil.rmtree(left_over)
    staging = Path(mkdtemp(prefix=_STAGING_PREFIX, dir=folder))
    try:
        yield staging
        for source in sorted(path for path in staging.rglob("*") if path.is_file()):
            target = folder / source.relative_to(staging)
            target.parent.mkdir(parents=True, exist_ok=True)
            source.replace(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
