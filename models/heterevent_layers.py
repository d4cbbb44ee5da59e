"""Layers of HeterEvent besides encoder and graph: from token vectors to events, and from events to chains.

Roles are pooled and composed with a tensor (Eq. 1). The Bi-GRU over the events of a chain (Eq. 2) computes
each shared prefix once: a recurrent state depends only on the events before it. The corruptions of a chain
share most of their prefixes with the chain and with one another, so the forward direction computes each
distinct prefix of a batch once. The backward direction does the same with suffixes; there the state at the
appended chain token is the same for all chains, because the token is always last.
"""

import torch
from torch import nn
from torch.nn import functional

from .layer_weights import OpenGRU
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


PADDING = -1
"""Pads a chain at its end."""


class ChainEncoder(nn.Module):
    """Bi-GRU over event vectors, with a learned event appended to each chain.

    The weights are those of `torch.nn.GRU`. The states of a chain equal those that `torch.nn.GRU` computes
    for this chain without padding.

    Args:
        event_dim: size d of an event's vector.
        chain_dim: size D of a state, half of it for each direction.
        skip: True if event vectors have a second part of size D (`SkipProjection`). It is added to the
            states, and its mean over a chain to the state of the chain token. The Bi-GRU's own states then
            have a learned weight.
    """

    def __init__(self, event_dim: int, chain_dim: int, skip: bool = False):
        super().__init__()
        self.event_dim = event_dim
        self.state_weight = nn.Parameter(torch.empty(1)) if skip else None
        self.gru = OpenGRU(event_dim, chain_dim // 2, batch_first=True, bidirectional=True)
        self.chain_token = nn.Parameter(torch.empty(event_dim))

    def forward(
        self, events: torch.Tensor, chains: torch.Tensor, tokens_only: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor] | torch.Tensor:
        """Run chains in both directions.

        Args:
            events: vectors of the distinct events, `(E, d)`; with `skip`, `(E, d + D)`.
            chains: rows of `events`, `(C, n)`; padded with -1 at the end.
            tokens_only: see `chain_states`.

        Returns:
            States of the events `(C, n, D)`, zeros at padding, and of the chain token `(C, D)`.
        """
        if tokens_only:
            sequences = self._with_chain_token(chains.flatten(0, -2), len(events))
            inputs = self._inputs(events)
            states, places = self._run(inputs[0], sequences, "l0")
            lengths = (sequences != PADDING).sum(dim=1, keepdim=True)
            of_front = states[places.gather(1, lengths - 1).squeeze(1)]
            token = torch.full((1, 1), len(events), dtype=torch.long, device=chains.device)
            of_back, _ = self._run(inputs[1], token, "l0_reverse")
            of_chains = torch.cat([of_front, of_back.expand_as(of_front)], dim=-1)
            if self.state_weight is not None:
                of_chains = self._with_mean(of_chains, events[:, self.event_dim :], chains.flatten(0, -2))
            return of_chains.unflatten(0, chains.shape[:-1])
        sequences = self._with_chain_token(chains, len(events))
        lengths = (sequences != PADDING).sum(dim=1, keepdim=True)
        inputs = self._inputs(events)
        forward = self._run(inputs[0], sequences, "l0")
        # The event at index i from the front has index length - 1 - i from the back.
        from_back = lengths - 1 - torch.arange(sequences.shape[1], device=chains.device)
        mirror = from_back.clamp(min=0)
        reversed_sequences = sequences.gather(1, mirror).masked_fill(from_back < 0, PADDING)
        states, places = self._run(inputs[1], reversed_sequences, "l0_reverse")
        backward = states, places.gather(1, mirror)
        joined = torch.cat([states[place] for states, place in (forward, backward)], dim=-1)
        joined = joined * (sequences != PADDING).unsqueeze(-1)
        last = (lengths - 1).unsqueeze(-1).expand(-1, -1, joined.shape[-1])
        is_event = (chains != PADDING).unsqueeze(-1)
        of_events, of_chains = joined[:, :-1] * is_event, joined.gather(1, last).squeeze(1)
        if self.state_weight is None:
            return of_events, of_chains
        skipped = events[:, self.event_dim :]
        of_events = self.state_weight * of_events + skipped[chains.clamp(min=0)] * is_event
        return of_events, self._with_mean(of_chains, skipped, chains)

    def chain_states(self, events: torch.Tensor, chains: torch.Tensor) -> torch.Tensor:
        """Compute only the states of the chain token, `(..., D)`, for many chains, `(..., n)`, over few
        events; see `forward`."""
        # Called as a module, it has its weights if they are offloaded.
        return self(events, chains, tokens_only=True)

    def _with_mean(
        self, of_chains: torch.Tensor, skipped: torch.Tensor, chains: torch.Tensor
    ) -> torch.Tensor:
        """Add the mean of the skipped vectors of each chain's events to its state, `(C, D)`."""
        # A row of zeros represents padding, which the mean leaves out.
        rows = functional.pad(skipped, (0, 0, 0, 1))
        events = torch.where(chains == PADDING, len(skipped), chains)
        mean = functional.embedding_bag(events, rows, mode="mean", padding_idx=len(skipped))
        return self.state_weight * of_chains + mean

    def _with_chain_token(self, chains: torch.Tensor, token: int) -> torch.Tensor:
        """Append the index of the chain token after the last event of each chain, `(C, n + 1)`."""
        lengths = (chains != PADDING).sum(dim=1, keepdim=True)
        return functional.pad(chains, (0, 1), value=PADDING).scatter(1, lengths, token)

    def _inputs(self, events: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Input part of the gates of each direction, for each event and the token, `(E + 1, 3D/2)`."""
        gru = self.gru()
        dtype = gru["weight_ih_l0"].dtype
        with torch.autocast(events.device.type, enabled=False):
            rows = torch.cat([events[:, : self.event_dim].to(dtype), self.chain_token.to(dtype).unsqueeze(0)])
            return tuple(
                functional.linear(rows, gru[f"weight_ih_{direction}"], gru[f"bias_ih_{direction}"])
                for direction in ("l0", "l0_reverse")
            )

    def _run(
        self, inputs: torch.Tensor, sequences: torch.Tensor, direction: str
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """States `(N, D/2)` of the distinct prefixes; the prefix at each position `(C, T)`, 0 at padding."""
        gru = self.gru()
        weight, bias = (gru[f"{name}_hh_{direction}"] for name in ("weight", "bias"))
        num_inputs = len(inputs)
        state = inputs.new_zeros(1, weight.shape[1])
        prefix = sequences.new_zeros(len(sequences))
        states, places, before = [], [], 0
        with torch.autocast(inputs.device.type, enabled=False):
            for events in sequences.unbind(dim=1):
                running = events != PADDING
                codes, prefix_of_row = (prefix[running] * num_inputs + events[running]).unique(
                    return_inverse=True
                )
                shorter = torch.div(codes, num_inputs, rounding_mode="floor")
                state = _gru_cell(inputs[codes % num_inputs], state[shorter], weight, bias)
                prefix = prefix.masked_scatter(running, prefix_of_row)
                states.append(state)
                places.append(torch.where(running, prefix + before, 0))
                before += len(state)
        return torch.cat(states), torch.stack(places, dim=1)


def _gru_cell(
    inputs: torch.Tensor, state: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    """One step of a GRU, with the gates in torch's order: reset, update, new."""
    from_state = functional.linear(state, weight, bias)
    reset_in, update_in, new_in = inputs.chunk(3, dim=-1)
    reset_state, update_state, new_state = from_state.chunk(3, dim=-1)
    new = (new_in + (reset_in + reset_state).sigmoid() * new_state).tanh()
    return torch.lerp(new, state, (update_in + update_state).sigmoid())
