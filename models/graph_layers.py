"""Message passing over the heterogeneous event graph. Only this file needs torch-geometric."""

import torch
from torch import nn
from torch.nn import functional
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import softmax

from .event_graph import NUM_EDGE_TYPES
from .layer_weights import weight_of

LEAKY_SLOPE = 0.2


class GatedAttentionLayer(MessagePassing):
    """One layer of HeterEvent's message passing (Eq. 7 to 10).

    Attention runs over all neighbours of a node, of any type. As printed, the messages are the neighbours'
    unprojected vectors, and the sigmoid is taken of their weighted sum.

    Args:
        dimension: size D of the nodes' vectors.
        value_projection: send `W_v h` instead of h, as graph attention networks do.
        edge_type_bias: add a learned number for the type of an edge to its attention logit.
        gate_bias: initial value of the gate's bias; None has no bias, as printed.
    """

    def __init__(
        self,
        dimension: int,
        value_projection: bool = False,
        edge_type_bias: bool = False,
        gate_bias: float | None = None,
    ):
        super().__init__(aggr="sum", node_dim=0)
        self.attention_projection = nn.Linear(dimension, dimension, bias=False)
        self.attention = nn.Linear(2 * dimension, 1, bias=False)
        self.value_projection = nn.Linear(dimension, dimension, bias=False) if value_projection else None
        self.edge_type_bias = nn.Embedding(NUM_EDGE_TYPES, 1) if edge_type_bias else None
        self.gate = nn.Linear(2 * dimension, dimension, bias=False)
        self.gate_bias = None if gate_bias is None else nn.Parameter(torch.empty(dimension))
        self.gate_start = gate_bias

    def forward(self, nodes: torch.Tensor, edge_index: torch.Tensor, edge_type: torch.Tensor) -> torch.Tensor:
        """Pass messages along edges: nodes `(V, D)` to the same, with source and target of each edge, `(2,
        M)`, a self-loop at every node among them, and its type, `(M,)`."""
        # Sorted by target, the edges of a node are consecutive: they form its bag.
        order = edge_index[1].argsort(stable=True)
        edge_index, edge_type = edge_index[:, order], edge_type[order]
        values = nodes if self.value_projection is None else self.value_projection(nodes).to(nodes.dtype)
        weights = self.attention_weights(nodes, edge_index, edge_type).to(nodes.dtype)
        residual = self.propagate(edge_index, values=values, weights=weights).sigmoid() + nodes
        # Two products instead of one avoid the copy that concatenates their inputs.
        of_residual, of_nodes = weight_of(self.gate, nodes.device).chunk(2, dim=-1)
        gate = functional.linear(nodes, of_nodes, self.gate_bias) + functional.linear(residual, of_residual)
        return torch.lerp(nodes, residual.tanh(), gate.sigmoid().to(nodes.dtype))

    def propagate(self, edge_index: torch.Tensor, size=None, **inputs: torch.Tensor) -> torch.Tensor:
        """As in the base class, which would otherwise leave a generated module in the temporary folder."""
        return super().propagate(edge_index, size, **inputs)

    def attention_weights(
        self, nodes: torch.Tensor, edge_index: torch.Tensor, edge_type: torch.Tensor
    ) -> torch.Tensor:
        """Attention of each edge's target to its source (Eq. 8), `(M,)`; it sums to 1 over a node's edges.

        The logit of an edge is the sum of one number for the target and one for the source, so each number is
        computed once per node instead of once per edge.
        """
        attention, projection = (
            weight_of(layer, nodes.device) for layer in (self.attention, self.attention_projection)
        )
        of_target_and_source = attention.view(2, -1) @ projection
        for_target, for_source = functional.linear(nodes, of_target_and_source).unbind(dim=-1)
        source, target = edge_index
        logits = functional.leaky_relu(for_target[target] + for_source[source], LEAKY_SLOPE)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        if self.edge_type_bias is not None:
            logits = logits + self.edge_type_bias(edge_type).squeeze(-1)
        return softmax(logits, target, num_nodes=len(nodes))

    def message(self, weights: torch.Tensor) -> torch.Tensor:
        """The factor of the vector that a neighbour sends, `(M,)`: its attention weight."""
        return weights

    def aggregate(
        self, inputs: torch.Tensor, values: torch.Tensor, edge_index_j: torch.Tensor, index: torch.Tensor
    ) -> torch.Tensor:
        """Sum the messages that each node receives (Eq. 9), `(V, D)`.

        The sums are weighted bags of rows, so no message is ever in memory.
        """
        starts = torch.searchsorted(index, torch.arange(len(values), device=index.device))
        return functional.embedding_bag(edge_index_j, values, starts, mode="sum", per_sample_weights=inputs)
