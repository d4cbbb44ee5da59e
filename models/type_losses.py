"""Losses of event type induction: pairs of mentions under batch attention, and alignment with descriptions.

Pure functions of tensors, like all losses; `losses.py` lists them all, and says what they return.
"""

import math

import torch
from torch.nn import functional

from .commonsense_losses import multi_alternative_contrast
from .similarities import in_full_precision

UNSEEN = -1
"""Type id of a mention whose type is not known in training."""


def pair_targets(
    type_ids: torch.Tensor, *, unseen_diagonal: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute which pairs of a batch are positive, and which are known (section 3.4, Y and u).

    A pair is positive if both mentions have the same seen type, and on the diagonal, where a mention meets
    itself or its other view. A pair of two unseen mentions is unknown.

    Args:
        type_ids: `(B,)`; -1 for an unseen type.
        unseen_diagonal: treat an unseen mention as known to match itself, as in the released code; in the
            printed formula that pair is unknown, too.

    Returns:
        Targets and known pairs, both `(B, B)`, bool.
    """
    seen = type_ids != UNSEEN
    diagonal = torch.eye(len(type_ids), dtype=torch.bool, device=type_ids.device)
    same_type = (type_ids.unsqueeze(1) == type_ids.unsqueeze(0)) & seen.unsqueeze(1)
    known = seen.unsqueeze(1) | seen.unsqueeze(0)
    return same_type | diagonal, known | diagonal if unseen_diagonal else known


@in_full_precision
def masked_pair_loss(
    query: torch.Tensor,
    key: torch.Tensor,
    type_ids: torch.Tensor,
    margin: float,
    *,
    bias: float | torch.Tensor = 0.0,
    unseen_diagonal: bool = True,
) -> torch.Tensor:
    """Masked contrastive loss L_m (section 3.4): binary cross-entropy of the dot product / sqrt(d) of pairs.

    Unknown pairs, and negative pairs whose score is already below the margin, are left out. The bar of the
    printed mask covers only the margin, which would keep the unknown pairs that the text leaves out.

    Args:
        query: `(B, d)`.
        key: `(B, d)`, of the same mentions in the same order, possibly of another view.
        type_ids: `(B,)`; -1 for an unseen type.
        margin: m, the sigmoid of the score below which a negative pair has no loss.
        bias: beyond the paper, a number added to every score.
        unseen_diagonal: see `pair_targets`.

    Returns:
        Mean over all B * B entries, where those left out are 0, a scalar.
    """
    scores = query @ key.transpose(0, 1) / query.shape[1] ** 0.5 + bias
    targets, known = pair_targets(type_ids, unseen_diagonal=unseen_diagonal)
    kept = known & (targets | (scores.detach().sigmoid() >= margin))
    losses = functional.binary_cross_entropy_with_logits(scores, targets.to(scores.dtype), reduction="none")
    return torch.where(kept, losses, torch.zeros_like(losses)).mean()


@in_full_precision
def type_alignment(clustered: torch.Tensor, targets: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """Auxiliary loss L_a (section 3.5): 1 minus the cosine of clustered features and their type's vector.

    As printed, 1 is outside the indicator, so an unseen mention would add the constant 1.

    Args:
        clustered: output of the auxiliary head, `(B, d)`.
        targets: the frozen vector of each mention's type, `(B, d)`; rows of unseen mentions are ignored.
        seen: `(B,)`, bool.

    Returns:
        Mean over the batch, where an unseen mention adds 0, a scalar.
    """
    # An arbitrary value there would reach the gradient of all rows through the attention.
    targets = torch.where(seen.unsqueeze(1), targets, torch.ones_like(targets))
    distances = 1 - functional.cosine_similarity(clustered, targets, dim=-1)
    return torch.where(seen, distances, torch.zeros_like(distances)).mean()


def frame_contrast(
    examples: torch.Tensor, definitions: torch.Tensor, frame_ids: torch.Tensor, temperature: float
) -> torch.Tensor:
    """InfoNCE, in both directions, between sentences and the definitions of the frames that they evoke.

    Beyond the paper. Other rows of the same frame are no negatives.

    Args:
        examples: `(B, d)`.
        definitions: `(B, d)`, in the same order.
        frame_ids: `(B,)`.
        temperature: divides every cosine.

    Returns:
        Mean over the batch and both directions, a scalar.
    """
    same_frame = (frame_ids.unsqueeze(1) == frame_ids.unsqueeze(0)).unsqueeze(-1)
    sides = ((examples, definitions), (definitions, examples))
    first, second = (
        multi_alternative_contrast(anchors, positives.unsqueeze(1), temperature, same_frame)
        for anchors, positives in sides
    )
    return (first + second) / 2


@in_full_precision
def log_absence(scores: torch.Tensor, token_mask: torch.Tensor) -> torch.Tensor:
    """Log-probability that no token of a sentence expresses an event of a class: sum of log(1 - p).

    Beyond the paper. Each token expresses one event of one class, or none, by its own softmax.

    Args:
        scores: scores of the classes and, last, of no event, `(B, L, C + 1)`.
        token_mask: True for the tokens that may express one, `(B, L)`.

    Returns:
        `(B, C)`, at most 0.
    """
    absent = _log_complement(scores.log_softmax(dim=-1)[..., :-1])
    return torch.where(token_mask.unsqueeze(-1), absent, torch.zeros_like(absent)).sum(dim=1)


@in_full_precision
def noisy_or_loss(absence: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """Cross-entropy, by a noisy-or, of whether any token of a sentence expresses an event of each class.

    Beyond the paper: it learns which words express events from labels of whole sentences.

    Args:
        absence: log-probability that none does, `(B, C)`; see `log_absence`.
        present: True if one token does, `(B, C)`, bool.

    Returns:
        Sum over the classes, mean over the batch, a scalar.
    """
    return -torch.where(present, _log_complement(absence), absence).sum(dim=1).mean()


def _log_complement(log_probability: torch.Tensor) -> torch.Tensor:
    """log(1 - p) from log(p); finite at p = 1, as in a sentence without tokens."""
    bounded = log_probability.clamp(max=-torch.finfo(log_probability.dtype).tiny)
    # Each form is exact where the other one rounds.
    is_likely = bounded > -math.log(2)
    near_one = torch.log(-torch.expm1(torch.where(is_likely, bounded, torch.full_like(bounded, -1.0))))
    near_zero = torch.log1p(-torch.exp(torch.where(is_likely, torch.full_like(bounded, -1.0), bounded)))
    return torch.where(is_likely, near_one, near_zero)
