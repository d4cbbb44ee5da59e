"""SWCC's losses: contrasts of events with their views, and prediction of prototypes.

Pure functions of tensors, like all losses; `losses.py` lists them all, and says what they return.
"""

import torch
from torch.nn import functional

from .similarities import cosine, in_full_precision, rows_as_classes


@in_full_precision
def info_nce(
    anchor: torch.Tensor,
    positive: torch.Tensor,
    temperature: float,
    negatives: torch.Tensor | None = None,
) -> torch.Tensor:
    """InfoNCE (van den Oord et al., 2019; SWCC Eq. 3): minus the log softmax of the positive.

    Args:
        anchor: `(B, d)`.
        positive: `(B, d)`.
        temperature: divides every cosine.
        negatives: `(B, N, d)`, or `(N, d)` shared by all anchors. Without them, the negatives are the other
            rows' positives; with them, the denominator holds only them and the positive.
    """
    if negatives is None:
        return rows_as_classes(cosine(anchor, positive) / temperature).mean()
    positive_logits = functional.cosine_similarity(anchor, positive, dim=-1).unsqueeze(-1)
    if negatives.dim() == 2:
        negative_logits = cosine(anchor, negatives)
    else:
        negative_logits = cosine(anchor.unsqueeze(1), negatives).squeeze(1)
    logits = torch.cat([positive_logits, negative_logits], dim=-1) / temperature
    return -functional.log_softmax(logits, dim=-1)[:, 0].mean()


@in_full_precision
def margin_contrast(
    anchor: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor, margin: float
) -> torch.Tensor:
    """Margin loss (SWCC Table 2, "BERT (Margin)"): max(0, margin - cos(a, positive) + cos(a, negative)).

    Args:
        anchor: `(B, d)`.
        positive: `(B, d)`.
        negative: `(B, d)`.
        margin: the margin by which the positive's cosine should exceed the negative's.
    """
    lead = functional.cosine_similarity(anchor, positive, dim=-1) - functional.cosine_similarity(
        anchor, negative, dim=-1
    )
    return (margin - lead).clamp(min=0).mean()


@in_full_precision
def weakly_supervised_contrastive(
    anchor: torch.Tensor,
    view_1: torch.Tensor,
    view_2: torch.Tensor,
    co_event: torch.Tensor,
    co_event_weight: torch.Tensor,
    temperature: float,
) -> torch.Tensor:
    """SWCC L_cl (Eq. 6), with the weight of each positive outside the log.

    Inside the log, as printed, a weight would only add a constant and not change the gradient. The negatives
    of `view_1` and of `co_event` are the other rows' `view_1`; those of `view_2` are the other rows'
    `view_2`. Each of the two dropout views has weight 1/2.

    Args:
        anchor: `(B, d)`.
        view_1: `(B, d)`, the anchor's text under another dropout mask.
        view_2: `(B, d)`, the same text under a third mask.
        co_event: `(B, d)`, an event that occurs in the anchor's document.
        co_event_weight: `(B,)`, normalised co-occurrence frequency.
        temperature: divides every cosine.
    """
    view_1_logits = cosine(anchor, view_1) / temperature
    view_2_logits = cosine(anchor, view_2) / temperature
    co_event_logits = functional.cosine_similarity(anchor, co_event, dim=-1) / temperature
    diagonal = torch.eye(len(anchor), dtype=torch.bool, device=anchor.device)
    against_view_1 = torch.where(diagonal, co_event_logits.unsqueeze(-1), view_1_logits)
    dropout_terms = (rows_as_classes(view_1_logits) + rows_as_classes(view_2_logits)) / 2
    return (dropout_terms + co_event_weight * rows_as_classes(against_view_1)).mean()


@in_full_precision
def shared_word_contrast(
    anchor: torch.Tensor,
    positive: torch.Tensor,
    negatives: torch.Tensor,
    temperature: float,
    weight: torch.Tensor | None = None,
) -> torch.Tensor:
    """Contrast, beyond the SWCC paper, of an event without shared words with events that share words.

    The negatives of an anchor are the other anchors and the `negatives` of every row.

    Args:
        anchor: `(B, d)`.
        positive: `(B, d)`, an event of similar meaning or of the same scene that shares no word with the
            anchor.
        negatives: `(B, N, d)`, events that share words with the anchor and mean something else.
        temperature: divides every cosine.
        weight: weight of each row, `(B,)`; None weighs all rows 1.

    Returns:
        Mean over the batch of the weighted minus log softmax of the positive, a scalar.
    """
    own = functional.cosine_similarity(anchor, positive, dim=-1).unsqueeze(-1)
    diagonal = torch.eye(len(anchor), dtype=torch.bool, device=anchor.device)
    others = cosine(anchor, anchor).masked_fill(diagonal, float("-inf"))
    logits = torch.cat([own, others, cosine(anchor, negatives.flatten(0, 1))], dim=-1) / temperature
    row_losses = -functional.log_softmax(logits, dim=-1)[:, 0]
    return (row_losses if weight is None else weight * row_losses).mean()


@torch.no_grad()
@in_full_precision
def sinkhorn(scores: torch.Tensor, num_iterations: int = 3, epsilon: float = 0.05) -> torch.Tensor:
    """Soft assignment of samples to prototypes in equal shares (Sinkhorn-Knopp; SWCC section 3.2).

    Each iteration scales the prototypes, then the samples. The computation runs on logarithms, so no score
    overflows and no sample loses all of its mass.

    Args:
        scores: `(B, M)`, similarity of each sample to each prototype.
        num_iterations: number of iterations.
        epsilon: entropic regularisation, divides the scores.

    Returns:
        `(B, M)`, without gradient; rows sum to 1, columns tend towards B / M.
    """
    log_assignment = scores / epsilon
    for _ in range(num_iterations):
        log_assignment = log_assignment - log_assignment.logsumexp(dim=0, keepdim=True)
        log_assignment = log_assignment - log_assignment.logsumexp(dim=1, keepdim=True)
    return log_assignment.exp()


@in_full_precision
def cluster_prediction(
    view_1: torch.Tensor,
    view_2: torch.Tensor,
    prototypes: torch.Tensor,
    temperature: float,
    num_iterations: int = 3,
    epsilon: float = 0.05,
) -> torch.Tensor:
    """SWCC L_cp (Eq. 7 and 8): each view predicts the prototypes to which the other view is assigned.

    Args:
        view_1: `(B, d)`.
        view_2: `(B, d)`, the same events under another dropout mask.
        prototypes: `(M, d)`.
        temperature: divides every cosine; the Sinkhorn solver gets the same logits.
        num_iterations: iterations of `sinkhorn`.
        epsilon: regularisation of `sinkhorn`.

    Returns:
        Both directions summed, summed over prototypes, mean over the batch, a scalar.
    """
    logits_1 = cosine(view_1, prototypes) / temperature
    logits_2 = cosine(view_2, prototypes) / temperature
    assignment_1 = sinkhorn(logits_1, num_iterations, epsilon)
    assignment_2 = sinkhorn(logits_2, num_iterations, epsilon)
    agreement = assignment_1 * functional.log_softmax(
        logits_2, dim=-1
    ) + assignment_2 * functional.log_softmax(logits_1, dim=-1)
    return -agreement.sum(dim=-1).mean()


@in_full_precision
def prototype_entropy(vectors: torch.Tensor, prototypes: torch.Tensor, temperature: float) -> torch.Tensor:
    """Entropy of each sample's distribution over prototypes, a term of SWCC's released code only.

    Args:
        vectors: `(B, d)`.
        prototypes: `(M, d)`.
        temperature: divides every cosine.

    Returns:
        Mean over the batch in nats, a scalar.
    """
    log_probabilities = functional.log_softmax(cosine(vectors, prototypes) / temperature, dim=-1)
    return -(log_probabilities.exp() * log_probabilities).sum(dim=-1).mean()
