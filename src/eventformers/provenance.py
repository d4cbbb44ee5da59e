"""Where a result comes from: library versions and the commit of the code. Needs nothing of this package."""

from __future__ import annotations

import functools
import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = ("eventformers", "torch", "transformers", "tokenizers", "datasets", "evaluate", "numpy", "scipy")
"""The libraries whose version can change a score."""


def library_versions() -> dict[str, str | None]:
    """The version of Python and of each of `LIBRARIES`; None where one is not installed."""
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            versions[library] = version(library)
        except PackageNotFoundError:
            versions[library] = None
    return versions


def git_commit(file: Path | None = None) -> str | None:
    """The commit of the checkout that tracks a file; None outside of one, as in an installed package.

    Args:
        file: a source file; an untracked file counts as outside, so that a virtual environment inside some
            other checkout does not pass for ours. None is this package, as it is at the first call: what
            changes later is not the code that runs.

    Returns:
        The hash, with `-dirty` behind it where tracked files differ from the commit.
    """
    return _own_commit() if file is None else _commit(file)


@functools.cache
def _own_commit() -> str | None:
    return _commit(Path(__file__))


def _commit(file: Path) -> str | None:
    if _git(file, "ls-files", "--error-unmatch", file.name) is None:
        return None
    commit = _git(file, "rev-parse", "HEAD")
    if commit is None:
        return None
    return f"{commit}-dirty" if _git(file, "status", "--porcelain", "--untracked-files=no") else commit


def _git(file: Path, *arguments: str) -> str | None:
    """What a git command prints in the folder of a file; None where it fails or there is no git."""
    git = shutil.which("git")
    if git is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 - the arguments are ours
            [git, "-C", str(file.parent), *arguments], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
