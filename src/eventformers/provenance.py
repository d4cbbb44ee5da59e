"""Provenance of results: library versions and the commit of the code. Imports nothing of this package."""

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
    """Return the versions of Python and of `LIBRARIES`; None for a library that is not installed."""
    return {"python": platform.python_version()} | {name: installed_version(name) for name in LIBRARIES}


def installed_version(package: str) -> str | None:
    """Return the version of a package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@functools.cache
def git_commit(file: Path = Path(__file__)) -> str | None:
    """Return the commit of the checkout that tracks a file; None outside a checkout, as when installed.

    Args:
        file: a source file, of this package by default, as it was at the first call. An untracked file counts
            as outside a checkout, so that a virtual environment within another checkout does not report that
            one's commit.

    Returns:
        The hash, with the suffix `-dirty` if tracked files differ from the commit.
    """
    if _git(file, "ls-files", "--error-unmatch", file.name) is None:
        return None
    commit = _git(file, "rev-parse", "HEAD")
    if commit is None:
        return None
    return f"{commit}-dirty" if _git(file, "status", "--porcelain", "--untracked-files=no") else commit


def _git(file: Path, *arguments: str) -> str | None:
    """Return the output of a git command in the folder of a file; None if it fails or git is missing."""
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
