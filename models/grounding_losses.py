"""Losses of hierarchical event grounding: mentions with their events, and parents with their children.

Pure functions of tensors, like all losses; `losses.py` lists them all, and says what they return.
"""

import torch
from torch.nn import functional

from .similarities import cosine, in_full_precision


def first_places(ids: torch.Tensor) -> torch.Tensor:
    """Mark the first position of each event, by its id: `(E,)`, bool."""
    return ~(ids.unsqueeze(0) == ids.unsqueeze(1)).tril(diagonal=-1).any(dim=-1)


def gold_pairs(ids: torch.Tensor, gold_ids: torch.Tensor) -> torch.Tensor:
    """Mark the gold events of each row among the given events: all of its gold events, not only its own.

    From ids of the events, `(E,)`, from 0, and those of the gold ones of each row, `(M, G)`, padded with -1,
    to `(M, E)`, bool.
    """
    return (gold_ids.unsqueeze(1) == ids.unsqueeze(-1)).any(dim=-1)


@in_full_precision
def candidate_loss(
    scores: torch.Tensor,
    gold: torch.Tensor,
    present: torch.Tensor | None = None,
) -> torch.Tensor:
    """Binary cross-entropy of mentions and candidates, of which several may be gold (section 5.1).

    Args:
        scores: `(M, C)`.
        gold: `(M, C)`, bool.
        present: `(M, C)`, bool, False for a missing candidate; None if none is missing.

    Returns:
        Mean over all candidates, a scalar; 0 if there is none.
    """
    if present is None:
        present = torch.ones_like(gold)
    positives = gold & present
    # Selected instead of multiplied: the score of an absent candidate may be infinite.
    known = torch.where(present, scores, torch.zeros_like(scores))
    terms = functional.binary_cross_entropy_with_logits(known, positives.to(scores.dtype), reduction="none")
    return torch.where(present, terms, torch.zeros_like(terms)).sum() / present.sum().clamp(min=1)


@in_full_precision
def linking_loss(
    mentions: torch.Tensor,
    events: torch.Tensor,
    gold: torch.Tensor,
    *,
    normalise: bool = False,
    scale: float | torch.Tensor = 1.0,
    bias: float | torch.Tensor = 0.0,
) -> torch.Tensor:
    """Binary cross-entropy of the dot products of mentions and in-batch events (section 5.1).

    An event of the batch is a positive of every mention that has it among its gold events, whichever mention
    it came with. This covers the parents of an event and events that are in the batch twice.

    Args:
        mentions: `(M, d)`.
        events: `(E, d)`.
        gold: `(M, E)`, bool.
        normalise: beyond the paper, use the cosine instead of the dot product.
        scale: beyond the paper, factor of every dot product.
        bias: beyond the paper, number added to every score.

    Returns:
        Mean over all M * E entries, a scalar.
    """
    scores = cosine(mentions, events) if normalise else mentions @ events.transpose(0, 1)
    return candidate_loss(scores * scale + bias, gold)


@in_full_precision
def candidate_contrast(scores: torch.Tensor, gold: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of each gold candidate against the candidates that are not gold, beyond the paper.

    The gold candidates of a mention are not negatives of each other, so that an event and its parents do not
    push each other away.

    Args:
        scores: `(M, C)`.
        gold: `(M, C)`, bool.
        present: `(M, C)`, bool, False for a candidate to ignore.

    Returns:
        Mean over the gold candidates of a mention, then over the mentions that have one, a scalar; 0 if no
        mention has one.
    """
    positives, negatives = gold & present, ~gold & present
    # Selected instead of multiplied: the score of an absent candidate may be infinite.
    known = torch.where(present, scores, torch.zeros_like(scores))
    # A finite number: with infinity, the gradient would be NaN if every candidate is gold.
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
        distinct: `(E,)`, bool, True for one position of each event in the batch; the others are ignored.
        normalise: use the cosine instead of the dot product.
        scale: factor of every dot product, the inverse of a temperature.

    Returns:
        The same as `candidate_contrast`.
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

    Swapping parent and child changes the sign of the score; the score of an event with itself is 0.

    Args:
        parents_real: real parts of the parents (Eq. 3), `(P, d)`.
        parents_imag: imaginary parts, `(P, d)`.
        children_real: `(C, d)`.
        children_imag: `(C, d)`.
        relation: imaginary part of the relation, `(d,)`.
        relation_real: its real part, `(d,)`, which adds the symmetric part of ComplEx (Trouillon et al.,
            2016); None leaves it out, as the paper does.

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

    As printed, the term of a negative pair is + log sigmoid(s), which has no lower bound; this function uses
    - log sigmoid(-s).

    Args:
        scores: `(P, C)`.
        is_child: `(P, C)`, bool.

    Returns:
        Sum over the children, mean over the parents, a scalar.
    """
    total = functional.binary_cross_entropy_with_logits(scores, is_child.to(scores.dtype), reduction="sum")
    return total / len(scores)
