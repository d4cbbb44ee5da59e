"""Losses of hierarchical event grounding: mentions with their events, and parents with their children.

Pure functions of tensors, like all losses; `losses.py` lists them all.
"""

import torch
from torch.nn import functional

from .similarities import cosine, in_full_precision


def first_places(ids: torch.Tensor) -> torch.Tensor:
    """Whether a place is the first of its event's.

    Args:
        ids: numbers of the events, `(E,)`.

    Returns:
        `(E,)`, bool.
    """
    return ~(ids.unsqueeze(0) == ids.unsqueeze(1)).tril(diagonal=-1).any(dim=-1)


def gold_pairs(ids: torch.Tensor, gold_ids: torch.Tensor) -> torch.Tensor:
    """Which of some events each row has among its gold ones: every one that it has, not its own alone.

    Args:
        ids: numbers of the events, `(E,)`, from 0.
        gold_ids: numbers of the gold events of each row, `(M, G)`; -1 fills up.

    Returns:
        `(M, E)`, bool.
    """
    return (gold_ids.unsqueeze(1) == ids.unsqueeze(-1)).any(dim=-1)


@in_full_precision
def candidate_loss(
    scores: torch.Tensor,
    gold: torch.Tensor,
    positive_weight: float | str = 1.0,
    present: torch.Tensor | None = None,
) -> torch.Tensor:
    """Binary cross-entropy of the scores of mentions and candidates, with several gold ones (section 5.1).

    Args:
        scores: `(M, C)`.
        gold: `(M, C)`, bool.
        positive_weight: what the term of a gold candidate is multiplied by; `balanced` takes the number of
            the others over that of the gold ones, so that both weigh the same. The paper has 1.
        present: `(M, C)`, bool, false where a mention has no such candidate; None where all are there.

    Returns:
        Mean over all candidates, a scalar; 0 where there is none.
    """
    if present is None:
        present = torch.ones_like(gold)
    positives = gold & present
    if positive_weight == "balanced":
        count = positives.sum()
        weight = ((present.sum() - count) / count.clamp(min=1)).to(scores.dtype)
    else:
        weight = scores.new_tensor(positive_weight)
    # Chosen, not multiplied: the score of an absent candidate may be infinite.
    known = torch.where(present, scores, torch.zeros_like(scores))
    terms = functional.binary_cross_entropy_with_logits(
        known, positives.to(scores.dtype), pos_weight=weight, reduction="none"
    )
    return torch.where(present, terms, torch.zeros_like(terms)).sum() / present.sum().clamp(min=1)


@in_full_precision
def linking_loss(
    mentions: torch.Tensor,
    events: torch.Tensor,
    gold: torch.Tensor,
    positive_weight: float | str = 1.0,
    *,
    normalise: bool = False,
    scale: float | torch.Tensor = 1.0,
    bias: float | torch.Tensor = 0.0,
) -> torch.Tensor:
    """Binary cross-entropy of the dot products of mentions and in-batch events (section 5.1).

    An event that another mention of the batch came with is a positive of every mention that has it among its
    gold events: its parents, and events that are in the batch twice.

    Args:
        mentions: `(M, d)`.
        events: `(E, d)`.
        gold: `(M, E)`, bool.
        positive_weight: see `candidate_loss`.
        normalise: beyond the paper, use the cosine instead of the dot product.
        scale: beyond the paper, what every dot product is multiplied by.
        bias: beyond the paper, a number that is added to every score.

    Returns:
        Mean over all M * E entries, a scalar.
    """
    scores = cosine(mentions, events) if normalise else mentions @ events.transpose(0, 1)
    return candidate_loss(scores * scale + bias, gold, positive_weight)


@in_full_precision
def candidate_contrast(scores: torch.Tensor, gold: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of each mention's gold candidates among those that are not, beyond the paper.

    Each gold candidate stands against the others alone, so that an event and its parents do not push each
    other away.

    Args:
        scores: `(M, C)`.
        gold: `(M, C)`, bool.
        present: `(M, C)`, bool, false for a candidate that is not read.

    Returns:
        Mean over the gold candidates of a mention, then over the mentions that have one, a scalar; 0 where
        none has one.
    """
    positives, negatives = gold & present, ~gold & present
    # Chosen, not multiplied: the score of an absent candidate may be infinite.
    known = torch.where(present, scores, torch.zeros_like(scores))
    # Not infinity: where every candidate is gold, the gradient would be no number.
    lowest = torch.finfo(scores.dtype).min
    wrong = known.masked_fill(~negatives, lowest).logsumexp(dim=-1, keepdim=True)
    terms = functional.softplus(wrong - known) * positives
    counts = positives.sum(dim=-1)
    each = terms.sum(dim=-1) / counts.clamp(min=1)
    return each.sum() / (counts > 0).sum().clamp(min=1)


@in_full_precision
def linking_contrast(
    mentions: torch.Tensor,
    events: torch.Tensor,
    gold: torch.Tensor,
    distinct: torch.Tensor,
    *,
    normalise: bool = False,
    scale: float | torch.Tensor = 1.0,
) -> torch.Tensor:
    """`candidate_contrast` of the dot products of mentions and in-batch events, beyond the paper.

    Args:
        mentions: `(M, d)`.
        events: `(E, d)`.
        gold: `(M, E)`, bool.
        distinct: `(E,)`, bool, true for one of each event's places in the batch; the others are not read.
        normalise: use the cosine instead of the dot product.
        scale: what every dot product is multiplied by, the inverse of a temperature.

    Returns:
        As of `candidate_contrast`.
    """
    scores = cosine(mentions, events) if normalise else mentions @ events.transpose(0, 1)
    return candidate_contrast(scores * scale, gold, distinct.expand_as(gold))


@in_full_precision
def hierarchy_score(
    parents_real: torch.Tensor,
    parents_imag: torch.Tensor,
    children_real: torch.Tensor,
    children_imag: torch.Tensor,
    relation: torch.Tensor,
    relation_real: torch.Tensor | None = None,
) -> torch.Tensor:
    """Score of each parent with each child, the antisymmetric part of ComplEx (Eq. 1 and 2).

    Parent and child exchanged give the score with the other sign, and an event has 0 with itself.

    Args:
        parents_real: real parts of the parents (Eq. 3), `(P, d)`.
        parents_imag: imaginary parts, `(P, d)`.
        children_real: `(C, d)`.
        children_imag: `(C, d)`.
        relation: imaginary part of the relation, `(d,)`.
        relation_real: its real part, `(d,)`, which adds the symmetric part and so makes it the whole of
            ComplEx (Trouillon et al., 2016); None leaves it out, as the paper does.

    Returns:
        `(P, C)`.
    """
    scores = (parents_imag * relation) @ children_real.transpose(0, 1) - (
        parents_real * relation
    ) @ children_imag.transpose(0, 1)
    if relation_real is None:
        return scores
    symmetric = (parents_real * relation_real) @ children_real.transpose(0, 1) + (
        parents_imag * relation_real
    ) @ children_imag.transpose(0, 1)
    return scores + symmetric


@in_full_precision
def hierarchy_loss(scores: torch.Tensor, is_child: torch.Tensor) -> torch.Tensor:
    """Binary cross-entropy of the scores of parents and in-batch children (Eq. 4).

    As printed, the term of a pair that is none is + log sigmoid(s), which has no lower bound; read here as
    - log sigmoid(-s).

    Args:
        scores: `(P, C)`.
        is_child: `(P, C)`, bool.

    Returns:
        Sum over the children, mean over the parents, a scalar.
    """
    total = functional.binary_cross_entropy_with_logits(scores, is_child.to(scores.dtype), reduction="sum")
    return total / len(scores)
