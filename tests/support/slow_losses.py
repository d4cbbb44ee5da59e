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
