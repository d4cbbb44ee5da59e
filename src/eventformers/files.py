"""Atomic writing of files and folders: readers see the old content or the complete new content."""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, wraps
from pathlib import Path
from threading import current_thread, get_native_id, main_thread
from typing import Any, TypeVar

import yaml

from eventformers.errors import EventformersError, causes, shown
from eventformers.locks import one_writer

Result = TypeVar("Result")

_STAGING = ".staging"
_NEW = "new"
_PLAN = "plan.json"
# A library loads a folder by these files. Without `config.json` it loads nothing.
_OPENED_BY = ("adapter_config.json", "modules.json", "config.json")
_STANDARD_OUTPUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)
# Libraries in Rust and C++ raise their own errors for a full disk.
_FULL_DISK_TEXTS = ("No space left on device", "Disk quota exceeded", "File too large", "inline_container.cc")


def full_disk(error: BaseException) -> BaseException | None:
    """Find the error of a full disk among an error and its causes; None if there is none."""
    found = (cause for cause in causes(error) if any(text in str(cause) for text in _FULL_DISK_TEXTS))
    return next(found, None)


def is_standard_output(path: str | Path) -> bool:
    """True if the path of a text file stands for standard output."""
    return str(path) in _STANDARD_OUTPUT


def output_file(path: str | Path) -> Path:
    """Return the file that writing to a path replaces; for a symbolic link, its target. Anything else than a
    regular file is an error."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return Path(os.path.realpath(path))
    except OSError as error:
        raise EventformersError(f"cannot write {path}: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        found = next((name for is_one, name in _KINDS if is_one(mode)), "not a regular file")
        raise EventformersError(f"{path}: {found}; accepted: a file to write to")
    return Path(os.path.realpath(path))


def walk_with_links(folder: str | Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Walk a folder as `os.walk` does, sorted, with links to folders followed and each folder read once; one
    that cannot be read is an error."""

    def refuse(error: OSError) -> None:
        raise EventformersError(f"cannot read {error.filename}: {error.strerror}") from error

    visited = set()
    for place, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        real = os.path.realpath(place)
        if real in visited:
            folders.clear()
            continue
        visited.add(real)
        folders.sort()
        yield Path(place), folders, sorted(names)


def cached_by_file(read: Callable[[Path], Result]) -> Callable[[Path], Result]:
    """Cache a function of a file until the file's size or modification time changes."""

    @lru_cache(maxsize=256)
    def cached(path: Path, size: int, changed: int) -> Result:
        return read(path)

    @wraps(read)
    def wrapper(path: Path) -> Result:
        status = path.stat()
        return cached(path, status.st_size, status.st_mtime_ns)

    return wrapper


def packaged_yaml(module: str, name: str) -> Any:
    """Read a YAML file of this package that is beside a module, which is given as its `__file__`."""
    return yaml.safe_load((Path(module).parent / name).read_text(encoding="utf-8"))


def require_file(path: Path, accepted: str) -> None:
    """Raise an `EventformersError` for a path that is no file."""
    if not path.is_file():
        mode = path.stat().st_mode if path.exists() else 0
        found = next((name for is_one, name in _KINDS if is_one(mode)), "no such file")
        raise EventformersError(f"{path}: {found}; accepted: {accepted}")


@cached_by_file
def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def files_digest(path: Path) -> str:
    """SHA-256 of a file, or of the names and contents of all files of a folder, in hexadecimal."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    digests = "".join(f"{file.relative_to(path).as_posix()}\0{file_digest(file)}\0" for file in files)
    return hashlib.sha256(digests.encode()).hexdigest()


@contextmanager
def write_explained(what: str | Path) -> Iterator[None]:
    """Convert a write that the system refused, for example on a full disk, to a one-line error."""
    try:
        yield
    except OSError as error:
        raise EventformersError(f"cannot write {what}: {error.strerror or error}") from error


def temporary_beside(path: Path) -> Path:
    """A hidden temporary name beside a file or folder.

    Temporary files of killed processes are removed.
    """
    _remove_left_overs(path.parent, glob.escape(path.name))
    # Two threads of a process may write one file. The main thread keeps its name, since the next process of a
    # container may have the same number, and then writes over what a killed one left.
    thread = "" if current_thread() is main_thread() else f"{get_native_id()}."
    return path.with_name(f".{path.name}.{thread}{os.getpid()}.tmp")


def _remove_left_overs(folder: Path, name: str, *, alone: bool = False) -> None:
    """Remove temporary files of dead processes, and of this one if nothing else in it writes there.

    In a container every process may have the same number.
    """
    for left_over in folder.glob(f".{name}.*.tmp"):
        process = left_over.name.removesuffix(".tmp").rpartition(".")[2]
        if not process.isdecimal():
            continue
        if not (alone and int(process) == os.getpid()):
            try:
                os.kill(int(process), 0)
                continue
            except ProcessLookupError:
                pass
            except (OSError, OverflowError):
                continue
        if left_over.is_dir():
            shutil.rmtree(left_over, ignore_errors=True)
        else:
            left_over.unlink(missing_ok=True)


@contextmanager
def replaced_file(path: str | Path) -> Iterator[Path]:
    """Write a file under a temporary name, which is yielded, then move it to `path`; until then the old
    content is unchanged.

    The folder of the file is created if absent. For a symbolic link, the target is replaced.

    Raises:
        EventformersError: the path is not a regular file.
        OSError: the disk is full or the folder is not writable.
    """
    target = output_file(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_beside(target)
    try:
        yield temporary
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file atomically: a reader sees the old content or the new, never a part; see
    `replaced_file`."""
    with replaced_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def remove_folder(folder: Path) -> None:
    """Remove a folder with its content; after a kill, its name has all of it or nothing."""
    if not folder.exists():
        return
    aside = temporary_beside(folder)
    shutil.rmtree(aside, ignore_errors=True)
    os.replace(folder, aside)
    shutil.rmtree(aside, ignore_errors=True)


def check_own_folder(folder: Path, state_folder: str, kind: str) -> None:
    """Raise an error for a folder with files that a command did not write: without the folder inside that it
    writes first.

    `kind` is what the command makes, for the error, such as `release`.
    """
    if not folder.is_dir() or (folder / state_folder).is_dir():
        return
    others = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    if others:
        raise EventformersError(
            f"{folder} has {others[0]} but no {kind}; accepted: a new folder, or that of an earlier {kind}"
        )


@contextmanager
def output_folder(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Become the only writer of a folder, and first complete an interrupted replacement of its files.

    A command that writes a folder does all of its work in this context. A new folder that stays empty is
    removed at the end.

    Args:
        folder: the folder; created if absent.
        wait: wait for another writer instead of raising an error, for example for a cache.

    Raises:
        EventformersError: another writer is active there, or the folder is a file or not writable.
    """
    if folder.exists() and not folder.is_dir():
        raise EventformersError(f"{folder} is a file; accepted: a folder to write to")
    with one_writer(folder, wait=wait):
        folder.mkdir(exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise EventformersError(f"{folder} cannot be written to; accepted: a writable folder")
        _finish(folder)
        _remove_left_overs(folder, "*", alone=True)
        yield


@contextmanager
def staged_folder(
    folder: Path, *, replaced: Collection[str] = (), last: Sequence[str] = _OPENED_BY
) -> Iterator[Path]:
    """Collect files in a hidden folder inside `folder`, and move them into place when all are complete.

    If the block raises an error, `folder` keeps its earlier content. When all files are complete, the
    function writes a plan, removes the old files and moves the new ones. So a concurrent reader sees some of
    the old files or some of the new ones, never a mixture, and without the files of `last` no library loads
    the folder. After a kill, the next `output_folder` or `staged_folder` carries out the rest of the plan;
    until then `refuse_unfinished` rejects the folder.

    Args:
        folder: the destination; created if absent.
        replaced: patterns of names in `folder` to remove, besides the files that new ones replace; names may
            be added in the block.
        last: names of files that are moved last, in this order, and removed first.

    Yields:
        The folder to write to. Files written beside it are removed at the end.
    """
    with output_folder(folder):
        staging = folder / _STAGING
        try:
            (staging / _NEW).mkdir(parents=True)
            yield staging / _NEW
            _write_plan(folder, replaced, last)
        finally:
            if not (staging / _PLAN).exists():
                shutil.rmtree(staging, ignore_errors=True)
        _finish(folder)


def is_unfinished(folder: Path) -> bool:
    """True if a command was killed while it replaced the files of a folder."""
    return (folder / _STAGING / _PLAN).is_file()


def refuse_unfinished(folder: Path) -> None:
    """Raise an error, which says how to finish it, if a command was killed while it replaced the files of a
    folder."""
    if is_unfinished(folder):
        raise EventformersError(
            f"{folder}: the command that replaced its files did not finish; run any command that "
            "writes there, such as the same one again: it first moves the new files into place"
        )


def _write_plan(folder: Path, replaced: Collection[str], last: Sequence[str]) -> None:
    """Record which files to remove and which to move, in order; from then on the new files count."""
    coming = _files(folder / _STAGING / _NEW, folder / _STAGING / _NEW)
    for name in coming:
        if (folder / name).is_dir():
            raise EventformersError(f"{folder / name}: a folder; accepted: a file, or nothing")
    going = {name for pattern in replaced for path in folder.glob(pattern) for name in _files(path, folder)}
    going |= {name for name in coming if (folder / name).exists() or (folder / name).is_symlink()}
    plan = {
        "going": sorted(going, key=lambda name: _place(name, last), reverse=True),
        "coming": sorted(coming, key=lambda name: _place(name, last)),
    }
    write_text(folder / _STAGING / _PLAN, json.dumps(plan))


def _files(path: Path, root: Path) -> list[str]:
    """The files at or below a path, relative to `root`."""
    found = path.rglob("*") if path.is_dir() and not path.is_symlink() else [path]
    return [one.relative_to(root).as_posix() for one in found if one.is_symlink() or not one.is_dir()]


def _place(name: str, last: Sequence[str]) -> tuple[bool, int, int, str]:
    """Sort key that puts the files that open a folder last, and among them those at the top after nested
    ones."""
    base = name.rpartition("/")[2]
    return base in last, -name.count("/"), last.index(base) if base in last else 0, name


def _finish(folder: Path) -> None:
    """Carry out the rest of a plan and remove the staging folder."""
    staging = folder / _STAGING
    plan = staging / _PLAN
    if plan.is_file():
        names = _read_plan(plan)
        coming = set(names["coming"])
        for name in names["going"]:
            # A file that was already moved is no longer in the staging folder.
            if name not in coming or (staging / _NEW / name).exists():
                (folder / name).unlink(missing_ok=True)
        # Inner folders first; folders with other content are kept.
        for parent in sorted({parent for name in names["going"] for parent in Path(name).parents})[:0:-1]:
            with suppress(OSError):
                (folder / parent).rmdir()
        for name in names["coming"]:
            if (staging / _NEW / name).exists():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                try:
                    os.replace(staging / _NEW / name, folder / name)
                except OSError as error:
                    if error.errno != errno.EXDEV:
                        raise
                    # A folder inside may be on another disk.
                    with replaced_file(folder / name) as temporary:
                        shutil.copy2(staging / _NEW / name, temporary)
                    (staging / _NEW / name).unlink()
        plan.unlink()
    shutil.rmtree(staging, ignore_errors=True)


def _read_plan(plan: Path) -> dict[str, list[str]]:
    """Read the names of a plan, which may be malicious: the folder may come from somebody else."""
    try:
        names = json.loads(plan.read_text(encoding="utf-8"))
        folder = plan.parents[1]
        inside = [
            ".." not in Path(name).parts and (folder / name).parent.resolve().is_relative_to(folder.resolve())
            for name in [*names["going"], *names["coming"]]
        ]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise EventformersError(
            f"{plan}: not a plan of an interrupted command ({shown(str(error))}); remove {plan.parent}"
        ) from error
    if not all(inside):
        raise EventformersError(f"{plan}: names a file outside of its folder; remove {plan.parent}")
    return names
