"""From token vectors to event vectors (HeterEvent): pool the roles, compose them with a tensor (Eq. 1)."""

import torch
from torch import nn

from .pooling import content_mask

NO_WORD = -1
"""Word number of a token that belongs to no word."""
NUM_ROLES = 3
"""Subject, predicate, object, in this order."""
SUBJECT, PREDICATE, OBJECT = range(NUM_ROLES)


def predicate_alone(attention_mask: torch.Tensor, special_ends: bool = True) -> torch.Tensor:
    """Role masks that assign every token to the predicate, `(E, L)` to `(E, 3, L)`; see `content_mask`."""
    roles = torch.arange(NUM_ROLES, device=attention_mask.device).unsqueeze(-1)
    return content_mask(attention_mask, special_ends).unsqueeze(1) & (roles == PREDICATE)


def words_of_tokens(
    token_numbers: torch.Tensor, attention_mask: torch.Tensor, special_ends: bool = True
) -> torch.Tensor:
    """Treat each distinct token as a word: numbers `(E, L)`, -1 for special tokens and padding."""
    return token_numbers.masked_fill(~content_mask(attention_mask, special_ends), NO_WORD)


def pool_roles(tokens: torch.Tensor, role_masks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Pool the tokens of each role, `(E, L, d)` with `(E, 3, L)`, by maximum and mean.

    Returns:
        Maximum and mean concatenated, `(E, 3, 2d)`, and a mask of the present roles, `(E, 3)`; an absent role
        gives zeros.
    """
    weights = role_masks.to(tokens.dtype)
    mean = weights @ tokens / weights.sum(dim=-1, keepdim=True).clamp(min=1)
    lowest = torch.finfo(tokens.dtype).min
    highest = tokens.unsqueeze(1).masked_fill(~role_masks.unsqueeze(-1), lowest).amax(dim=2)
    present = role_masks.any(dim=-1)
    return torch.cat([highest.masked_fill(~present.unsqueeze(-1), 0), mean], dim=-1), present


def pool_words(tokens: torch.Tensor, word_index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Average the tokens of each word of each event.

    Args:
        tokens: `(E, L, h)`.
        word_index: the word of each token, `(E, L)`; -1 for a token that belongs to no word.

    Returns:
        Vectors `(E, W, h)`, zeros where an event has fewer than W distinct words, and the words `(E, W)` in
        the order of their first token, padded with -1; W is at least 1.
    """
    num_events, length = word_index.shape
    positions = torch.arange(length, device=word_index.device)
    is_word = word_index >= 0
    # The position of the first token of the same word, and from it the index of the word within its event.
    same = word_index.unsqueeze(1) == word_index.unsqueeze(2)
    first = torch.where(same, positions, length).amin(dim=2)
    is_first = (first == positions) & is_word
    slot = (is_first.cumsum(dim=1) - 1).gather(1, first)
    width = max(int(is_first.sum(dim=1).max()), 1) if num_events else 1
    # Tokens that belong to no word go to a last slot, which is dropped.
    slot = torch.where(is_word, slot, width)
    words = torch.full((num_events, width + 1), NO_WORD, device=word_index.device)
    words = words.scatter(1, slot, word_index)[:, :width]
    weights = (slot.unsqueeze(1) == torch.arange(width, device=slot.device).unsqueeze(-1)).to(tokens.dtype)
    return weights @ tokens / weights.sum(dim=-1, keepdim=True).clamp(min=1), words


class TensorComposition(nn.Module):
    """The bilinear tensor T of Eq. 1: `T(a, p)_i = sum_jk T_ijk a_j p_k`, for roles of size 2d and events of
    size d."""

    def __init__(self, event_dim: int):
        super().__init__()
        self.tensor = nn.Parameter(torch.empty(event_dim, 2 * event_dim, 2 * event_dim))

    def forward(self, arguments: torch.Tensor, predicate: torch.Tensor) -> torch.Tensor:
        """Compose arguments `(E, A, 2d)` with the predicate `(E, 2d)` to `(E, A, d)`, contracting the tensor
        with the predicate only once."""
        matrices = nn.functional.linear(predicate, self.tensor.flatten(0, 1))
        matrices = matrices.unflatten(1, self.tensor.shape[:2])
        return arguments.to(matrices.dtype) @ matrices.transpose(1, 2)


class LowRankComposition(nn.Module):
    """The tensor of Eq. 1 with slices of low rank: `T_i = diag(d_i) + sum_r u_ir v_ir^T` (Ding et al.,
    2015)."""

    def __init__(self, event_dim: int, rank: int):
        super().__init__()
        self.diagonal = nn.Linear(2 * event_dim, event_dim, bias=False)
        self.left = nn.Linear(2 * event_dim, event_dim * rank, bias=False)
        self.right = nn.Linear(2 * event_dim, event_dim * rank, bias=False)
        self.rank = rank

    def forward(self, arguments: torch.Tensor, predicate: torch.Tensor) -> torch.Tensor:
        """Compose arguments `(E, A, 2d)` with the predicate `(E, 2d)` to `(E, A, d)`."""
        predicate = predicate.unsqueeze(1)
        products = self.left(arguments) * self.right(predicate)
        return self.diagonal(arguments * predicate) + products.unflatten(-1, (-1, self.rank)).sum(dim=-1)


class SkipProjection(nn.Module):
    """Projection of the encoder's own vectors to the size of a chain's states.

    It starts as the identity, or as a random orthogonal projection if the sizes differ, so that cosines are
    initially those of the encoder. Its vectors have a root mean square of 1, the scale of a Bi-GRU's states.
    """

    def __init__(self, hidden_size: int, chain_dim: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(chain_dim, hidden_size))

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Project and scale vectors, `(..., hidden_size)` to `(..., chain_dim)`; zeros stay zeros."""
        projected = nn.functional.linear(vectors, self.weight).float()
        unit = nn.functional.normalize(projected, dim=-1)
        return (unit * self.weight.shape[0] ** 0.5).to(self.weight.dtype)


def mean_pool(tokens: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
    """Mean of all token vectors that are not padding, `(E, L, h)` to `(E, h)`."""
    weights = attention_mask.to(tokens.dtype).unsqueeze(1)
    return (weights @ tokens).squeeze(1) / weights.sum(dim=-1).clamp(min=1)


class EventComposition(nn.Module):
    """Composition of token vectors into one vector of size d for each event.

    Tokens are first projected to d dimensions: a tensor over the encoder's own dimensions would have billions
    of entries. One learned vector represents any role that an event lacks.
    """

    def __init__(self, hidden_size: int, event_dim: int, composition: str, rank: int):
        super().__init__()
        self.token_projection = nn.Linear(hidden_size, event_dim)
        self.absent_role = nn.Parameter(torch.empty(2 * event_dim))
        self.interaction = (
            TensorComposition(event_dim) if composition == "tensor" else LowRankComposition(event_dim, rank)
        )
        self.subject_weight = nn.Linear(event_dim, event_dim, bias=False)
        self.object_weight = nn.Linear(event_dim, event_dim, bias=False)

    def forward(self, tokens: torch.Tensor, role_masks: torch.Tensor) -> torch.Tensor:
        """Compose events (Eq. 1) from the encoder's token vectors, `(E, L, hidden_size)`, and the masks of
        subject, predicate and object, `(E, 3, L)`, to `(E, d)`; an event without tokens is composed of three
        absent roles."""
        roles, present = pool_roles(self.token_projection(tokens), role_masks)
        roles = torch.where(present.unsqueeze(-1), roles, self.absent_role.to(roles.dtype))
        arguments = roles[:, [SUBJECT, OBJECT]]
        composed = self.interaction(arguments, roles[:, PREDICATE])
        return self.subject_weight(composed[:, 0]) + self.object_weight(composed[:, 1])
