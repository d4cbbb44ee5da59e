"""Writing pictures: which kinds there are, and the same bytes for the same picture."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from eventformers.errors import EventformersError, shown
from eventformers.files import temporary_beside

SUFFIXES = (".png", ".svg")


def check_suffix(output: Path) -> None:
    """Refuse a picture of a kind that we do not write.

    Raises:
        EventformersError: the suffix is unknown.
    """
    if output.suffix.lower() not in SUFFIXES:
        raise EventformersError(
            f"{output}: found the suffix {shown(output.suffix)}; accepted: {' or '.join(SUFFIXES)}"
        )


def write_figure(figure: Figure, output: Path) -> None:
    """Write a figure whole or not at all, equal figures as equal bytes."""
    output.parent.mkdir(parents=True, exist_ok=True)
    kind = output.suffix.lower().removeprefix(".")
    temporary = temporary_beside(output)
    metadata = {"Date": None} if kind == "svg" else {"Software": None}
    try:
        with matplotlib.rc_context({"svg.hashsalt": "eventformers"}):
            figure.savefig(temporary, format=kind, dpi=200, metadata=metadata)
        temporary.replace(output)
    finally:
        temporary.unlink(missing_ok=True)
