"""Message passing over the heterogeneous event graph, on torch-geometric: the one file that needs it."""

import torch
from torch import nn
from torch.nn import functional
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import softmax

from .event_graph import NUM_EDGE_TYPES

LEAKY_SLOPE = 0.2


class GatedAttentionLayer(MessagePassing):
    """One layer of HeterEvent's message passing (Eq. 7 to 10).

    Attention runs over all neighbours of a node, of whatever type. As printed, the messages are the
    neighbours' vectors as they are and the sigmoid is taken of their weighted sum.

    Args:
        dimension: size D of the nodes' vectors.
        value_projection: send `W_v h` instead of h, as graph attention networks do.
        edge_type_bias: add a learned number for the type of an edge to its attention logit.
        gate_bias: where the gate's bias starts; None has no bias, as printed.
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
        """Pass messages along the edges.

        Args:
            nodes: `(V, D)`.
            edge_index: source and target of each edge, `(2, M)`, with a self-loop at every node.
            edge_type: `(M,)`.

        Returns:
            `(V, D)`.
        """
        values = nodes if self.value_projection is None else self.value_projection(nodes).to(nodes.dtype)
        weights = self.attention_weights(nodes, edge_index, edge_type).to(nodes.dtype)
        residual = self.propagate(edge_index, values=values, weights=weights).sigmoid() + nodes
        gate = self.gate(torch.cat([residual, nodes], dim=-1))
        gate = (gate if self.gate_bias is None else gate + self.gate_bias).sigmoid()
        return (gate * residual.tanh() + (1 - gate) * nodes).to(nodes.dtype)

    def attention_weights(
        self, nodes: torch.Tensor, edge_index: torch.Tensor, edge_type: torch.Tensor
    ) -> torch.Tensor:
        """Attention of each edge's target to its source (Eq. 8), `(M,)`; it sums to 1 over a node's edges.

        The logit of an edge is a sum of one number for the target and one for the source, so each is
        computed once for a node and not for every edge.
        """
        of_target, of_source = self.attention.weight.view(2, -1) @ self.attention_projection.weight
        source, target = edge_index
        logits = functional.leaky_relu((nodes @ of_target)[target] + (nodes @ of_source)[source], LEAKY_SLOPE)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        if self.edge_type_bias is not None:
            logits = logits + self.edge_type_bias(edge_type).squeeze(-1)
        return softmax(logits, target, num_nodes=len(nodes))

    def message(self, values_j: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        """What a neighbour sends: its vector, by the attention that it gets, `(M, D)`."""
        return weights.unsqueeze(-1) * values_j
