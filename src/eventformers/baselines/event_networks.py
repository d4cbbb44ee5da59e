"""Networks that compose an event from the word vectors of its roles: Event-comp, and the role-factor and
predicate tensors.

Shapes: E events, at most L words in a role, d size of a word vector, D size of an event vector.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import nn

COHERENCE_HIDDEN = (200, 100)
"""Sizes of the hidden layers of Event-comp's pair network."""

_COMPOSITION_HIDDEN = 300


class RoleVectors(nn.Module):
    """Mean word vector of each role.

    An absent role has its own learned vector. Row 0 of the table represents unknown words.

    Args:
        table: initial word vectors, `(words + 1, d)`.
    """

    def __init__(self, table: torch.Tensor) -> None:
        super().__init__()
        self.words = nn.Embedding.from_pretrained(table, freeze=False)
        self.absent = nn.Parameter(torch.randn(3, table.shape[1]) * table[1:].std())

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Words of the roles, `(E, 3, L)`, padded with -1, to their vectors, `(E, 3, d)`."""
        is_word = (words >= 0).unsqueeze(-1)
        summed = (self.words(words.clamp(min=0)) * is_word).sum(dim=2)
        counts = is_word.sum(dim=2)
        return torch.where(counts > 0, summed / counts.clamp(min=1), self.absent)


class EventNetwork(nn.Module, ABC):
    """Composition of an event from its roles, with a loss of pairs of events against corrupted ones.

    Args:
        table: initial word vectors, `(words + 1, d)`.
        dropout: dropout of the roles' vectors in training.
    """

    def __init__(self, table: torch.Tensor, dropout: float) -> None:
        super().__init__()
        self.roles = RoleVectors(table)
        self.dropout = nn.Dropout(dropout)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Words of the roles, `(E, 3, L)`, padded with -1, to event vectors, `(E, D)`."""
        return self.compose(self.dropout(self.roles(words)))

    @abstractmethod
    def compose(self, roles: torch.Tensor) -> torch.Tensor:
        """Vectors of subject, predicate and object, `(E, 3, d)`, to event vectors, `(E, D)`."""

    @abstractmethod
    def loss(
        self, context: torch.Tensor, event: torch.Tensor, corrupted: torch.Tensor, margin: float
    ) -> torch.Tensor:
        """Loss of distinguishing events of a chain from corrupted ones, given another event of the chain.

        Args:
            context: the earlier event of each pair, `(P, D)`.
            event: the later event, `(P, D)`.
            corrupted: its corruptions, `(P, N, D)`.
            margin: margin of a max-margin loss.

        Returns:
            The mean over pairs.
        """


class EventComp(EventNetwork):
    """Event-comp (Granroth-Wilding and Clark, AAAI 2016): an argument composition network and a coherence
    network for pairs of events, trained together by cross-entropy.

    Args:
        table: initial word vectors, `(words + 1, d)`.
        dimension: D.
        dropout: dropout of the roles' vectors in training.
    """

    def __init__(self, table: torch.Tensor, dimension: int, dropout: float) -> None:
        super().__init__(table, dropout)
        self.composition = nn.Sequential(
            nn.Linear(3 * table.shape[1], _COMPOSITION_HIDDEN),
            nn.Tanh(),
            nn.Linear(_COMPOSITION_HIDDEN, dimension),
            nn.Tanh(),
        )
        first, second = COHERENCE_HIDDEN
        self.first_of_pair = nn.Linear(dimension, first)
        self.second_of_pair = nn.Linear(dimension, first, bias=False)
        self.coherence = nn.Sequential(nn.Tanh(), nn.Linear(first, second), nn.Tanh(), nn.Linear(second, 1))

    def compose(self, roles: torch.Tensor) -> torch.Tensor:
        """Vectors of the roles, `(E, 3, d)`, to event vectors, `(E, D)`."""
        return self.composition(roles.flatten(1))

    def coherence_logits(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """Coherence of pairs as logits, `(…)`, from the parts `(…, hidden)` of `first_of_pair` and
        `second_of_pair`, whose sum is the layer over both vectors."""
        return self.coherence(first + second).squeeze(-1)

    def loss(
        self, context: torch.Tensor, event: torch.Tensor, corrupted: torch.Tensor, margin: float
    ) -> torch.Tensor:
        """Cross-entropy of correct and corrupted pairs, with equal total weights; see `EventNetwork`."""
        first = self.first_of_pair(context)
        right = self.coherence_logits(first, self.second_of_pair(event))
        wrong = self.coherence_logits(first.unsqueeze(1), self.second_of_pair(corrupted))
        return nn.functional.softplus(-right).mean() + nn.functional.softplus(wrong).mean()


class _CosineNetwork(EventNetwork):
    """An event composition trained by a max-margin loss on cosines (Weber et al., AAAI 2018)."""

    def loss(
        self, context: torch.Tensor, event: torch.Tensor, corrupted: torch.Tensor, margin: float
    ) -> torch.Tensor:
        """max(0, margin + cos(context, corrupted) - cos(context, event)); see `EventNetwork`."""
        right = nn.functional.cosine_similarity(context, event, dim=-1)
        wrong = nn.functional.cosine_similarity(context.unsqueeze(1), corrupted, dim=-1)
        return (margin + wrong - right.unsqueeze(1)).clamp(min=0).mean()


class RoleFactorTensor(_CosineNetwork):
    """Role-factor tensor (Weber et al., AAAI 2018): e = W_s T(s, p) + W_o T(o, p), with T(a, p)_i = Σ_jk
    T_ijk a_j p_k. Arguments: see `EventComp`."""

    def __init__(self, table: torch.Tensor, dimension: int, dropout: float) -> None:
        super().__init__(table, dropout)
        size = table.shape[1]
        self.tensor = nn.Linear(size * size, dimension, bias=False)
        self.subject = nn.Linear(dimension, dimension, bias=False)
        self.object = nn.Linear(dimension, dimension, bias=False)

    def compose(self, roles: torch.Tensor) -> torch.Tensor:
        """Vectors of the roles, `(E, 3, d)`, to event vectors, `(E, D)`."""
        subject, predicate, object_ = roles.unbind(dim=1)
        return self.subject(self._factor(subject, predicate)) + self.object(self._factor(object_, predicate))

    def _factor(self, argument: torch.Tensor, predicate: torch.Tensor) -> torch.Tensor:
        return self.tensor((argument.unsqueeze(2) * predicate.unsqueeze(1)).flatten(1))


class PredicateTensor(_CosineNetwork):
    """Predicate tensor (Weber et al., AAAI 2018): the predicate computes the tensor that composes its
    arguments, e_i = Σ_jk P_ijk s_j o_k with P_ijk = W_ijk Σ_a p_a U_ajk. Arguments: see `EventComp`."""

    def __init__(self, table: torch.Tensor, dimension: int, dropout: float) -> None:
        super().__init__(table, dropout)
        size = table.shape[1]
        self.predicate = nn.Linear(size, size * size, bias=False)
        self.tensor = nn.Linear(size * size, dimension, bias=False)

    def compose(self, roles: torch.Tensor) -> torch.Tensor:
        """Vectors of the roles, `(E, 3, d)`, to event vectors, `(E, D)`."""
        subject, predicate, object_ = roles.unbind(dim=1)
        arguments = (subject.unsqueeze(2) * object_.unsqueeze(1)).flatten(1)
        return self.tensor(self.predicate(predicate) * arguments)
