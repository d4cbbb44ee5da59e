"""The losses of event type induction again, in plain Python on lists of floats, pair by pair.

Written from the paper's equations, not from the tensor code, and sharing nothing with it.
"""

from __future__ import annotations

import math

from slow_grounding_losses import Matrix, Vector, _sigmoid


def _dot(left: Vector, right: Vector) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def slow_pair_targets(type_ids: list[int], unseen_diagonal: bool = True) -> list[list[list[bool]]]:
    """Y by one-hot vectors of seen types, and what is not u."""
    seen = sorted({number for number in type_ids if number >= 0})
    one_hot = [[number == other for other in seen] for number in type_ids]
    targets, known = [], []
    for i, left in enumerate(one_hot):
        targets.append([i == j or _dot(left, right) > 0 for j, right in enumerate(one_hot)])
        known.append(
            [any(left) or any(right) or (unseen_diagonal and i == j) for j, right in enumerate(one_hot)]
        )
    return [targets, known]


def slow_masked_pair_loss(
    query: Matrix,
    key: Matrix,
    type_ids: list[int],
    margin: float,
    bias: float = 0.0,
    unseen_diagonal: bool = True,
) -> float:
    """Cross-entropy of a sigmoid for every pair that neither mask takes out."""
    targets, known = slow_pair_targets(type_ids, unseen_diagonal)
    total = 0.0
    for i, q in enumerate(query):
        for j, k in enumerate(key):
            probability = _sigmoid(_dot(q, k) / math.sqrt(len(q)) + bias)
            if not known[i][j] or (not targets[i][j] and probability < margin):
                continue
            total -= math.log(probability if targets[i][j] else 1 - probability)
    return total / len(query) ** 2


def slow_frame_contrast(
    examples: Matrix, definitions: Matrix, frame_ids: list[int], temperature: float
) -> float:
    """A softmax for each sentence over the definitions of its own and of other frames, and the reverse."""

    def cosine(left: Vector, right: Vector) -> float:
        return _dot(left, right) / math.sqrt(_dot(left, left) * _dot(right, right))

    total = 0.0
    for anchors, others in ((examples, definitions), (definitions, examples)):
        for i, anchor in enumerate(anchors):
            weights = [
                math.exp(cosine(anchor, other) / temperature)
                for j, other in enumerate(others)
                if i == j or frame_ids[i] != frame_ids[j]
            ]
            total -= math.log(math.exp(cosine(anchor, others[i]) / temperature) / sum(weights))
    return total / (2 * len(frame_ids))


def slow_type_alignment(clustered: Matrix, targets: Matrix, seen: list[bool]) -> float:
    """One minus the cosine, for seen rows."""
    total = 0.0
    for left, right, is_seen in zip(clustered, targets, seen, strict=True):
        if is_seen:
            total += 1 - _dot(left, right) / math.sqrt(_dot(left, left) * _dot(right, right))
    return total / len(clustered)


def slow_batch_attention(query: Matrix, key: Matrix, embeddings: Matrix) -> Matrix:
    """Each row a mean of all rows, by the softmax of its scaled dot products."""
    clustered = []
    for q in query:
        weights = [math.exp(_dot(q, k) / math.sqrt(len(q))) for k in key]
        shares = [weight / sum(weights) for weight in weights]
        clustered.append([_dot(shares, list(column)) for column in zip(*embeddings, strict=True)])
    return clustered


def slow_log_absence(scores: list[Matrix], token_mask: list[list[bool]]) -> Matrix:
    """The product, over the tokens, of how improbable each class is."""
    absences = []
    for tokens, mask in zip(scores, token_mask, strict=True):
        absent = [1.0] * (len(tokens[0]) - 1)
        for token, is_there in zip(tokens, mask, strict=True):
            if is_there:
                total = sum(math.exp(score) for score in token)
                absent = [
                    value * (total - math.exp(score)) / total
                    for value, score in zip(absent, token, strict=False)
                ]
        absences.append([math.log(value) for value in absent])
    return absences


def slow_noisy_or_loss(absence: Matrix, present: list[list[bool]]) -> float:
    """Cross-entropy of each sentence and class."""
    total = 0.0
    for row, told in zip(absence, present, strict=True):
        for value, is_present in zip(row, told, strict=True):
            total -= math.log(1 - math.exp(value)) if is_present else value
    return total / len(absence)
