"""The losses of hierarchical event grounding again, in plain Python on lists of floats, pair by pair.

Written from the paper's equations, not from the tensor code, and sharing nothing with it.
"""

from __future__ import annotations

import math

Vector = list[float]
Matrix = list[list[float]]


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def slow_gold_pairs(ids: list[int], gold_ids: list[list[int]]) -> list[list[bool]]:
    """Whether an event is in the set of a row."""
    return [[number in set(golden) - {-1} for number in ids] for golden in gold_ids]


def slow_candidate_loss(
    scores: Matrix,
    gold: list[list[bool]],
    present: list[list[bool]] | None = None,
) -> float:
    """Cross-entropy of a sigmoid for every candidate that is there."""
    losses = [
        -math.log(_sigmoid(score) if gold[i][j] else 1 - _sigmoid(score))
        for i, row in enumerate(scores)
        for j, score in enumerate(row)
        if present is None or present[i][j]
    ]
    return sum(losses) / len(losses)


def slow_linking_loss(
    mentions: Matrix,
    events: Matrix,
    gold: list[list[bool]],
    normalise: bool = False,
    scale: float = 1.0,
    bias: float = 0.0,
) -> float:
    """The same of dot products, or of cosines."""
    if normalise:
        mentions, events = (
            [[value / math.sqrt(sum(other**2 for other in row)) for value in row] for row in rows]
            for rows in (mentions, events)
        )
    scores = [
        [scale * sum(a * b for a, b in zip(mention, event, strict=True)) + bias for event in events]
        for mention in mentions
    ]
    return slow_candidate_loss(scores, gold)


def slow_candidate_contrast(scores: Matrix, gold: list[list[bool]], present: list[list[bool]]) -> float:
    """Each gold candidate against the wrong ones, written out; those that are not there are left out."""
    means = []
    for of_mention, golden, there in zip(scores, gold, present, strict=True):
        kept = [
            (math.exp(score), is_gold)
            for score, is_gold, is_there in zip(of_mention, golden, there, strict=True)
            if is_there
        ]
        wrong = sum(value for value, is_gold in kept if not is_gold)
        terms = [-math.log(value / (value + wrong)) for value, is_gold in kept if is_gold]
        if terms:
            means.append(sum(terms) / len(terms))
    return sum(means) / len(means) if means else 0.0


def slow_linking_contrast(
    mentions: Matrix,
    events: Matrix,
    gold: list[list[bool]],
    distinct: list[bool],
    normalise: bool = False,
    scale: float = 1.0,
) -> float:
    """The contrast of products or cosines; an event's further places are left out."""

    def score(mention: list[float], event: list[float]) -> float:
        lengths = math.hypot(*mention) * math.hypot(*event) if normalise else 1.0
        return scale * sum(a * b for a, b in zip(mention, event, strict=True)) / lengths

    scores = [[score(mention, event) for event in events] for mention in mentions]
    return slow_candidate_contrast(scores, gold, [distinct] * len(mentions))


def slow_hierarchy_score(
    parents_real: Matrix,
    parents_imag: Matrix,
    children_real: Matrix,
    children_imag: Matrix,
    relation: Vector,
    relation_real: Vector | None = None,
) -> Matrix:
    """The real part of the Hermitian product of relation, child and conjugated parent."""
    real = relation_real or [0.0] * len(relation)
    numbers = [complex(*parts) for parts in zip(real, relation, strict=True)]
    parents, children = (
        [
            [complex(*parts) for parts in zip(*row, strict=True)]
            for row in zip(reals, imaginaries, strict=True)
        ]
        for reals, imaginaries in ((parents_real, parents_imag), (children_real, children_imag))
    )
    return [
        [
            sum(r * c * p.conjugate() for r, c, p in zip(numbers, child, parent, strict=True)).real
            for child in children
        ]
        for parent in parents
    ]


def slow_hierarchy_loss(scores: Matrix, is_child: list[list[bool]]) -> float:
    """Eq. 4 parent by parent, with - log sigmoid(-s) for a pair that is none."""
    total = 0.0
    for row, children in zip(scores, is_child, strict=True):
        for score, belongs in zip(row, children, strict=True):
            total -= math.log(_sigmoid(score if belongs else -score))
    return total / len(scores)
