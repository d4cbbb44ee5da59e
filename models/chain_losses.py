"""MulCL's losses: contrasts of event chains and of their graphs, and prediction.

Pure functions of tensors, like all losses; `losses.py` lists them all, and says what they return.
"""

import torch
from torch.nn import functional

from .similarities import (
    cosine,
    cosine_among,
    cosine_with_one,
    far_below,
    in_full_precision,
    masked_mean,
    without,
)


def _minus_log(log_share: torch.Tensor, literal_ratio: bool) -> torch.Tensor:
    """Minus the log of a ratio, or minus the ratio itself, as MulCL prints Eq. 3 to 5, 12 and 13."""
    return -log_share.exp() if literal_ratio else -log_share


def _log_share_of_positive(
    anchor: torch.Tensor,
    positive: torch.Tensor,
    corrupted: torch.Tensor,
    temperature: float,
    corrupted_mask: torch.Tensor | None,
) -> torch.Tensor:
    """Log softmax of a positive among itself and its corruptions: `(..., D)` and `(..., N, D)` to `(...)`."""
    own = functional.cosine_similarity(anchor, positive, dim=-1).unsqueeze(-1) / temperature
    others = cosine(anchor.unsqueeze(-2), corrupted).squeeze(-2) / temperature
    absent = None if corrupted_mask is None else ~corrupted_mask
    return functional.log_softmax(torch.cat([own, without(others, absent)], dim=-1), dim=-1)[..., 0]


@in_full_precision
def chain_contrast(
    anchor: torch.Tensor,
    positive: torch.Tensor,
    corrupted: torch.Tensor,
    temperature: float,
    corrupted_mask: torch.Tensor | None = None,
    *,
    literal_ratio: bool = False,
) -> torch.Tensor:
    """MulCL's order and replacement contrast (Eq. 3 and 4), with the log that the paper leaves out.

    Args:
        anchor: chains, `(B, D)`.
        positive: the same chains under another dropout mask, `(B, D)`.
        corrupted: N corruptions of each chain, `(B, N, D)`.
        temperature: divides every cosine.
        corrupted_mask: `(B, N)`, True for a real corruption, False for padding; None if there is no padding.
            A chain without corruptions adds 0.
        literal_ratio: omit the log, as printed.
    """
    log_share = _log_share_of_positive(anchor, positive, corrupted, temperature, corrupted_mask)
    return _minus_log(log_share, literal_ratio).mean()


@in_full_precision
def composition_contrast(
    anchor: torch.Tensor,
    segments: torch.Tensor,
    corrupted: torch.Tensor,
    temperature: float,
    segment_mask: torch.Tensor | None = None,
    corrupted_mask: torch.Tensor | None = None,
    *,
    literal_ratio: bool = False,
) -> torch.Tensor:
    """MulCL's composition contrast (Eq. 5), with the log, averaged over the segments of a chain.

    Args:
        anchor: chains, `(B, D)`.
        segments: S segments of each chain, `(B, S, D)`.
        corrupted: N corruptions of each segment, `(B, S, N, D)`.
        temperature: divides every cosine.
        segment_mask: `(B, S)`, True for a real segment, False for padding; None if there is no padding. A
            chain without segments adds 0.
        corrupted_mask: `(B, S, N)`, True for a real corruption, False for padding; None if there is no
            padding.
        literal_ratio: omit the log, as printed.
    """
    log_share = _log_share_of_positive(
        anchor.unsqueeze(1).expand_as(segments), segments, corrupted, temperature, corrupted_mask
    )
    return masked_mean(_minus_log(log_share, literal_ratio), segment_mask, dims=(-1,)).mean()


@in_full_precision
def normal_corrupted_contrast(
    readout: torch.Tensor,
    nodes: torch.Tensor,
    corrupted: torch.Tensor,
    temperature: float,
    node_mask: torch.Tensor | None = None,
    *,
    literal_ratio: bool = False,
) -> torch.Tensor:
    """MulCL's normal-corrupted contrast (Eq. 12), with the log: the share of a graph's own nodes in the sum.

    Leading dimensions are the graphs of a batch, each padded to V nodes.

    Args:
        readout: the graph's vector, `(..., D)`.
        nodes: its nodes, `(..., V, D)`.
        corrupted: the nodes of G corrupted views of it, `(..., G, V, D)`.
        temperature: divides every cosine.
        node_mask: `(..., V)`, True for a node and false for padding; None if nothing is padded.
        literal_ratio: omit the log, as printed.

    Returns:
        Mean over the graphs, a scalar; log(G + 1) if all similarities are equal.
    """
    own = cosine_with_one(readout, nodes) / temperature
    others = cosine_with_one(readout, corrupted.flatten(-3, -2)) / temperature
    if node_mask is not None:
        own = own.masked_fill(~node_mask, float("-inf"))
        absent = ~node_mask.unsqueeze(-2).expand(corrupted.shape[:-1]).flatten(-2)
        others = others.masked_fill(absent, float("-inf"))
    own_sum = own.logsumexp(dim=-1)
    total = torch.logaddexp(own_sum, others.logsumexp(dim=-1))
    return _minus_log(own_sum - total, literal_ratio).mean()


@in_full_precision
def corrupted_corrupted_contrast(
    views: torch.Tensor,
    temperature: float,
    node_mask: torch.Tensor | None = None,
    *,
    literal_ratio: bool = False,
) -> torch.Tensor:
    """MulCL's corrupted-corrupted contrast (Eq. 13), read as GCA's loss over every pair of views.

    The positive of a node is the same node in another view; its negatives are all other nodes of both views.
    Leading dimensions are the graphs of a batch, each padded to V nodes.

    Args:
        views: the nodes of G corrupted views of a graph, `(..., G, V, D)`.
        temperature: divides every cosine.
        node_mask: `(..., V)`, True for a node and false for padding; None if nothing is padded.
        literal_ratio: omit the log, as printed.

    Returns:
        Mean over nodes, pairs of views and both directions, then over the graphs, a scalar; log(2V - 1) if
        all similarities are equal, 0 for a graph of one node.

    Raises:
        ValueError: there are fewer than two views.
    """
    num_views, num_nodes = views.shape[-3:-1]
    if num_views < 2:
        raise ValueError(f"found {num_views} corrupted view(s) of a graph; accepted: at least 2")
    logits = cosine_among(views.flatten(-3, -2)) / temperature
    left_out = torch.eye(num_views * num_nodes, dtype=torch.bool, device=views.device)
    if node_mask is not None:
        absent = ~node_mask.unsqueeze(-2).expand(views.shape[:-1]).flatten(-2)
        left_out = left_out | absent.unsqueeze(-1)
    logits = logits.masked_fill(left_out, far_below(logits))
    # (..., i, l, j, k): node l of view i with node k of view j.
    logits = logits.unflatten(-1, (num_views, num_nodes)).unflatten(-3, (num_views, num_nodes))
    # All below is (..., i, j, k). The sum over the nodes of another view contains the positive. The sum over
    # the nodes of the same view, where i equals j, leaves out the node itself.
    positive = torch.diagonal(logits, dim1=-3, dim2=-1)
    sums = logits.logsumexp(dim=-3)
    of_own = torch.diagonal(sums, dim1=-3, dim2=-2).transpose(-1, -2)
    terms = _minus_log(positive - torch.logaddexp(sums, of_own.unsqueeze(-3)), literal_ratio)
    same_view = torch.eye(num_views, dtype=torch.bool, device=views.device)
    counted = ~same_view.unsqueeze(-1)
    if node_mask is not None:
        counted = counted & node_mask[..., None, None, :]
    return masked_mean(terms, counted.expand_as(terms), dims=(-3, -2, -1)).mean()


@in_full_precision
def word_prediction(
    queries: torch.Tensor,
    vocabulary: torch.Tensor,
    words: torch.Tensor,
    temperature: float,
    predicts: torch.Tensor | None = None,
) -> torch.Tensor:
    """Prediction of an event's words, a factor of MulCL's word-level loss (Eq. 15).

    Each query of an event predicts each word of the event out of the vocabulary. The other words of the event
    are not negatives.

    Args:
        queries: the nodes that predict, `(B, Q, D)`: the event, or its words.
        vocabulary: vectors of all words, `(U, D)`.
        words: indexes of the event's words in the vocabulary, `(B, W)`; padded with -1.
        temperature: divides every cosine.
        predicts: `(B, Q, W)`, True if that query predicts that word; None if every query predicts every word.

    Returns:
        For each event the mean over its pairs of query and word, `(B,)`; 0 for an event without pairs.
    """
    present = words >= 0
    places = words.clamp(min=0)
    logits = cosine(queries, vocabulary) / temperature
    is_own = torch.zeros(len(words), len(vocabulary) + 1, dtype=torch.bool, device=words.device)
    is_own = is_own.scatter(1, torch.where(present, places, len(vocabulary)), value=True)[:, :-1]
    others = logits.masked_fill(is_own.unsqueeze(1), far_below(logits)).logsumexp(dim=-1, keepdim=True)
    own = logits.gather(2, places.unsqueeze(1).expand(-1, queries.shape[1], -1))
    predicts = present.unsqueeze(1).expand_as(own) if predicts is None else predicts & present.unsqueeze(1)
    return masked_mean(functional.softplus(others - own), predicts, dims=(-2, -1))


@in_full_precision
def mean_cosine(
    nodes: torch.Tensor, candidates: torch.Tensor, node_mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Mean cosine of each candidate with the nodes of a context.

    Args:
        nodes: `(B, n, D)`.
        candidates: `(B, k, D)`, or `(U, D)` for candidates shared by all contexts.
        node_mask: `(B, n)`, True for a node and false for padding; None if nothing is padded.

    Returns:
        `(B, k)` or `(B, U)`; 0 for a context without nodes.
    """
    mask = None if node_mask is None else node_mask.unsqueeze(-1)
    mean = masked_mean(functional.normalize(nodes, dim=-1), mask, dims=(-2,))
    unit = functional.normalize(candidates, dim=-1)
    return mean @ unit.T if candidates.dim() == 2 else (unit @ mean.unsqueeze(-1)).squeeze(-1)


@in_full_precision
def event_prediction(
    context: torch.Tensor,
    candidates: torch.Tensor,
    target: torch.Tensor,
    temperature: float,
    context_mask: torch.Tensor | None = None,
    left_out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Prediction of an event from nodes of its context, a factor of MulCL's event-level loss (Eq. 16).

    Args:
        context: the nodes that predict, `(B, n, D)`: a neighbour, or the whole context.
        candidates: vectors of events, `(U, D)`.
        target: index of the correct candidate, `(B,)`.
        temperature: divides every mean cosine of a candidate with the nodes.
        context_mask: `(B, n)`, True for a node and false for padding; None if nothing is padded.
        left_out: `(B, U)`, True removes a candidate from a row's negatives; the target always stays.

    Returns:
        Minus the log softmax of each row's target, `(B,)`; 0 for a row without context, which corresponds to
        the paper's border factors of 1.
    """
    logits = mean_cosine(context, candidates, context_mask) / temperature
    if left_out is not None:
        is_target = functional.one_hot(target, len(candidates)).bool()
        logits = logits.masked_fill(left_out & ~is_target, float("-inf"))
    losses = functional.cross_entropy(logits, target, reduction="none")
    if context_mask is None:
        return losses
    return torch.where(context_mask.any(dim=1), losses, torch.zeros_like(losses))


@in_full_precision
def neighbour_prediction(
    to_next: torch.Tensor,
    to_previous: torch.Tensor,
    candidates: torch.Tensor,
    events: torch.Tensor,
    temperature: float,
    left_out: torch.Tensor | None = None,
) -> torch.Tensor:
    """MulCL's event-level loss (Eq. 16): each event of a chain predicts the next one and the one before it.

    Args:
        to_next: each event's query for the next event, `(B, n, D)`.
        to_previous: its query for the previous event, `(B, n, D)`.
        candidates: vectors of events, `(U, D)`.
        events: index of each event of the chains in `candidates`, `(B, n)`; padded with -1 at the end.
        temperature: divides every cosine of a query with a candidate.
        left_out: `(B, U)`, True removes a candidate from a row's negatives; the predicted event always stays.

    Returns:
        The sum of both factors of every event, without those beyond the ends of the chain, divided by the
        number of events, `(B,)`; 0 for a chain of one event.
    """
    pairs = events.shape[1] - 1
    queries = torch.cat([to_next[:, :-1], to_previous[:, 1:]], dim=1)
    exists = (events[:, 1:] >= 0).repeat(1, 2)
    target = torch.cat([events[:, 1:], events[:, :-1]], dim=1).clamp(min=0)
    losses = event_prediction(
        queries.flatten(0, 1).unsqueeze(1),
        candidates,
        target.flatten(),
        temperature,
        exists.flatten().unsqueeze(1),
        None if left_out is None else left_out.repeat_interleave(2 * pairs, dim=0),
    )
    return losses.unflatten(0, exists.shape).sum(dim=1) / (events >= 0).sum(dim=1).clamp(min=1)
