"""Frames with their definitions and inheritance, to which clusters of mentions are linked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from eventformers.datasets_scripts.frame_reader import frame_descendants
from eventformers.datasets_scripts.loading import load_built
from eventformers.errors import EventformersError


class Frames(NamedTuple):
    """Frames to link to.

    Attributes:
        names: their names.
        definitions: their definitions, which the model encodes.
        descendants: the frames that inherit from each, directly and through others.
        left_out: frames without a definition, which cannot be linked.
    """

    names: list[str]
    definitions: list[str]
    descendants: dict[str, set[str]]
    left_out: int


def load_frames(data: str | Path | None) -> Frames:
    """Load frames with their definitions and inheritance.

    Args:
        data: raw files, a built folder or a Hub id of `EventTypes`, config `frames`; None uses the samples.

    Raises:
        EventformersError: the frames cannot be loaded, or none has a definition.
    """
    rows = [row for split in load_built(data, "frames", builder="event_types").values() for row in split]
    return defined_frames(rows, str(data))


def defined_frames(rows: Sequence[Mapping[str, Any]], place: str = "the data") -> Frames:
    """Select the frames that have a definition.

    Args:
        rows: rows of `EventTypes`, config `frames`.
        place: their source, for errors.

    Raises:
        EventformersError: none has a definition.
    """
    defined = [row for row in rows if row["definition"].strip()]
    if not defined:
        raise EventformersError(f"{place}: found no frame with a definition; accepted: at least one")
    return Frames(
        names=[row["name"] for row in defined],
        definitions=[row["definition"] for row in defined],
        descendants=frame_descendants(rows),
        left_out=len(rows) - len(defined),
    )


def valid_frames(mapped: Iterable[str], descendants: Mapping[str, Collection[str]]) -> set[str]:
    """Return the correct frames for a type: the frames it maps to and their descendants.

    Args:
        mapped: the frames of the type.
        descendants: the descendants of each frame.
    """
    found = set(mapped)
    return found.union(*(descendants.get(name, ()) for name in found))
