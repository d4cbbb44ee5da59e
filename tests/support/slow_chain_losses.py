"""MulCL's losses again, in plain Python on lists of floats, row by row: what the tensor code must give.

Written from the paper's equations, not from the tensor code, and sharing nothing with it.
"""

from __future__ import annotations

import math

from slow_losses import Matrix, Vector, _cosine, _minus_log_share

Graph = list[Matrix]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _reading(loss: float, literal_ratio: bool) -> float:
    """The loss with the log, or the negative ratio as printed."""
    return -math.exp(-loss) if literal_ratio else loss


def slow_chain_contrast(
    anchor: Matrix,
    positive: Matrix,
    corrupted: list[Matrix],
    temperature: float,
    corrupted_mask: list[list[bool]] | None = None,
    literal_ratio: bool = False,
) -> float:
    """Eq. 3 and 4: a chain beside its other view and its corruptions."""
    losses = []
    for i, chain in enumerate(anchor):
        rivals = [
            _cosine(chain, other) / temperature
            for j, other in enumerate(corrupted[i])
            if corrupted_mask is None or corrupted_mask[i][j]
        ]
        loss = _minus_log_share(_cosine(chain, positive[i]) / temperature, rivals)
        losses.append(_reading(loss, literal_ratio))
    return _mean(losses)


def slow_composition_contrast(
    anchor: Matrix,
    segments: list[Matrix],
    corrupted: list[list[Matrix]],
    temperature: float,
    segment_mask: list[list[bool]] | None = None,
    corrupted_mask: list[list[list[bool]]] | None = None,
    literal_ratio: bool = False,
) -> float:
    """Eq. 5: a chain beside each of its segments and the segment's corruptions."""
    chains = []
    for i, chain in enumerate(anchor):
        losses = []
        for j, segment in enumerate(segments[i]):
            if segment_mask is not None and not segment_mask[i][j]:
                continue
            rivals = [
                _cosine(chain, other) / temperature
                for k, other in enumerate(corrupted[i][j])
                if corrupted_mask is None or corrupted_mask[i][j][k]
            ]
            loss = _minus_log_share(_cosine(chain, segment) / temperature, rivals)
            losses.append(_reading(loss, literal_ratio))
        chains.append(_mean(losses))
    return _mean(chains)


def slow_normal_corrupted_contrast(
    readout: list[Vector],
    nodes: Graph,
    corrupted: list[Graph],
    temperature: float,
    node_mask: list[list[bool]] | None = None,
    literal_ratio: bool = False,
) -> float:
    """Eq. 12 for a batch of graphs: the share of a graph's own nodes."""
    losses = []
    for c, graph in enumerate(readout):
        own = others = 0.0
        for k, node in enumerate(nodes[c]):
            if node_mask is None or node_mask[c][k]:
                own += math.exp(_cosine(graph, node) / temperature)
                others += sum(math.exp(_cosine(graph, view[k]) / temperature) for view in corrupted[c])
        losses.append(_reading(-math.log(own / (own + others)), literal_ratio))
    return _mean(losses)


def slow_corrupted_corrupted_contrast(
    views: list[Graph],
    temperature: float,
    node_mask: list[list[bool]] | None = None,
    literal_ratio: bool = False,
) -> float:
    """Eq. 13 for a batch of graphs: a node beside itself in another view, and the other nodes of both."""
    graphs = []
    for c, graph in enumerate(views):
        places = [k for k in range(len(graph[0])) if node_mask is None or node_mask[c][k]]
        losses = []
        for i in range(len(graph)):
            for j in range(len(graph)):
                if i == j:
                    continue
                for k in places:
                    rivals = [
                        _cosine(graph[i][k], graph[view][other]) / temperature
                        for other in places
                        if other != k
                        for view in (i, j)
                    ]
                    own = _cosine(graph[i][k], graph[j][k]) / temperature
                    losses.append(_reading(_minus_log_share(own, rivals), literal_ratio))
        graphs.append(_mean(losses))
    return _mean(graphs)


def slow_word_prediction(
    queries: list[Matrix],
    vocabulary: Matrix,
    words: list[list[int]],
    temperature: float,
    predicts: list[list[list[bool]]] | None = None,
) -> list[float]:
    """Eq. 15, one factor: each query tells each word of its event from all words of other events."""
    events = []
    for b, own in enumerate(words):
        losses = []
        for q, query in enumerate(queries[b]):
            scores = [_cosine(query, word) / temperature for word in vocabulary]
            rivals = [score for word, score in enumerate(scores) if word not in own]
            for w, word in enumerate(own):
                if word >= 0 and (predicts is None or predicts[b][q][w]):
                    losses.append(_minus_log_share(scores[word], rivals))
        events.append(_mean(losses))
    return events


def slow_mean_cosine(
    nodes: list[Matrix], candidates: Matrix | list[Matrix], node_mask: list[list[bool]] | None = None
) -> Matrix:
    """Mean cosine of each candidate with the nodes of a context."""
    shared = not isinstance(candidates[0][0], list)
    return [
        [
            _mean(
                [
                    _cosine(node, candidate)
                    for i, node in enumerate(context)
                    if node_mask is None or node_mask[b][i]
                ]
            )
            for candidate in (candidates if shared else candidates[b])
        ]
        for b, context in enumerate(nodes)
    ]


def slow_event_prediction(
    context: list[Matrix],
    candidates: Matrix,
    target: list[int],
    temperature: float,
    context_mask: list[list[bool]] | None = None,
    left_out: list[list[bool]] | None = None,
) -> list[float]:
    """Eq. 16, one factor: the left-out event among all candidates that are not left out."""
    losses = []
    for b, scores in enumerate(slow_mean_cosine(context, candidates, context_mask)):
        if context_mask is not None and not any(context_mask[b]):
            losses.append(0.0)
            continue
        rivals = [
            score / temperature
            for place, score in enumerate(scores)
            if place != target[b] and (left_out is None or not left_out[b][place])
        ]
        losses.append(_minus_log_share(scores[target[b]] / temperature, rivals))
    return losses


def slow_neighbour_prediction(
    to_next: list[Matrix],
    to_previous: list[Matrix],
    candidates: Matrix,
    events: list[list[int]],
    temperature: float,
    left_out: list[list[bool]] | None = None,
) -> list[float]:
    """Eq. 16: every event predicts the next and the previous one; the factors at the borders are 1."""
    losses = []
    for b, padded in enumerate(events):
        chain = [event for event in padded if event >= 0]
        total = 0.0
        for i in range(len(chain)):
            for queries, neighbour in ((to_next, i + 1), (to_previous, i - 1)):
                if 0 <= neighbour < len(chain):
                    own = None if left_out is None else [left_out[b]]
                    total += slow_event_prediction(
                        [[queries[b][i]]], candidates, [chain[neighbour]], temperature, None, own
                    )[0]
        losses.append(total / len(chain))
    return losses
