"""The losses again, in plain Python on lists of floats, row by row: what the tensor code must give.

Written from the papers' equations, not from the tensor code, and sharing nothing with it.
"""

from __future__ import annotations

import math
import statistics

Vector = list[float]
Matrix = list[list[float]]


def _cosine(left: Vector, right: Vector) -> float:
    product = sum(a * b for a, b in zip(left, right, strict=True))
    return product / math.sqrt(sum(a * a for a in left)) / math.sqrt(sum(b * b for b in right))


def _minus_log_share(chosen: float, others: Vector) -> float:
    total = math.exp(chosen) + sum(math.exp(other) for other in others)
    return -math.log(math.exp(chosen) / total)


def _softmax(values: Vector) -> Vector:
    total = sum(math.exp(value) for value in values)
    return [math.exp(value) / total for value in values]


def slow_info_nce(
    anchor: Matrix,
    positive: Matrix,
    temperature: float,
    negatives: Matrix | list[Matrix] | None = None,
) -> float:
    """SWCC Eq. 3: in-batch negatives, or those given for each row or for all."""
    total = 0.0
    for i in range(len(anchor)):
        if negatives is None:
            others = [positive[k] for k in range(len(positive)) if k != i]
        elif isinstance(negatives[0][0], list):
            others = negatives[i]  # type: ignore[assignment]
        else:
            others = negatives  # type: ignore[assignment]
        total += _minus_log_share(
            _cosine(anchor[i], positive[i]) / temperature,
            [_cosine(anchor[i], other) / temperature for other in others],
        )
    return total / len(anchor)


def slow_shared_word_contrast(
    anchor: Matrix,
    positive: Matrix,
    negatives: list[Matrix],
    temperature: float,
    weight: Vector | None = None,
) -> float:
    """A positive without shared words against the other anchors and every row's negatives."""
    total = 0.0
    for i, a in enumerate(anchor):
        own = math.exp(_cosine(a, positive[i]) / temperature)
        rivals = [other for j, other in enumerate(anchor) if j != i]
        rivals += [negative for row in negatives for negative in row]
        loss = -math.log(own / (own + sum(math.exp(_cosine(a, r) / temperature) for r in rivals)))
        total += loss if weight is None else weight[i] * loss
    return total / len(anchor)


def slow_feature_distillation(vectors: Matrix, targets: Matrix, mask: list[bool] | None) -> float:
    """Squared distance of unit vectors, as twice one minus their cosine."""
    counted = mask or [True] * len(vectors)
    kept = [2 - 2 * _cosine(a, b) for a, b, counts in zip(vectors, targets, counted, strict=True) if counts]
    return statistics.mean(kept) if kept else 0.0


def slow_margin_contrast(anchor: Matrix, positive: Matrix, negative: Matrix, margin: float) -> float:
    """Margin loss on cosines."""
    total = 0.0
    for a, p, n in zip(anchor, positive, negative, strict=True):
        total += max(0.0, margin - _cosine(a, p) + _cosine(a, n))
    return total / len(anchor)


def slow_weakly_supervised_contrastive(
    anchor: Matrix,
    view_1: Matrix,
    view_2: Matrix,
    co_event: Matrix,
    co_event_weight: Vector,
    temperature: float,
) -> float:
    """SWCC Eq. 6, each positive's weight outside its log."""
    total = 0.0
    for i in range(len(anchor)):
        first = [_cosine(anchor[i], view) / temperature for view in view_1]
        second = [_cosine(anchor[i], view) / temperature for view in view_2]
        other_first = first[:i] + first[i + 1 :]
        other_second = second[:i] + second[i + 1 :]
        co_score = _cosine(anchor[i], co_event[i]) / temperature
        total += 0.5 * _minus_log_share(first[i], other_first)
        total += 0.5 * _minus_log_share(second[i], other_second)
        total += co_event_weight[i] * _minus_log_share(co_score, other_first)
    return total / len(anchor)


def slow_multi_alternative_contrast(
    premise: Matrix,
    alternatives: list[Matrix],
    temperature: float,
    known_positives: list[list[list[bool]]] | None = None,
    chosen: list[int] | None = None,
    own_alternatives: str = "excluded",
) -> float:
    """MICO Eq. 5 and 6: the hardest of a row's alternatives against all alternatives of the other rows."""
    total = 0.0
    for i, anchor in enumerate(premise):
        own = [_cosine(anchor, alternative) for alternative in alternatives[i]]
        place = own.index(min(own)) if chosen is None else chosen[i]
        rivals = []
        for j, others in enumerate(alternatives):
            for o, other in enumerate(others):
                if j == i:
                    if o != place and own_alternatives == "zero_logit":
                        rivals.append(0.0)
                elif known_positives is None or not known_positives[i][j][o]:
                    rivals.append(_cosine(anchor, other) / temperature)
        total += _minus_log_share(own[place] / temperature, rivals)
    return total / len(premise)


def slow_sinkhorn(scores: Matrix, num_iterations: int = 3, epsilon: float = 0.05) -> Matrix:
    """Sinkhorn-Knopp on the transport plan: total mass 1, prototypes to 1/M, samples to 1/B, times B."""
    samples, prototypes = len(scores), len(scores[0])
    plan = [[math.exp(value / epsilon) for value in row] for row in scores]
    mass = sum(sum(row) for row in plan)
    plan = [[value / mass for value in row] for row in plan]
    for _ in range(num_iterations):
        for m in range(prototypes):
            column = sum(plan[b][m] for b in range(samples))
            for b in range(samples):
                plan[b][m] /= column * prototypes
        for b in range(samples):
            row = sum(plan[b])
            for m in range(prototypes):
                plan[b][m] /= row * samples
    return [[value * samples for value in row] for row in plan]


def slow_cluster_prediction(
    view_1: Matrix,
    view_2: Matrix,
    prototypes: Matrix,
    temperature: float,
    num_iterations: int = 3,
    epsilon: float = 0.05,
) -> float:
    """SWCC Eq. 7: each view's soft assignment is the target of the other view's softmax."""
    logits_1 = [[_cosine(view, centre) / temperature for centre in prototypes] for view in view_1]
    logits_2 = [[_cosine(view, centre) / temperature for centre in prototypes] for view in view_2]
    targets_1 = slow_sinkhorn(logits_1, num_iterations, epsilon)
    targets_2 = slow_sinkhorn(logits_2, num_iterations, epsilon)
    total = 0.0
    for i in range(len(view_1)):
        for target, probability in zip(targets_1[i], _softmax(logits_2[i]), strict=True):
            total -= target * math.log(probability)
        for target, probability in zip(targets_2[i], _softmax(logits_1[i]), strict=True):
            total -= target * math.log(probability)
    return total / len(view_1)


def slow_prototype_entropy(vectors: Matrix, prototypes: Matrix, temperature: float) -> float:
    """Mean entropy of the softmax over prototypes."""
    total = 0.0
    for vector in vectors:
        probabilities = _softmax([_cosine(vector, centre) / temperature for centre in prototypes])
        total -= sum(probability * math.log(probability) for probability in probabilities)
    return total / len(vectors)
