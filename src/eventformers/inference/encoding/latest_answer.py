"""Cache of one answer, so that tasks on the same rows do not compute it again."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from hashlib import blake2b
from typing import Any


class LatestAnswer:
    """A cache of the answer to the latest question.

    Parts of an answer are never reused: batches depend on the whole question, and the last bits of a vector
    depend on its batch, so reuse would change results.
    """

    def __init__(self) -> None:
        self._question: Hashable = None
        self._answer: Any = None

    def ask(self, question: Hashable) -> Any:
        """Return the answer if this was the latest question; otherwise drop the answer and return None.

        Args:
            question: everything that affects the answer, down to the last bit.
        """
        if question != self._question:
            # Dropped before the next answer is computed, so that memory never holds two answers.
            self._question, self._answer = question, None
        return self._answer

    def keep(self, answer: object) -> None:
        """Store the answer to the latest question."""
        self._answer = answer

    def forget(self) -> None:
        """Drop the stored answer."""
        self._question = self._answer = None


def digest_of(parts: Iterable[object]) -> bytes:
    """Return a 32-byte hash of a list of texts, or of tuples of texts or numbers."""
    digest = blake2b(digest_size=32)
    for part in parts:
        # repr escapes line breaks, so a line break separates keys.
        digest.update(f"{part!r}\n".encode())
    return digest.digest()
