"""Writing of figures: accepted formats, and reproducible bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from eventformers.errors import EventformersError, shown
from eventformers.files import output_file, replaced_file
from eventformers.locks import one_writer

SUFFIXES = (".png", ".svg")


def check_suffix(output: Path) -> None:
    """Reject the suffix of an unsupported image format.

    Raises:
        EventformersError: the suffix is unknown.
    """
    if output.suffix.lower() not in SUFFIXES:
        raise EventformersError(
            f"{output}: found the suffix {shown(output.suffix)}; accepted: {' or '.join(SUFFIXES)}"
        )


@contextmanager
def one_picture(output: Path) -> Iterator[None]:
    """Hold the lock of a figure and of the table beside it, `output` with the suffix `.md`.

    Raises:
        EventformersError: another process writes it, or one of the two is not a regular file.
    """
    output_file(output)
    output_file(output.with_suffix(".md"))
    with one_writer(output):
        yield


def write_figure(figure: Figure, output: Path) -> None:
    """Write a figure atomically; equal figures give equal bytes."""
    kind = output.suffix.lower().removeprefix(".")
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    with replaced_file(output) as temporary, matplotlib.rc_context({"svg.hashsalt": "eventformers"}):
        figure.savefig(temporary, format=kind, dpi=200, metadata=metadata)
