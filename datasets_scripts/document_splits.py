"""Train, validation and test by document, and random draws that depend on a seed and a name alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from eventformers.datasets_scripts.events import Event

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class DocumentSplits:
    """Which split a document belongs to.

    The place of a document depends on its id, the shares and the seed; not on other documents, on the order
    of files or on the process. A larger share takes documents from train only.

    Args:
        validation_share: the expected share of documents in validation, 0 to 1.
        test_share: the expected share of documents in test, 0 to 1.
        seed: the seed of the hash.
    """

    validation_share: float
    test_share: float
    seed: int

    @property
    def names(self) -> tuple[str, ...]:
        """The splits with a share above 0, in the order of `SPLITS`."""
        train_share = 1 - self.validation_share - self.test_share
        shares = (train_share, self.validation_share, self.test_share)
        # A train share such as 1 - 0.9 - 0.1 is not exactly 0.
        return tuple(split for split, share in zip(SPLITS, shares, strict=True) if share > 1e-9)

    def split_of(self, document_id: str) -> str:
        """The split of a document."""
        fraction = name_hash(self.seed, document_id) / 2**64
        if fraction < self.test_share:
            return "test"
        return "validation" if fraction >= 1 - self.validation_share else "train"


def name_hash(*parts: object) -> int:
    """64 bits that depend on the parts alone, the same in every process and version."""
    text = "\x1f".join(map(str, parts))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


class RepeatedDocuments:
    """Which documents tell the same events as another.

    Of documents with equal events one is no repeat, whichever comes first. Two numbers a document are held.
    """

    def __init__(self) -> None:
        self._first: dict[int, int] = {}

    def add(self, document_id: str, events: Sequence[Event]) -> None:
        """Take note of a document."""
        content, place = _content_hash(events), name_hash(document_id)
        self._first[content] = min(place, self._first.get(content, place))

    def is_repeat(self, document_id: str, events: Sequence[Event]) -> bool:
        """Whether another document that was added has these events and stands for them."""
        place = name_hash(document_id)
        return self._first.get(_content_hash(events), place) != place


def _content_hash(events: Sequence[Event]) -> int:
    return name_hash(*(text for event in events for text in event.values()))


class SeededDraws:
    """Uniform draws that depend on the parts it is made of alone.

    `random.Random.random` is the one draw of the standard library whose sequence is promised to stay.
    """

    def __init__(self, *parts: object) -> None:
        self._random = random.Random(name_hash(*parts))  # noqa: S311 - no secret depends on it

    def below(self, number: int) -> int:
        """A whole number from 0 to `number - 1`."""
        return int(self._random.random() * number)
