"""Layers of event type induction besides the encoder: maps, attention, heads, and the trigger finder."""

import torch
from torch import nn

from .layer_weights import dtype_of
from .similarities import in_full_precision

NO_EVENT_START = 4.0
"""Initial score of the class "no event": most words of a sentence are not a trigger."""


class WideStartLinear(nn.Linear):
    """A linear layer with the initial weights of `start_wide`: with the small ones of encoders, vectors of
    length 1 would almost vanish before the layer norm of a map."""


class NonlinearMap(nn.Module):
    """The map of a mention's vector to its query or its key: two hidden layers (section 3.3).

    Args:
        skip_start: initial factor of the input vector in the sum with the map; None leaves the input out.
    """

    def __init__(self, dimension: int, dropout: float, skip_start: float | None):
        super().__init__()
        self.layers = nn.Sequential(
            WideStartLinear(dimension, dimension),
            nn.ReLU(),
            nn.Dropout(dropout),
            WideStartLinear(dimension, dimension),
            nn.ReLU(),
            nn.LayerNorm(dimension),
            nn.Dropout(dropout),
            WideStartLinear(dimension, dimension),
        )
        self.skip_start = skip_start
        self.skip_weight = None if skip_start is None else nn.Parameter(torch.empty(1))
        self.map_weight = None if skip_start is None else nn.Parameter(torch.empty(1))

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Map vectors, `(B, d)` to `(B, d)`."""
        mapped = self.layers(vectors)
        if self.skip_weight is None:
            return mapped
        return self.skip_weight * vectors + self.map_weight * mapped


@in_full_precision
def batch_attention(query: torch.Tensor, key: torch.Tensor, embeddings: torch.Tensor) -> torch.Tensor:
    """Clustered features: each mention as a mean of all, weighted by the softmax of its scores (section 3.3),
    `(B, d)`."""
    scores = query @ key.transpose(0, 1) / query.shape[1] ** 0.5
    return scores.softmax(dim=1) @ embeddings


class AuxiliaryHead(nn.Sequential):
    """The head that maps clustered features to the space of the type vectors (section 3.5)."""

    def __init__(self, dimension: int, target_dimension: int, hidden_layer: bool):
        hidden = (WideStartLinear(dimension, dimension), nn.ReLU()) if hidden_layer else ()
        super().__init__(*hidden, WideStartLinear(dimension, target_dimension))

    def forward(self, clustered: torch.Tensor) -> torch.Tensor:
        """Map clustered features, `(B, dimension)` to `(B, target_dimension)`."""
        return super().forward(clustered.to(dtype_of(self[-1])))


class ScoreBias(nn.Module):
    """A learned bias of every score; a separate module, so that adapters save it."""

    def __init__(self, start: float):
        super().__init__()
        self.start = start
        self.value = nn.Parameter(torch.empty(1))

    def forward(self) -> torch.Tensor:
        """The number, a scalar."""
        return self.value.squeeze()


class FirstScores(WideStartLinear):
    """The last layer of a trigger finder, which initially scores nearly every token as no event."""


FINDER_SIZE = 128
"""Size of the hidden layer of the trigger finder."""


class TriggerFinder(nn.Module):
    """Scores each token of a sentence: an event of a seen type, an event of another type, or no event.

    Beyond the paper. It learns from the event types of whole sentences (`noisy_or_loss`), without triggers.

    Args:
        hidden_size: size of a token vector in one layer of the encoder.
    """

    def __init__(self, hidden_size: int, num_layers: int, num_seen_types: int, dropout: float):
        super().__init__()
        self.shape = (num_layers, hidden_size)
        # Layers differ in scale.
        self.norm = nn.LayerNorm(hidden_size, elementwise_affine=False)
        self.layers = nn.Sequential(
            nn.Dropout(dropout),
            WideStartLinear(num_layers * hidden_size, FINDER_SIZE),
            nn.GELU(),
            nn.Dropout(dropout),
            FirstScores(FINDER_SIZE, num_seen_types + 2),
        )

    def forward(self, token_layers: torch.Tensor) -> torch.Tensor:
        """Score tokens, by their concatenated layers, `(batch, length, num_layers * hidden_size)`.

        Returns:
            `(batch, length, num_seen_types + 2)`: the seen types, an event of another type, and no event.
        """
        normed = self.norm(token_layers.float().unflatten(-1, self.shape)).flatten(-2)
        return self.layers(normed.to(dtype_of(self.layers[1])))


def token_probabilities(
    scores: torch.Tensor, token_mask: torch.Tensor, classes: torch.Tensor
) -> torch.Tensor:
    """Compute the probability of each token to express an event of its sentence's class, `(batch, length)`,
    float32.

    It is 0 outside of the mask. Scores are those of `TriggerFinder`, `(batch, length, classes)`; classes,
    `(batch,)`.
    """
    places = classes.view(-1, 1, 1).expand(-1, scores.shape[1], 1)
    return scores.float().softmax(dim=-1).gather(2, places).squeeze(2).masked_fill(~token_mask, 0.0)


def likeliest_tokens(probabilities: torch.Tensor, token_mask: torch.Tensor) -> torch.Tensor:
    """Find the token in each sentence's mask that most probably expresses an event, by `token_probabilities`.

    Returns:
        True for that token, `(batch, length)`; False throughout for a row without tokens to choose among.
    """
    best = probabilities.masked_fill(~token_mask, -1.0).argmax(dim=1, keepdim=True)
    return torch.zeros_like(token_mask).scatter(1, best, True) & token_mask


@in_full_precision
def token_weights(
    probabilities: torch.Tensor,
    token_mask: torch.Tensor,
    exponent: float,
    factors: torch.Tensor | None = None,
) -> torch.Tensor:
    """Compute the weights of the tokens in each sentence's mask from `token_probabilities`, without gradient.

    Args:
        exponent: power of the probabilities; 0 gives all tokens the same weight.
        factors: factors of the weights, positive, `(batch, length)`; None for equal ones.

    Returns:
        `(batch, length)`, float32, with the sum 1 in each row; 0 throughout for a row without tokens.
    """
    logarithms = probabilities.detach().clamp(min=torch.finfo(torch.float32).tiny).log()
    logits = exponent * logarithms
    if factors is not None:
        logits = logits + factors.log()
    weights = logits.masked_fill(~token_mask, -torch.inf).softmax(dim=1)
    return weights.masked_fill(~token_mask, 0.0)
