"""MICO's losses: the contrast of premises and alternatives, and a term that retains initial vectors.

Pure functions of tensors, like all losses; `losses.py` lists them all, and says what they return.
"""

import torch
from torch.nn import functional

from .similarities import cosine, in_full_precision


@in_full_precision
def multi_alternative_contrast(
    premise: torch.Tensor,
    alternatives: torch.Tensor,
    temperature: float,
    known_positives: torch.Tensor | None = None,
    *,
    chosen: torch.Tensor | None = None,
    own_alternatives: str = "excluded",
    log_frequency: torch.Tensor | None = None,
) -> torch.Tensor:
    """MICO's contrast of a premise with its hardest alternative (Eq. 5 and 6).

    The positive of a row is its alternative with the lowest cosine. The denominator holds that positive and
    all alternatives of the other rows. With one alternative per row this is Eq. 4.

    Args:
        premise: `(B, d)`.
        alternatives: k alternatives of each premise, `(B, k, d)`.
        temperature: divides every cosine.
        known_positives: `(B, B, k)`, True at (i, j, o) removes alternative o of row j from row i's
            denominator. Entries with j = i are ignored, and the chosen positive always stays.
        chosen: index of the alternative that is the positive, `(B,)`; None takes the one with the lowest
            cosine (Eq. 5).
        own_alternatives: `excluded` removes a row's other alternatives from its denominator, as in Eq. 6;
            `zero_logit` keeps each with a logit of 0, as in the released code.
        log_frequency: log of the frequency of each alternative in the graph, `(B, k)`; subtracted from its
            logits. A softmax over samples that are drawn in proportion to their frequency needs this
            correction (Bengio and Senécal, 2008). Beyond the paper.
    """
    num_rows, num_alternatives, _ = alternatives.shape
    cosines = cosine(premise, alternatives.flatten(0, 1)).unflatten(1, (num_rows, num_alternatives))
    rows = torch.arange(num_rows, device=premise.device)
    own = cosines[rows, rows]
    if chosen is None:
        chosen = own.argmin(dim=1)
    positive = own.gather(1, chosen.unsqueeze(1)) / temperature
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
    return -functional.log_softmax(torch.cat(logits, dim=1), dim=1)[:, 0].mean()


@in_full_precision
def feature_distillation(
    vectors: torch.Tensor, targets: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Squared distance of unit vectors from those of another encoder, beyond the papers.

    Args:
        vectors: `(B, d)`.
        targets: the other encoder's vectors of texts of the same meaning, `(B, d)`.
        mask: True for the rows that count, `(B,)`; None counts all.

    Returns:
        Mean over these rows, a scalar from 0 to 4; 0 without such a row.
    """
    difference = functional.normalize(vectors, dim=-1) - functional.normalize(targets, dim=-1)
    distances = difference.square().sum(dim=-1)
    if mask is None:
        return distances.mean()
    return distances.masked_fill(~mask, 0.0).sum() / mask.sum().clamp(min=1)
