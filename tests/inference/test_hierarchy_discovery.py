"""Discovery by sparse matrices equals the loop over pairs of sets of mentions."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from eventformers.inference.grounding.hierarchy_discovery import DiscoveredHierarchy, discover_hierarchy

WAR = ["landing", "siege", "war", "strike", "lone"]
LANDING, SIEGE, WAR_ITSELF, STRIKE, _ = range(5)
CANDIDATES = np.array(
    [
        [LANDING, WAR_ITSELF, -1],
        [WAR_ITSELF, LANDING, SIEGE],
        [SIEGE, WAR_ITSELF, -1],
        [WAR_ITSELF, -1, -1],
        [STRIKE, LANDING, STRIKE],
        [-1, -1, -1],
    ]
)


@pytest.fixture
def hierarchy() -> DiscoveredHierarchy:
    return discover_hierarchy(WAR, CANDIDATES)


def slow_scores(event_ids: list[str], candidates: np.ndarray) -> dict[tuple[str, str], float]:
    """h of all pairs of different events, by sets; none for events without a mention."""
    mentions = {
        event_id: {mention for mention, row in enumerate(candidates.tolist()) if event in row}
        for event, event_id in enumerate(event_ids)
    }
    return {
        (child, parent): len(mentions[child] & mentions[parent]) / len(mentions[child])
        for child, parent in product(event_ids, event_ids)
        if child != parent and mentions[child]
    }


def slow_ranks(
    scores: dict[tuple[str, str], float], event_ids: list[str], child: str, gold: set[str]
) -> tuple[float, float]:
    """The rank of the first gold parent, with ties in the order of the ids and against it."""
    others = [event_id for event_id in event_ids if event_id != child]
    if (child, others[0]) not in scores or not gold & set(others):
        return np.inf, np.inf
    by_id = sorted(others, key=lambda parent: (-scores[child, parent], parent))
    against = sorted(others, key=lambda parent: (-scores[child, parent], parent in gold))
    return tuple(1 + min(order.index(parent) for parent in gold & set(others)) for order in (by_id, against))


def test_scores_by_hand(hierarchy: DiscoveredHierarchy) -> None:
    assert hierarchy.mentions.tolist() == [3, 2, 4, 1, 0]
    found = hierarchy.parents()
    told = [
        (WAR[child], WAR[parent], score, shared)
        for child, parent, score, shared in zip(*(column.tolist() for column in found), strict=True)
    ]
    assert told == [
        ("landing", "war", pytest.approx(2 / 3), 2),
        ("landing", "siege", pytest.approx(1 / 3), 1),
        ("landing", "strike", pytest.approx(1 / 3), 1),
        ("siege", "war", 1.0, 2),
        ("siege", "landing", 0.5, 1),
        ("war", "landing", 0.5, 2),
        ("war", "siege", 0.5, 2),
        ("strike", "landing", 1.0, 1),
    ]


def test_ranks_by_hand(hierarchy: DiscoveredHierarchy) -> None:
    found = hierarchy.ranks(
        {
            "landing": ["strike"],  # ties with siege, whose id is before
            "siege": {"landing", "war"},  # the first of both
            "war": ["lone", "strike"],  # two without a shared mention, behind two with some
            "strike": ["war"],  # level with lone and siege
            "lone": ["war"],  # without a mention
            "elsewhere": ["war"],
            "strike again": ["war"],
        }
    )
    assert found.ranks.tolist() == [3, 1, 3, 4, np.inf, np.inf, np.inf]
    assert found.pessimistic.tolist() == [3, 1, 3, 4, np.inf, np.inf, np.inf]
    assert (found.tied, found.unlinked, found.unknown_parents) == (2, 3, 0)


def test_a_tie_is_put_in_the_order_of_the_ids_or_against_the_gold_parent(
    hierarchy: DiscoveredHierarchy,
) -> None:
    found = hierarchy.ranks({"landing": ["siege"], "strike": ["lone"]})
    assert found.ranks.tolist() == [2, 2]
    assert found.pessimistic.tolist() == [3, 4]
    assert found.tied == 2


def test_a_parent_that_is_no_event_is_counted(hierarchy: DiscoveredHierarchy) -> None:
    found = hierarchy.ranks({"landing": ["elsewhere"], "siege": ["elsewhere", "war"]})
    assert found.ranks.tolist() == [np.inf, 1]
    assert (found.unlinked, found.unknown_parents) == (0, 1)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_loop_over_pairs_of_sets(seed: int) -> None:
    draw = np.random.default_rng(seed)
    event_ids = [f"Q{number}" for number in draw.permutation(40)]
    candidates = draw.integers(-1, 30, size=(60, 4))
    found = discover_hierarchy(event_ids, candidates)
    scores = slow_scores(event_ids, candidates)
    parents = found.parents()
    told = {
        (event_ids[child], event_ids[parent]): score
        for child, parent, score in zip(parents.children, parents.parents, parents.scores, strict=True)
    }
    assert told == {pair: score for pair, score in scores.items() if score}
    gold = {
        child: set(draw.choice([one for one in event_ids if one != child], draw.integers(1, 4)))
        for child in event_ids
    }
    ranks = found.ranks(gold)
    slow = [slow_ranks(scores, event_ids, child, parents) for child, parents in gold.items()]
    assert ranks.ranks.tolist() == [rank for rank, _ in slow]
    assert ranks.pessimistic.tolist() == [rank for _, rank in slow]
    assert ranks.unlinked == np.isinf(ranks.ranks).sum() == 40 - len({child for child, _ in scores})


def test_no_mention_finds_nothing() -> None:
    found = discover_hierarchy(["a", "b"], np.empty((0, 4), dtype=np.int64))
    assert not len(found.parents().children)
    assert found.ranks({"a": ["b"]}).unlinked == 1
