"""Layers of event type induction beside the encoder: maps, attention, heads, and what finds triggers."""

import torch
from torch import nn

from .similarities import in_full_precision

NO_EVENT_START = 4.0
"""Score of no event at the start of training: most words of a sentence are no trigger."""


class WideStartLinear(nn.Linear):
    """A linear layer that starts as those of PyTorch do, with weights by the width of its input.

    With the small weights that encoders start with, vectors of length 1 would all but vanish before the layer
    norm of a map.
    """


class NonlinearMap(nn.Module):
    """The map of a mention's vector to its query or its key: two hidden layers (section 3.3).

    Args:
        dimension: size of the vectors, in and out.
        dropout: probability of both dropout layers.
        skip_start: what the vector itself is multiplied by, at the start of training, before it is added;
            None adds nothing.
        map_start: what the map is then multiplied by at the start; not used without `skip_start`.
    """

    def __init__(self, dimension: int, dropout: float, skip_start: float | None, map_start: float):
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
        self.starts = None if skip_start is None else (skip_start, map_start)
        self.skip_weight = None if skip_start is None else nn.Parameter(torch.empty(()))
        self.map_weight = None if skip_start is None else nn.Parameter(torch.empty(()))

    def forward(self, vectors: torch.Tensor) -> torch.Tensor:
        """Map vectors, `(B, d)` to `(B, d)`."""
        mapped = self.layers(vectors)
        if self.skip_weight is None:
            return mapped
        return self.skip_weight * vectors + self.map_weight * mapped


@in_full_precision
def batch_attention(query: torch.Tensor, key: torch.Tensor, embeddings: torch.Tensor) -> torch.Tensor:
    """Clustered features: each mention as a mean of all, weighted by the softmax of its scores (section 3.3).

    Args:
        query: `(B, d)`.
        key: `(B, d)`.
        embeddings: `(B, d)`.

    Returns:
        `(B, d)`.
    """
    scores = query @ key.transpose(0, 1) / query.shape[1] ** 0.5
    return scores.softmax(dim=1) @ embeddings


class AuxiliaryHead(nn.Sequential):
    """The head between clustered features and the vectors of types (section 3.5).

    Args:
        dimension: size of the clustered features.
        target_dimension: size of the vectors of types.
        hidden_layer: whether it has a hidden layer.
    """

    def __init__(self, dimension: int, target_dimension: int, hidden_layer: bool):
        hidden = (WideStartLinear(dimension, dimension), nn.ReLU()) if hidden_layer else ()
        super().__init__(*hidden, WideStartLinear(dimension, target_dimension))

    def forward(self, clustered: torch.Tensor) -> torch.Tensor:
        """Map clustered features, `(B, dimension)` to `(B, target_dimension)`."""
        return super().forward(clustered.to(self[-1].weight.dtype))


class ScoreBias(nn.Module):
    """A learned number that is added to every score; a module of its own, so that an adapter saves it."""

    def __init__(self, start: float):
        super().__init__()
        self.start = start
        self.value = nn.Parameter(torch.empty(()))

    def forward(self) -> torch.Tensor:
        """The number, a scalar."""
        return self.value


class FirstScores(WideStartLinear):
    """The last layer of a finder of triggers, which starts by calling nearly every token none."""


class TriggerFinder(nn.Module):
    """Scores what each token of a sentence carries: an event of a seen type, one of another, or none.

    Beyond the paper. It learns from sentences alone, of which is known what types of events they tell of
    (`noisy_or_loss`), and not from triggers.

    Args:
        hidden_size: entries of a token's vector in one layer of the encoder.
        num_layers: layers that are read.
        num_seen_types: seen types.
        finder_size: entries of the hidden layer.
        dropout: probability of both dropout layers.
    """

    def __init__(
        self, hidden_size: int, num_layers: int, num_seen_types: int, finder_size: int, dropout: float
    ):
        super().__init__()
        self.shape = (num_layers, hidden_size)
        # Layers differ in scale.
        self.norm = nn.LayerNorm(hidden_size, elementwise_affine=False)
        self.layers = nn.Sequential(
            nn.Dropout(dropout),
            WideStartLinear(num_layers * hidden_size, finder_size),
            nn.GELU(),
            nn.Dropout(dropout),
            FirstScores(finder_size, num_seen_types + 2),
        )

    def forward(self, token_layers: torch.Tensor) -> torch.Tensor:
        """Score tokens.

        Args:
            token_layers: the layers of each token, one behind the other, `(batch, length, num_layers *
                hidden_size)`.

        Returns:
            `(batch, length, num_seen_types + 2)`: the seen types, an event of another type, and no event.
        """
        normed = self.norm(token_layers.float().unflatten(-1, self.shape)).flatten(-2)
        return self.layers(normed.to(self.layers[1].weight.dtype))


def likeliest_tokens(scores: torch.Tensor, token_mask: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    """The token of each sentence that most probably carries an event of a class.

    Args:
        scores: what `TriggerFinder` gives, `(batch, length, classes)`.
        token_mask: true for the tokens to choose among, `(batch, length)`.
        classes: the class of each sentence, `(batch,)`.

    Returns:
        True for that token, `(batch, length)`; a row with no token to choose has none.
    """
    places = classes.view(-1, 1, 1).expand(-1, scores.shape[1], 1)
    probabilities = scores.float().softmax(dim=-1).gather(2, places).squeeze(2)
    best = probabilities.masked_fill(~token_mask, -1.0).argmax(dim=1, keepdim=True)
    return torch.zeros_like(token_mask).scatter(1, best, True) & token_mask
