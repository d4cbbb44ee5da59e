"""Train, validation and test by document, draws that depend only on a seed and a name, and distinct ids."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from eventformers.datasets_scripts.events import Event

SPLITS = ("train", "validation", "test")
SPLIT_WORDS = {**{split: split for split in SPLITS}, **dict.fromkeys(("dev", "valid", "val"), "validation")}
"""The split of a file with a word in its name."""


@dataclass(frozen=True)
class DocumentSplits:
    """Assignment of documents to splits.

    The split of a document depends only on its id, the shares and the seed; not on other documents, the order
    of files or the process. A larger share only takes documents from train.

    Args:
        validation_share: expected share of documents in validation, 0 to 1.
        test_share: expected share of documents in test, 0 to 1.
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
    """Hash parts to 64 bits, the same in every process and version."""
    text = "\x1f".join(map(str, parts))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def text_id(*parts: object) -> int:
    """Hash parts to 63 bits, which a tensor of integers holds; see `name_hash`."""
    return name_hash(*parts) >> 1


class RepeatedDocuments:
    """Documents that repeat the events of another document.

    Of documents with equal events exactly one is not a repeat, whatever their order. Memory holds two numbers
    for each document.
    """

    def __init__(self) -> None:
        self._first: dict[int, int] = {}

    def add(self, document_id: str, events: Sequence[Event]) -> None:
        """Record a document."""
        content, place = content_hash(events), name_hash(document_id)
        self._first[content] = min(place, self._first.get(content, place))

    def is_repeat(self, document_id: str, events: Sequence[Event]) -> bool:
        """True if another recorded document has the same events and represents them."""
        place = name_hash(document_id)
        return self._first.get(content_hash(events), place) != place


def content_hash(events: Sequence[Event]) -> int:
    """A number that equal events share."""
    return name_hash(*(text for event in events for text in event.values()))


class SeededDraws:
    """Uniform draws that depend only on the given parts.

    `random.Random.random` is the one draw of the standard library whose sequence is guaranteed to stay the
    same.
    """

    def __init__(self, *parts: object) -> None:
        self._random = random.Random(name_hash(*parts))  # noqa: S311 - no secret depends on it

    def below(self, number: int) -> int:
        """Draw an integer from 0 to `number - 1`."""
        return int(self._random.random() * number)


class DistinctIds:
    """Gives each repeat of an id a new one that no other has: `a`, `a#2`, `a#3`.

    Args:
        mark: what stands before the number.

    Attributes:
        repeats: number of ids that were replaced.
    """

    def __init__(self, mark: str = "#") -> None:
        self._mark = mark
        self._numbers: dict[str, int] = {}
        self.repeats = 0

    def of(self, identifier: str) -> str:
        """Return the id, or a new one if it is taken."""
        distinct = identifier
        while distinct in self._numbers:
            self._numbers[identifier] += 1
            distinct = f"{identifier}{self._mark}{self._numbers[identifier]}"
        self._numbers[distinct] = 1
        self.repeats += distinct != identifier
        return distinct
