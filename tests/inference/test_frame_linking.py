"""Linking clusters to frames: by definitions, with all descendants as valid targets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from eventformers.errors import EventformersError
from eventformers.inference.induction.type_naming import (
    Frames,
    label_cosines,
    label_ranks,
    load_frames,
    name_clusters,
    valid_frames,
)

NAMES = ["Attack", "Besieging", "Birth"]
FRAMES = Frames(NAMES, [f"about {name}" for name in NAMES], {"Attack": {"Besieging"}, "Act": {*NAMES[:2]}}, 0)
VECTORS = np.array([[0, 1], [1, 0], [3, 4]], dtype=np.float32)
CENTROIDS = np.array([[1.0, 0.0], [0.0, 1.0]])


def test_nearest_definitions_first() -> None:
    linked = name_clusters(CENTROIDS, FRAMES.names, VECTORS, top=2)
    assert [[frame.label for frame in frames] for frames in linked] == [
        ["Besieging", "Birth"],
        ["Attack", "Birth"],
    ]
    assert linked[0][1].score == pytest.approx(0.6)


def test_descendants_are_valid_targets() -> None:
    assert valid_frames(["Act", "Birth"], FRAMES.descendants) == {"Act", *NAMES}
    assert valid_frames([], FRAMES.descendants) == set()
    cosines = label_cosines(CENTROIDS, VECTORS, NAMES)
    for mapped, ranks in ((("Attack", "Besieging"), [1, 3]), (("Unknown", "Birth"), [float("inf"), 2])):
        valid = [valid_frames([frame], FRAMES.descendants) for frame in mapped]
        assert label_ranks(cosines, NAMES, valid) == ranks


def test_loads_frames_and_counts_those_without_a_definition(tmp_path: Path) -> None:
    file = tmp_path / "frames.jsonl"
    lines = [
        '{"name": "Act", "definition": "Somebody acts.", "parents": []}',
        '{"name": "Attack", "definition": "", "parents": ["Act"]}',
        '{"name": "Raid", "definition": "A raid.", "parents": ["Attack"]}',
    ]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    frames = load_frames(file)
    assert frames.names == ["Act", "Raid"]
    assert frames.left_out == 1
    assert frames.descendants["Act"] == {"Attack", "Raid"}
    file.write_text(lines[1] + "\n", encoding="utf-8")
    with pytest.raises(EventformersError, match="no frame with a definition"):
        load_frames(file)


def test_all_frames_of_the_public_file(shared_data: Path) -> None:
    frames = load_frames(shared_data / "framenet" / "frames.jsonl")
    assert len(frames.names) + frames.left_out == 1221
    assert "Besieging" in frames.descendants["Attack"]
