"""The answer to the latest question, kept so that tasks on the same rows do not compute it again."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from hashlib import blake2b
from typing import Generic, TypeVar

Answer = TypeVar("Answer")


class LatestAnswer(Generic[Answer]):
    """Keeps one answer: that to the latest question.

    A question is answered as a whole or not at all: batches depend on what is asked for together, and the
    last bits of a vector on its batch, so that parts of another answer would not be what a fresh one is.
    """

    def __init__(self) -> None:
        self._question: Hashable = None
        self._answer: Answer | None = None

    def ask(self, question: Hashable) -> Answer | None:
        """The answer, where this was the latest question; otherwise None, and the latest answer is forgotten.

        Args:
            question: all that decides the answer to the last bit.
        """
        if question != self._question:
            # Now, so that two answers never lie in memory together.
            self._question, self._answer = question, None
        return self._answer

    def keep(self, answer: Answer) -> None:
        """Keep the answer to the latest question."""
        self._answer = answer

    def forget(self) -> None:
        """Keep nothing."""
        self._question = self._answer = None


def digest_of(parts: Iterable[object]) -> bytes:
    """Stands for a long list of texts, or of tuples of texts or numbers: 32 bytes of a hash."""
    digest = blake2b(digest_size=32)
    for part in parts:
        # What repr writes has no line break of its own.
        digest.update(f"{part!r}\n".encode())
    return digest.digest()
