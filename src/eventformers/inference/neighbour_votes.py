"""Votes of a graph's neighbours: what near premises are known to be completed by, for re-ranking."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from eventformers.errors import EventformersError

Vectors = npt.NDArray[np.float32]
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class VoteSettings:
    """How much the nearest known premises add to the score of their alternatives.

    Attributes:
        neighbours: number of premises that vote.
        temperature: a premise's vote is exp((cosine - 1) / temperature): 1 where it equals the query.
        weight: added to an alternative's cosine for a vote of 1.

    Raises:
        EventformersError: a value out of its range.
    """

    neighbours: int = 64
    temperature: float = 0.05
    weight: float = 0.2

    def __post_init__(self) -> None:
        if self.neighbours < 1 or self.temperature <= 0 or self.weight < 0:
            raise EventformersError(
                f"received {self}; accepted: neighbours of 1 or more, a temperature above 0 and a weight of "
                "0 or more"
            )


def neighbour_votes(
    cosines: Vectors,
    neighbours: Positions,
    offsets: Positions,
    known: Positions,
    num_alternatives: int,
    settings: VoteSettings,
) -> sparse.csr_array:
    """What neighbours add to the scores of alternatives.

    Args:
        cosines: `(Q, K)`, of each query with its nearest known premises.
        neighbours: `(Q, K)`, positions of those premises.
        offsets: `(P + 1,)`; the alternatives of premise p stand at `known[offsets[p]:offsets[p + 1]]`.
        known: positions of alternatives, distinct within a premise.
        num_alternatives: A.
        settings: temperature and weight.

    Returns:
        `(Q, A)`, sparse, never negative.
    """
    votes = np.exp((cosines.astype(np.float64) - 1) / settings.temperature) * settings.weight
    counts = offsets[neighbours + 1] - offsets[neighbours]
    flat = counts.ravel()
    starts = np.cumsum(flat) - flat
    within = np.arange(flat.sum()) - np.repeat(starts, flat)
    columns = known[np.repeat(offsets[neighbours].ravel(), flat) + within]
    rows = np.repeat(np.arange(len(cosines)), counts.sum(axis=1))
    values = np.repeat(votes.ravel(), flat).astype(np.float32)
    return sparse.coo_array((values, (rows, columns)), shape=(len(cosines), num_alternatives)).tocsr()
