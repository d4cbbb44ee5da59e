"""Writing of figures: accepted formats, and reproducible bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from eventformers.errors import EventformersError, shown
from eventformers.files import output_file, replaced_file, write_explained, write_text
from eventformers.locks import one_writer

SUFFIXES = (".png", ".svg")
COLOURS = matplotlib.color_sequences["petroff10"]
MARKERS = "os^DvP"


def line_style(place: int) -> dict[str, Any]:
    """Return the colour and the marker of a line by its place among the lines of a figure."""
    return {
        "color": COLOURS[place % len(COLOURS)],
        "marker": MARKERS[place % len(MARKERS)],
        "markersize": 5,
        "linewidth": 1.5,
    }


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
    """Write a figure atomically, equal figures with equal bytes."""
    kind = output.suffix.lower().removeprefix(".")
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    with replaced_file(output) as temporary, matplotlib.rc_context({"svg.hashsalt": "eventformers"}):
        figure.savefig(temporary, format=kind, dpi=200, metadata=metadata)


def write_with_table(figure: Figure, text: str, output: Path) -> None:
    """Write a figure, and its numbers to a file beside it with the suffix `.md`.

    Raises:
        EventformersError: a file cannot be written.
    """
    with write_explained(output):
        write_figure(figure, output)
        write_text(output.with_suffix(".md"), text)
