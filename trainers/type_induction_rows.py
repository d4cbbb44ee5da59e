"""Training rows of event type induction: mentions of seen and unseen types, and examples of frames."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow.compute as pc
import torch
from datasets import Dataset, IterableDataset
from torch.utils.data import Dataset as TorchDataset

from eventformers.datasets_scripts.frame_reader import frame_descendants
from eventformers.datasets_scripts.known_pairs import Codes, codes_of, grouped, text_column
from eventformers.errors import EventformersError
from eventformers.models.mention_tokens import Mention
from eventformers.models.type_losses import UNSEEN
from eventformers.trainers.method import indexed_stream

BATCH_SIZE = 64
_CHOOSING_MENTIONS = 5_000
"""Maximum number of mentions of unseen types that choose the checkpoint: 0.6 GB for the distances of all
pairs."""

BLOCK_ROWS = 10_000

logger = logging.getLogger(__name__)


class MentionRows(TorchDataset):
    """Mentions with the number of a seen type; labels of unseen types are dropped.

    Args:
        mentions: rows of `EventTypes`, config `mentions` or `ace2005`.
        reads_trigger: whether the input marks the trigger.
        reads_sentence_types: whether a row has the types of its sentence.

    Attributes:
        seen_types: the seen types in alphabetical order; a type's place is its number.
        type_ids: number of each mention's type, `(rows,)`; -1 for an unseen type.
        num_unseen_types: number of unseen types.
    """

    def __init__(
        self, mentions: Dataset, *, reads_trigger: bool = False, reads_sentence_types: bool = False
    ) -> None:
        self._mentions = mentions.select_columns(_mention_columns(reads_trigger))
        table = mentions.select_columns(["event_type", "seen"]).with_format("arrow")[:]
        names, is_seen = text_column(table, "event_type"), table.column("seen").combine_chunks()
        seen = names.filter(is_seen).unique().sort()
        self.seen_types: list[str] = seen.to_pylist()
        # Only choosing a checkpoint uses unseen labels, and only their number.
        unseen = names.filter(pc.and_not(pc.not_equal(names, ""), is_seen))
        self.num_unseen_types = pc.count_distinct(unseen).as_py()
        is_unseen = ~is_seen.to_numpy(zero_copy_only=False)
        self.type_ids = np.where(is_unseen, UNSEEN, codes_of(names, seen))
        self._sentence_types: tuple[Codes, Codes, Codes] | None = None
        if reads_sentence_types:
            texts = text_column(mentions.select_columns(["text"]).with_format("arrow")[:], "text")
            sentences = texts.dictionary_encode()
            numbers = sentences.indices.to_numpy().astype(np.int64)
            # Each unseen type is the entry after the seen ones.
            types = np.where(is_unseen, len(seen), self.type_ids)
            self._sentence_types = (
                numbers,
                *grouped(numbers, types, len(sentences.dictionary), len(seen) + 1),
            )

    def __len__(self) -> int:
        return len(self._mentions)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        """Return the mention of a row, its type and, if they are read, the types of its sentence.

        `sentence_types` is `(seen types + 1,)` bool; the last entry is any unseen type.
        """
        [mention] = self.mentions([index])
        row = {"row": index, "mention": mention, "type_id": int(self.type_ids[index])}
        if self._sentence_types is None:
            return row
        numbers, starts, types = self._sentence_types
        start, end = starts[numbers[index] : numbers[index] + 2]
        of_sentence = torch.zeros(len(self.seen_types) + 1, dtype=torch.bool)
        of_sentence[types[start:end]] = True
        return {**row, "sentence_types": of_sentence}

    def mentions(self, places: Sequence[int] | Codes) -> list[Mention]:
        """Return the mentions of rows."""
        return [Mention(*row) for row in zip(*self._mentions[places].values(), strict=True)]

    def batches(self) -> Iterator[list[Mention]]:
        """Yield all mentions in batches."""
        for start in range(0, len(self), BATCH_SIZE):
            yield self.mentions(range(start, min(start + BATCH_SIZE, len(self))))

    def unseen(self) -> list[Mention]:
        """Return mentions of unseen types: all, or `_CHOOSING_MENTIONS` evenly spaced ones with a warning."""
        rows = np.flatnonzero(self.type_ids == UNSEEN)
        if len(rows) <= _CHOOSING_MENTIONS:
            return self.mentions(rows)
        logger.warning(
            "%d evenly spaced ones of %d mentions of unseen types choose the checkpoint, since their "
            "clustering needs the distances of all pairs",
            _CHOOSING_MENTIONS,
            len(rows),
        )
        places = np.linspace(0, len(rows) - 1, _CHOOSING_MENTIONS).round().astype(np.int64)
        return self.mentions(rows[places])


def _mention_columns(reads_trigger: bool) -> list[str]:
    return ["text", *(["trigger_start", "trigger_end"] if reads_trigger else [])]


def streamed_mentions(
    mentions: IterableDataset, seed: int, *, reads_trigger: bool = False
) -> tuple[IterableDataset, list[str]]:
    """Make the rows of `MentionRows` from a stream, after one pass over the types.

    Returns:
        The endless stream of rows, and the seen types in alphabetical order.
    """
    seen: set[str] = set()
    types = mentions.select_columns(["event_type", "seen"]).with_format("arrow")
    for table in types.iter(BLOCK_ROWS):
        names = text_column(table, "event_type").filter(table.column("seen").combine_chunks())
        seen.update(names.unique().to_pylist())
    # `sort` of Arrow compares UTF-8, and so code points, as Python does.
    seen_types = sorted(seen)
    numbers = {name: number for number, name in enumerate(seen_types)}
    columns = _mention_columns(reads_trigger)

    def row_of(row: Mapping[str, Any]) -> dict[str, Any]:
        type_id = numbers[row["event_type"]] if row["seen"] else UNSEEN
        return {"mention": Mention(*(row[name] for name in columns)), "type_id": type_id}

    read = mentions.select_columns([*columns, "event_type", "seen"])
    rows = indexed_stream(read, seed).map(row_of, remove_columns=[*columns, "event_type", "seen"])
    return rows, seen_types


class FrameExamples(NamedTuple):
    """The frames with a definition and examples.

    Attributes:
        left_out: number of frames left out because mentions without a known type evoke them, or a frame from
            which they inherit.
    """

    definitions: list[str]
    sentences: list[list[str]]
    left_out: int

    def draw(self, generator: np.random.Generator) -> tuple[int, str, str]:
        """Draw a frame, then one of its examples, each with equal probability: the number of the frame, the
        example, and the frame's definition."""
        number = int(generator.integers(len(self.definitions)))
        sentences = self.sentences[number]
        return number, sentences[int(generator.integers(len(sentences)))], self.definitions[number]

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
    for block in mentions.select_columns(["seen", "frames"]).iter(BLOCK_ROWS):
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
