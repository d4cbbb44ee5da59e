"""Example sentences of frames, each with the definition of its frame, drawn beside mentions in training."""

from __future__ import annotations

import logging
from typing import NamedTuple

import numpy as np
from datasets import Dataset, IterableDataset

from eventformers.datasets_scripts.frame_reader import frame_descendants
from eventformers.errors import EventformersError

_BLOCK_ROWS = 10_000

logger = logging.getLogger(__name__)


class FrameExample(NamedTuple):
    """A sentence that evokes a frame.

    Attributes:
        sentence: the sentence.
        definition: the definition of its frame.
        frame_id: number of the frame.
    """

    sentence: str
    definition: str
    frame_id: int


class FrameExamples(NamedTuple):
    """The frames with a definition and examples.

    Attributes:
        definitions: the definition of each frame.
        sentences: its examples.
        left_out: number of frames left out because mentions without a known type evoke them, or a frame from
            which they inherit.
    """

    definitions: list[str]
    sentences: list[list[str]]
    left_out: int

    def draw(self, generator: np.random.Generator) -> FrameExample:
        """Draw a frame, then one of its examples, each with equal probability."""
        number = int(generator.integers(len(self.definitions)))
        sentences = self.sentences[number]
        return FrameExample(
            sentences[int(generator.integers(len(sentences)))], self.definitions[number], number
        )

    def counts(self) -> dict[str, int]:
        """Numbers for the card."""
        return {
            "frames_with_examples": len(self.definitions),
            "frame_examples": sum(map(len, self.sentences)),
            "frames_of_unseen_types_left_out": self.left_out,
        }


def frame_examples(frames: Dataset, mentions: Dataset | IterableDataset) -> FrameExamples:
    """Collect the examples from which training may learn.

    The frames of mentions that are not `seen`, and all frames that inherit from them, are left out: linking
    the types of these mentions is to be scored on frames whose examples the encoder does not know.

    Args:
        frames: rows of `EventTypes`, config `frames`.
        mentions: rows of its config `mentions` or `ace2005`.

    Raises:
        EventformersError: no frame with a definition and an example is left.
    """
    below, unseen, without = frame_descendants(frames), set[str](), 0
    for block in mentions.select_columns(["seen", "frames"]).iter(_BLOCK_ROWS):
        for seen, names in zip(block["seen"], block["frames"], strict=True):
            if not seen:
                unseen.update(names)
                without += not names
    strange = unseen.difference(frames["name"])
    if without or strange:
        logger.warning(
            "examples of frames that unseen types evoke may be among the training examples: %d unseen "
            "mentions name no frame, and %d frames of the others are not among the %d frames",
            *(without, len(strange), len(frames)),
        )
    unseen.update(*(below.get(name, ()) for name in unseen))
    # A dataset that an earlier version built lacks the column.
    known = [frame for frame in frames if frame["definition"] and frame.get("examples")]
    kept = [frame for frame in known if frame["name"] not in unseen]
    if not kept:
        all_unseen = ", all of them frames of unseen types" if known else ""
        raise EventformersError(
            "frame_example_weight needs frames with a definition and examples; found "
            f"{len(known):,} among {len(frames):,} frames{all_unseen}; "
            "accepted: frame_example_weight=0, or as the setting frames FrameNet's folder or a dataset built "
            "from it by this version"
        )
    return FrameExamples(
        [frame["definition"] for frame in kept],
        [frame["examples"] for frame in kept],
        len(known) - len(kept),
    )
