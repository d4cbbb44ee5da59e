"""Each distinct input of a list is encoded once."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Sequence
from hashlib import blake2b

import numpy as np

from eventformers.inference.encoding.arrays import Positions, Vectors
from eventformers.inference.encoding.event_inputs import TokenRow


class DistinctRows:
    """The distinct inputs of a list, and the rows of each.

    Args:
        keys: identity of the input in each row.

    Attributes:
        number: number of rows.
        distinct: the distinct keys, in the order of their first occurrence.
        counts: number of rows of each.
        known: pairs of positions among `distinct`: a key, and an earlier one with the same tokens.
    """

    def __init__(self, keys: Sequence[Hashable]) -> None:
        index: dict[Hashable, int] = {}
        inverse = np.fromiter(
            (index.setdefault(key, len(index)) for key in keys), dtype=np.int64, count=len(keys)
        )
        self.number = len(keys)
        self.distinct = list(index)
        self.counts = np.bincount(inverse, minlength=len(index))
        self.known: list[tuple[int, int]] = []
        self._rows = np.argsort(inverse, kind="stable")
        self._starts = np.cumsum(self.counts) - self.counts
        self._first_with_tokens: dict[bytes, int] = {}

    def with_new_tokens(self, start: int, token_rows: list[TokenRow]) -> Positions:
        """Return the positions, in the block from `start`, of distinct texts with new tokens."""
        new = []
        for position, ids in enumerate(token_rows, start=start):
            # A digest, since the token ids of all texts may need more memory than their vectors.
            digest = blake2b(array("q", ids).tobytes(), digest_size=16).digest()
            first = self._first_with_tokens.setdefault(digest, position)
            if first == position:
                new.append(position - start)
            else:
                self.known.append((position, first))
        return np.asarray(new, dtype=np.int64)

    def copy_known(self, vectors: Vectors) -> None:
        """Copy an earlier text's vector to the texts with the same tokens."""
        for position, first in self.known:
            row = self._rows[self._starts[first]]
            self.scatter(np.asarray([position]), vectors[row : row + 1], vectors)

    def scatter(self, positions: Positions, encoded: Vectors, vectors: Vectors) -> None:
        """Write the vector of each given distinct text to all of its rows."""
        counts = self.counts[positions]
        ends = np.cumsum(counts)
        within = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
        rows = self._rows[np.repeat(self._starts[positions], counts) + within]
        vectors[rows] = np.repeat(encoded, counts, axis=0)
