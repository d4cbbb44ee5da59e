"""Votes of near premises of a graph for their known alternatives, to rank alternatives.

A query's nearest known premises vote for their alternatives; nearer premises have larger votes. The votes act
in two ways. The mean vector of the alternatives with votes moves the query's vector (query expansion after
Rocchio, 1971), which also raises alternatives without a vote. Each vote also adds to a score. Nothing is
trained.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse

from eventformers.inference.encoding.vectors import Positions, Vectors
from eventformers.inference.search.vector_search import nearest

_BLOCK_QUERIES = 1024


class Votes(NamedTuple):
    """Settings for the effect of the nearest known premises on the scores of alternatives.

    The defaults were tuned on CN-82K-Ind with a trained all-MiniLM-L6-v2 (docs/notes/mico.md). A temperature
    of 0.2 suits the untrained encoder better, as its nearest premises have lower cosines.

    Attributes:
        neighbours: number of premises that vote.
        temperature: a premise's vote is exp((cosine - 1) / temperature), which is 1 if it equals the query.
        expansion: weight of the unit vector of the alternatives with votes when it is added to the query's
            vector, before normalisation; 0 leaves the query unchanged.
        weight: added to an alternative's cosine for each vote of 1; 0 adds nothing.
    """

    neighbours: int = 256
    temperature: float = 0.05
    expansion: float = 0.67
    weight: float = 0.5


VOTES = Votes()
"""The measured settings."""


def neighbour_votes(
    cosines: Vectors,
    neighbours: Positions,
    offsets: Positions,
    known: Positions,
    num_alternatives: int,
    temperature: float,
) -> sparse.csr_array:
    """Compute the votes of each query's neighbours, `(Q, A)`, sparse, without duplicate or negative entries.

    Args:
        cosines: `(Q, K)`, of each query with its nearest known premises.
        neighbours: `(Q, K)`, positions of those premises.
        offsets: `(P + 1,)`; the alternatives of premise p stand at `known[offsets[p]:offsets[p + 1]]`.
        known: positions of alternatives, distinct within a premise.
        num_alternatives: A.
        temperature: a premise's vote is exp((cosine - 1) / temperature).
    """
    votes = np.exp((cosines.astype(np.float64) - 1) / temperature)
    number, of_each = votes.shape
    ends = np.arange(0, number * of_each + 1, of_each)
    by_premise = sparse.csr_array((votes.ravel(), neighbours.ravel(), ends), shape=(number, len(offsets) - 1))
    answers = sparse.csr_array(
        (np.ones(len(known)), known, offsets), shape=(len(offsets) - 1, num_alternatives)
    )
    votes_of_alternatives = by_premise @ answers
    votes_of_alternatives.sort_indices()
    return votes_of_alternatives


def expanded(queries: Vectors, votes: sparse.csr_array, alternatives: Vectors, expansion: float) -> Vectors:
    """Move queries, `(Q, d)`, towards the alternatives, `(A, d)`, with votes, `(Q, A)`, by a step of the
    length `expansion`.

    Queries and alternatives have the length 1, as has the result; a query without votes does not change.
    """
    voted = votes @ alternatives
    moved = queries + expansion * _unit(voted)
    return _unit(moved).astype(np.float32)


def voted_ranking(
    premises: Vectors,
    known_premises: Vectors,
    offsets: Positions,
    known: Positions,
    alternatives: Vectors,
    settings: Votes,
) -> tuple[Vectors, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]:
    """Let known premises vote on the ranking of many queries; all vectors are normalised.

    Args:
        premises: `(Q, d)`, of the queries.
        known_premises: `(P, d)`, of the premises that vote. They must not come from the ranked split, whose
            alternatives are the answers.
        offsets: see `neighbour_votes`, like `known`.
        alternatives: `(A, d)`, of the candidates.

    Returns:
        The expanded vectors of the queries' premises, `(Q, d)`, and a function that adds the votes to a block
        of cosines, in place: arguments for `rank_by_cosine`.
    """
    neighbours = min(settings.neighbours, len(known_premises))
    cosines, positions = nearest(known_premises, premises, neighbours)

    def votes_of(rows: slice | Positions) -> sparse.csr_array:
        return neighbour_votes(
            cosines[rows], positions[rows], offsets, known, len(alternatives), settings.temperature
        )

    moved = np.empty_like(premises, dtype=np.float32)
    for start in range(0, len(premises), _BLOCK_QUERIES):
        block = slice(start, start + _BLOCK_QUERIES)
        moved[block] = expanded(premises[block], votes_of(block), alternatives, settings.expansion)

    def add_votes(rows: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        votes = votes_of(rows.cpu().numpy()).tocoo()
        at_row, at_column = (
            torch.from_numpy(part.astype(np.int64)).to(scores.device) for part in votes.coords
        )
        values = torch.from_numpy(settings.weight * votes.data).to(scores)
        # No entry occurs twice, so plain assignment is safe.
        scores[at_row, at_column] += values
        return scores

    return moved, add_votes


def _unit(vectors: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Scale vectors to length 1; zero vectors do not change."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)
