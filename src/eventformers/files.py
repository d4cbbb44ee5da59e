"""Writing that is never half done: a temporary name first, then a rename."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from eventformers.errors import causes

_STAGING_PREFIX = ".staging-"
# Libraries in Rust and C++ turn a full disk into errors of their own.
_FULL_DISK_TEXTS = ("No space left on device", "Disk quota exceeded", "File too large", "inline_container.cc")


def full_disk(error: BaseException) -> BaseException | None:
    """The error of a full disk among an error and its causes; None where there is none."""
    found = (cause for cause in causes(error) if any(text in str(cause) for text in _FULL_DISK_TEXTS))
    return next(found, None)


def temporary_beside(path: Path) -> Path:
    """A hidden name beside a file or folder, for what it holds until that is whole.

    What killed processes left under such names is removed.
    """
    for left_over in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        process = left_over.name.removesuffix(".tmp").rpartition(".")[2]
        if not process.isdigit() or _runs(int(process)):
            continue
        if left_over.is_dir():
            shutil.rmtree(left_over, ignore_errors=True)
        else:
            left_over.unlink(missing_ok=True)
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def write_text(path: Path, text: str) -> None:
    """Write a text file so that a reader sees the old content or the new, never a part.

    Args:
        path: the file; its folder is made where it is absent.
        text: the whole content.

    Raises:
        OSError: the disk is full or the folder is not writable; what stood there before still does.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_beside(path)
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


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Collect files in a hidden folder beside `folder`, which takes the place of that when all are complete.

    Where the block raises, what stood at `folder` still does, and where nothing stood there nothing does.

    Args:
        folder: the place of the finished folder; its parents are made where they are absent.

    Yields:
        The folder to write into.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    staging = temporary_beside(folder)
    try:
        ready = staging / "ready"
        ready.mkdir(parents=True)
        yield ready
        put_in_place(ready, folder, staging / "before")
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def put_in_place(ready: Path, place: Path, aside: Path) -> None:
    """Replace a folder by a whole new one; the old one comes back if that fails.

    Args:
        ready: the new folder.
        place: where it goes.
        aside: a free name on the same disk, for what stands at `place` until the new folder is there.
    """
    if place.exists():
        os.replace(place, aside)
    try:
        os.replace(ready, place)
    except OSError:
        if aside.exists():
            os.replace(aside, place)
        raise
