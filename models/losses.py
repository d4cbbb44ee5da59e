"""Every loss of the five papers as a pure function of tensors.

Similarity is the cosine, so vectors are normalised inside, except where dot product is said. Each function is
differentiable, takes any floating dtype on any device, and returns a scalar mean over the batch unless said.
Half precision inputs are raised to float32 and autocast is switched off inside: similarities divided by small
temperatures need it.
"""

import torch
from torch.nn import functional

from .chain_losses import (
    chain_contrast,
    composition_contrast,
    corrupted_corrupted_contrast,
    event_prediction,
    mean_cosine,
    normal_corrupted_contrast,
    word_prediction,
)
from .grounding_losses import (
    candidate_contrast,
    candidate_loss,
    first_places,
    gold_pairs,
    hierarchy_loss,
    hierarchy_score,
    linking_contrast,
    linking_loss,
)
from .similarities import cosine, in_full_precision, rows_as_classes, without
from .type_losses import log_absence, masked_pair_loss, noisy_or_loss, pair_targets, type_alignment

__all__ = [
    "candidate_contrast",
    "candidate_loss",
    "chain_contrast",
    "cluster_prediction",
    "composition_contrast",
    "corrupted_corrupted_contrast",
    "event_prediction",
    "first_places",
    "gold_pairs",
    "hierarchy_loss",
    "hierarchy_score",
    "info_nce",
    "linking_contrast",
    "linking_loss",
    "log_absence",
    "margin_contrast",
    "masked_pair_loss",
    "mean_cosine",
    "multi_alternative_contrast",
    "noisy_or_loss",
    "normal_corrupted_contrast",
    "pair_targets",
    "prototype_entropy",
    "shared_word_contrast",
    "sinkhorn",
    "type_alignment",
    "weakly_supervised_contrastive",
    "word_prediction",
]


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
        negatives: `(B, N, d)`, or `(N, d)` for all anchors alike. Without them the other rows' positives
            serve; with them only those and the positive.

    Returns:
        Mean over the batch, a scalar.
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
        margin: the cosine by which the positive should lead.

    Returns:
        Mean over the batch, a scalar.
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

    Inside the log, as printed, a weight would only add a constant and leave the gradient as it is. The
    negatives of `view_1` and of `co_event` are the other rows' `view_1`, those of `view_2` the other rows'
    `view_2`; the two dropout views weigh 1/2 each.

    Args:
        anchor: `(B, d)`.
        view_1: `(B, d)`, the anchor's text under another dropout mask.
        view_2: `(B, d)`, and under a third.
        co_event: `(B, d)`, an event that occurs in the anchor's document.
        co_event_weight: `(B,)`, normalised co-occurrence frequency.
        temperature: divides every cosine.

    Returns:
        Mean over the batch, a scalar.
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
        positive: `(B, d)`, an event of like meaning or of the same scene that shares no word with the anchor.
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

    Each iteration scales the prototypes, then the samples. Computed on logarithms, so no score overflows and
    no sample loses all of its mass.

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
    """SWCC L_cp (Eq. 7 and 8): each view predicts the prototypes that the other view is assigned to.

    Args:
        view_1: `(B, d)`.
        view_2: `(B, d)`, the same events under another dropout mask.
        prototypes: `(M, d)`.
        temperature: divides every cosine; the solver gets the same logits.
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


@in_full_precision
def multi_alternative_contrast(
    premise: torch.Tensor,
    alternatives: torch.Tensor,
    temperature: float | torch.Tensor,
    known_positives: torch.Tensor | None = None,
    *,
    chosen: torch.Tensor | None = None,
    margin: float = 0.0,
    own_alternatives: str = "excluded",
    log_frequency: torch.Tensor | None = None,
    row_negatives: torch.Tensor | None = None,
    row_negatives_mask: torch.Tensor | None = None,
    shared_negatives: torch.Tensor | None = None,
    shared_negatives_mask: torch.Tensor | None = None,
) -> torch.Tensor:
    """MICO's contrast of a premise with its hardest alternative (Eq. 5 and 6).

    The positive of a row is its alternative of least cosine; its denominator holds that positive and all
    alternatives of the other rows. With one alternative a row this is Eq. 4.

    Args:
        premise: `(B, d)`.
        alternatives: k alternatives of each premise, `(B, k, d)`.
        temperature: divides every cosine.
        known_positives: `(B, B, k)`, true at (i, j, o) leaves alternative o of row j out of row i's
            denominator. Entries with j = i are ignored, and the chosen positive always stays.
        chosen: which alternative is the positive, `(B,)`; None takes the one of least cosine (Eq. 5).
        margin: subtracted from the positive's cosine.
        own_alternatives: `excluded` leaves a row's other alternatives out of its denominator, as Eq. 6 says;
            `zero_logit` leaves each in with a logit of 0, as the released code does.
        log_frequency: log of how often the graph has each alternative, `(B, k)`; taken off its logits, as a
            softmax over samples needs that are drawn in proportion to their frequency (Bengio and Senécal,
            2008), beyond the paper.
        row_negatives: further negatives of each row, `(B, n, d)`.
        row_negatives_mask: `(B, n)`, true leaves one out.
        shared_negatives: further negatives of all rows, `(N, d)`.
        shared_negatives_mask: `(B, N)`, true leaves one out.

    Returns:
        Mean over the batch, a scalar.
    """
    num_rows, num_alternatives, _ = alternatives.shape
    cosines = cosine(premise, alternatives.flatten(0, 1)).unflatten(1, (num_rows, num_alternatives))
    rows = torch.arange(num_rows, device=premise.device)
    own = cosines[rows, rows]
    if chosen is None:
        chosen = own.argmin(dim=1)
    positive = (own.gather(1, chosen.unsqueeze(1)) - margin) / temperature
    all_logits = cosines / temperature
    if log_frequency is not None:
        positive = positive - log_frequency.gather(1, chosen.unsqueeze(1))
        all_logits = all_logits - log_frequency
    is_own = torch.eye(num_rows, dtype=torch.bool, device=premise.device).unsqueeze(-1)
    left_out = is_own if known_positives is None else is_own | known_positives
    others = all_logits.masked_fill(left_out, float("-inf"))
    logits = [positive, others.flatten(1)]
    if own_alternatives == "zero_logit":
        logits.append(torch.zeros_like(own[:, 1:]))
    if row_negatives is not None:
        row_logits = cosine(premise.unsqueeze(1), row_negatives).squeeze(1) / temperature
        logits.append(without(row_logits, row_negatives_mask))
    if shared_negatives is not None:
        logits.append(without(cosine(premise, shared_negatives) / temperature, shared_negatives_mask))
    return -functional.log_softmax(torch.cat(logits, dim=1), dim=1)[:, 0].mean()
