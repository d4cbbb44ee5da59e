"""Discovery of parent-child relations between events that share mentions.

M_e are the mentions with the event e among their first candidates (four in the paper). A mention linked to an
event should also be linked to its parent, so that

    h(i, j) = |M_i ∩ M_j| / |M_i|

is high if j is the parent of i (Ou et al., 2023, section 5.3, equation 5). The intersections of all pairs
are one product of sparse matrices.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from eventformers.inference.encoding.vectors import Positions

DEPTH = 4
"""Number of first candidates of a mention that count as linked to it (Ou et al., 2023, section 6.3)."""


class Parents(NamedTuple):
    """Found parents: one entry for each pair of child and parent, child by child, best first.

    Attributes:
        children: positions of the children, `(pairs,)`.
        parents: positions of their parents, `(pairs,)`.
        scores: h(child, parent), in (0, 1], `(pairs,)`.
        shared: number of mentions of both, `(pairs,)`.
    """

    children: Positions
    parents: Positions
    scores: NDArray[np.float64]
    shared: Positions


class ParentRanks(NamedTuple):
    """Rank of each child's gold parent among all other events, from 1.

    The best of several gold parents counts. An infinite rank is a miss at every depth.

    Attributes:
        ranks: ranks with ties ordered by id, `(children,)`.
        pessimistic: ranks with the gold parent after all events that tie with it, `(children,)`.
        tied: number of children whose gold parent ties with another event.
        unlinked: number of children that are not a candidate of any mention; their ranks are infinite.
        unknown_parents: number of children with mentions but without a gold parent among the events; their
            ranks are infinite.
    """

    ranks: NDArray[np.float64]
    pessimistic: NDArray[np.float64]
    tied: int
    unlinked: int
    unknown_parents: int


@dataclass(frozen=True)
class DiscoveredHierarchy:
    """The mentions that events share.

    Attributes:
        mentions: |M_e| of each event, `(events,)`.
        shared: |M_i ∩ M_j| of each pair of different events that share a mention, `(events, events)`.
    """

    event_ids: list[str]
    mentions: Positions
    shared: csr_array

    def parents(self, *, lowest: float = 0.0) -> Parents:
        """Return the parents of each event, with a score of at least `lowest`, among those that share a
        mention with it, likeliest first."""
        pairs = self.shared.tocoo()
        children, parents = (axis.astype(np.int64) for axis in pairs.coords)
        scores = pairs.data / self.mentions[children]
        order = np.lexsort((self._id_order[parents], -pairs.data, children))
        order = order[scores[order] >= lowest]
        return Parents(children[order], parents[order], scores[order], pairs.data[order].astype(np.int64))

    def ranks(self, gold_parents: Mapping[str, Collection[str]]) -> ParentRanks:
        """Compute the ranks of gold parents by h, in the order of the children.

        Args:
            gold_parents: the ids of the parents of each child, by its id: at least one, and other events.
        """
        position = {event_id: place for place, event_id in enumerate(self.event_ids)}
        ranks = np.full((2, len(gold_parents)), np.inf)
        tied = unlinked = unknown_parents = 0
        for place, (child_id, parent_ids) in enumerate(gold_parents.items()):
            child = position.get(child_id)
            gold = [position[parent_id] for parent_id in set(parent_ids) if parent_id in position]
            if child is None or not self.mentions[child]:
                unlinked += 1
            elif not gold:
                unknown_parents += 1
            else:
                above, level, before = self._count(child, np.array(gold))
                ranks[:, place] = 1 + above + before, 1 + above + level
                tied += level > 0
        return ParentRanks(ranks[0], ranks[1], tied, unlinked, unknown_parents)

    def _count(self, child: int, gold: Positions) -> tuple[int, int, int]:
        """Count events above the best gold parent, those tied with it, and tied events with a smaller id."""
        of_child = slice(*self.shared.indptr[child : child + 2])
        others, shared = self.shared.indices[of_child], self.shared.data[of_child]
        of_gold = np.zeros(len(gold), dtype=np.int64)
        known = np.isin(others, gold)
        by_event = dict(zip(others[known].tolist(), shared[known].tolist(), strict=True))
        of_gold[:] = [by_event.get(event, 0) for event in gold.tolist()]
        highest = of_gold.max()
        first = self._id_order[gold[of_gold == highest]].min()
        others, shared = others[~known], shared[~known]
        if highest:
            level = self._id_order[others[shared == highest]]
            return int(np.sum(shared > highest)), len(level), int(np.sum(level < first))
        # All events without a shared mention tie, except the child and its gold parents.
        left_out = self._id_order[np.concatenate(([child], gold, others))]
        level_events = len(self.event_ids) - len(left_out)
        return len(others), level_events, int(first - np.sum(left_out < first))

    @cached_property
    def _id_order(self) -> Positions:
        """Return the position of each event in the order of the ids."""
        order = np.empty(len(self.event_ids), dtype=np.int64)
        by_id = sorted(range(len(self.event_ids)), key=self.event_ids.__getitem__)
        order[by_id] = np.arange(len(by_id))
        return order


def discover_hierarchy(event_ids: Sequence[str], candidates: Positions) -> DiscoveredHierarchy:
    """Count the mentions that events share.

    Args:
        candidates: the first candidates of each mention as positions in `event_ids`, -1 for none, `(mentions,
            k)`; a repeated event counts once.
    """
    mentions, _ = there = np.nonzero(candidates >= 0)
    linked = coo_array(
        (np.ones(len(mentions), dtype=np.int32), (candidates[there], mentions)),
        shape=(len(event_ids), len(candidates)),
    ).tocsr()
    # The matrix has summed repeated entries.
    linked.data[:] = 1
    shared = (linked @ linked.T).tocsr()
    counts = shared.diagonal().astype(np.int64)
    shared.setdiag(0)
    shared.eliminate_zeros()
    return DiscoveredHierarchy(list(event_ids), counts, shared)
