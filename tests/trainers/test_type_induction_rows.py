"""Examples of frames that training may learn from."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from datasets import Dataset

from eventformers.errors import EventformersError
from eventformers.trainers.type_induction_rows import FrameExamples, frame_examples

FRAMES = (
    ("Act", [], ["She acted."]),
    ("Attack", ["Act"], ["They attacked.", "He was hit."]),
    ("Raid", ["Attack"], ["They raided it."]),
    ("Trade", ["Act"], ["They traded."]),
    ("Unexplained", ["Act"], ["It was so."]),
    ("Unexampled", ["Act"], []),
)


def frames_of(rows: tuple[tuple[str, list[str], list[str]], ...] = FRAMES) -> Dataset:
    columns = [
        {
            "name": name,
            "parents": parents,
            "examples": examples,
            "definition": "" if name == "Unexplained" else f"Definition of {name}.",
        }
        for name, parents, examples in rows
    ]
    return Dataset.from_list(columns)


def mentions_of(*told: tuple[bool, list[str]]) -> Dataset:
    return Dataset.from_dict({"seen": [seen for seen, _ in told], "frames": [names for _, names in told]})


def test_frames_of_unseen_types_and_their_descendants_are_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    mentions = mentions_of(
        (True, ["Trade"]), (False, ["Attack"]), (False, []), (False, ["Unexplained", "Nowhere"])
    )
    for rows in (mentions, mentions.to_iterable_dataset()):
        found = frame_examples(frames_of(), rows)
        assert found == FrameExamples(
            ["Definition of Act.", "Definition of Trade."], [["She acted."], ["They traded."]], 2
        )
        assert found.counts() == {
            "frames_with_examples": 2,
            "frame_examples": 2,
            "frames_of_unseen_types_left_out": 2,
        }
    told = "1 unseen mentions name no frame, and 1 frames of the others are not among the 6 frames"
    assert caplog.text.count(told) == 2
    caplog.clear()
    frame_examples(frames_of(), mentions_of((True, []), (False, ["Attack"])))
    assert not caplog.text


@pytest.mark.parametrize(
    ("frames", "mentions", "message"),
    [
        (FRAMES[5:], [(True, [])], r"found 0 among 1 frames; accepted: frame_example_weight=0, or"),
        (None, [(True, [])], r"found 0 among 6 frames; accepted: .* a dataset built from it by this version"),
        (FRAMES[1:3], [(False, ["Attack"])], r"found 2 among 2 frames, all of them frames of unseen types;"),
    ],
)
def test_no_example_is_left(
    frames: tuple[tuple[str, list[str], list[str]], ...] | None,
    mentions: list[tuple[bool, list[str]]],
    message: str,
) -> None:
    """There is none, or only of unseen types, or the dataset is of a version without examples."""
    rows = frames_of().remove_columns("examples") if frames is None else frames_of(frames)
    with pytest.raises(EventformersError, match=message):
        frame_examples(rows, mentions_of(*mentions))


def test_every_frame_is_as_likely() -> None:
    """However many examples it has."""
    examples = frame_examples(frames_of(), mentions_of())
    drawn = [examples.draw(np.random.default_rng(seed)) for seed in range(2000)]
    assert examples.draw(np.random.default_rng(3)) == drawn[3]
    frames = Counter(example[2] for example in drawn)
    assert sorted(frames) == [f"Definition of {name}." for name in ("Act", "Attack", "Raid", "Trade")]
    assert all(420 < number < 580 for number in frames.values())
    attacks = Counter(example for example in drawn if example[0] == 1)
    sentences = ("They attacked.", "He was hit.")
    assert set(attacks) == {(1, text, "Definition of Attack.") for text in sentences}
    assert all(number > 180 for number in attacks.values())
