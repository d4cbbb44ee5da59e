"""One writer for each output: a second command on the same folder or file ends at once with an error."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from eventformers.errors import EventformersError

LOCK_SUFFIX = ".lock"
"""The lock of `folder/name` is `folder/.name.lock` while a command writes there."""

# The places that this thread writes to; nested calls in one thread count as one writer.
_HELD: ContextVar[frozenset[Path]] = ContextVar("held", default=frozenset())
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


@contextmanager
def one_writer(place: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the right to write to an output, which is a file or a folder with its content.

    The system releases the lock when the process ends, however it ends. Folders that the lock creates for
    `place` are removed if they are empty at the end.

    Args:
        place: the folder or file; it need not exist.
        wait: wait for another writer of the same output, for example for a cache that both fill with the same
            content.

    Raises:
        EventformersError: another writer is active there, or the place cannot be written to.
    """
    place = Path(os.path.realpath(place))
    held = _HELD.get()
    if any(place.is_relative_to(one) for one in held):
        yield
        return
    made = [folder for folder in (place, *place.parents) if not folder.exists()]
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        lock = _acquire(place, wait)
    except OSError as error:
        _remove_empty(made)
        raise EventformersError(f"{place} cannot be written to: {error.strerror or error}") from error
    token = _HELD.set(held | {place})
    try:
        yield
    finally:
        _HELD.reset(token)
        # While the lock is held: a process that has opened the file by now sees that it is gone and opens
        # another.
        with suppress(OSError):
            os.unlink(lock.lock_file)
        lock.release()
        _remove_empty(made)


def _acquire(place: Path, wait: bool) -> FileLock:
    # The lock is inside the folder if its parent is not writable, for example for a mount in a container.
    paths = [
        place.with_name(f".{place.name}{LOCK_SUFFIX}"),
        *([place / LOCK_SUFFIX] if place.is_dir() else []),
    ]
    for path in paths:
        lock = FileLock(path)
        try:
            # The library waits for a file that cannot be created as if it were locked; this raises the
            # reason.
            path.touch()
            lock.acquire(timeout=-1 if wait else 0)
        except Timeout:
            raise EventformersError(
                f"{place} is being written to by {_writer(path)}; wait for its end, or choose another output"
            ) from None
        except OSError as error:
            if path == paths[-1] or error.errno not in _DENIED:
                raise
            continue
        if type(lock) is FileLock:
            # On a file system without locks the library writes its own record to the file.
            started = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
            record = {"process": os.getpid(), "host": socket.gethostname(), "started": started}
            try:
                path.write_text(json.dumps(record), encoding="utf-8")
            except OSError:
                # A full disk: the work would be lost, so it does not begin.
                path.unlink()
                lock.release()
                raise
        return lock
    raise AssertionError


def _writer(path: Path) -> str:
    """Describe the process that holds a lock, for a message."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        host = "" if record["host"] == socket.gethostname() else f" on {record['host']}"
        return f"process {record['process']}{host}, which started at {record['started']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()
