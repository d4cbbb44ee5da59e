"""The message-passing layer against a loop over nodes and their neighbours, in float64."""

from __future__ import annotations

import pytest
import torch

from eventformers.models.event_graph import NUM_EDGE_TYPES
from eventformers.models.graph_layers import GatedAttentionLayer

NODES, SIZE = 7, 5
OPTIONS = [
    {},
    {"value_projection": True},
    {"edge_type_bias": True},
    {"value_projection": True, "edge_type_bias": True},
    {"gate_bias": -1.0},
]


def _layer(**options: float) -> GatedAttentionLayer:
    torch.manual_seed(0)
    layer = GatedAttentionLayer(SIZE, **options).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
    return layer


@pytest.fixture
def graph() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Nodes, edges in random order with a self-loop at every node, and edge types."""
    generator = torch.Generator().manual_seed(1)
    nodes = torch.randn(NODES, SIZE, generator=generator, dtype=torch.float64)
    joined = torch.rand(NODES, NODES, generator=generator) < 0.4
    # The last node is alone with itself.
    joined[-1], joined[:, -1] = False, False
    joined |= torch.eye(NODES, dtype=torch.bool)
    edge_index = joined.nonzero().T
    edge_index = edge_index[:, torch.randperm(edge_index.shape[1], generator=generator)]
    edge_type = torch.randint(NUM_EDGE_TYPES, edge_index.shape[1:], generator=generator)
    return nodes, edge_index, edge_type


def _slow_layer(
    layer: GatedAttentionLayer, nodes: torch.Tensor, edge_index: torch.Tensor, edge_type: torch.Tensor
) -> torch.Tensor:
    """Eq. 7 to 10, node by node."""
    rows = []
    for i in range(len(nodes)):
        arriving = [
            (source, kind)
            for source, target, kind in zip(*edge_index.tolist(), edge_type.tolist(), strict=True)
            if target == i
        ]
        exponentials = []
        for j, kind in arriving:
            projected = torch.cat(
                [layer.attention_projection.weight @ nodes[i], layer.attention_projection.weight @ nodes[j]]
            )
            logit = (layer.attention.weight @ projected).squeeze()
            logit = logit if logit > 0 else 0.2 * logit
            if layer.edge_type_bias is not None:
                logit = logit + layer.edge_type_bias.weight[kind, 0]
            exponentials.append(logit.exp())
        total = sum(exponentials)
        message = torch.zeros(SIZE, dtype=torch.float64)
        for (j, _), exponential in zip(arriving, exponentials, strict=True):
            sent = nodes[j]
            if layer.value_projection is not None:
                sent = layer.value_projection.weight @ sent
            message = message + exponential / total * sent
        u = 1 / (1 + (-message).exp()) + nodes[i]
        opening = layer.gate.weight @ torch.cat([u, nodes[i]])
        if layer.gate_bias is not None:
            opening = opening + layer.gate_bias
        gate = 1 / (1 + (-opening).exp())
        rows.append(gate * u.tanh() + (1 - gate) * nodes[i])
    return torch.stack(rows)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "+".join(options) or "literal")
def test_equals_a_loop_over_nodes(options: dict[str, float], graph: tuple[torch.Tensor, ...]) -> None:
    """Values and the gradient of every parameter and node."""
    layer = _layer(**options)
    nodes, edge_index, edge_type = graph
    weights = torch.randn(NODES, SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    results = []
    for run in (layer, lambda *arguments: _slow_layer(layer, *arguments)):
        leaf = nodes.clone().requires_grad_()
        values = run(leaf, edge_index, edge_type)
        gradients = torch.autograd.grad((weights * values).sum(), [leaf, *layer.parameters()])
        results.append((values, *gradients))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
        assert (expected != 0).any()


def test_keeps_no_vector_of_an_edge() -> None:
    """Messages are summed as they arise: what a layer keeps grows with nodes, not with edges."""
    layer = _layer(value_projection=True, edge_type_bias=True)
    nodes = torch.randn(NODES, SIZE, dtype=torch.float64, requires_grad=True)
    edge_index = torch.ones(NODES, NODES).nonzero().T
    kept = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        layer(nodes, edge_index, torch.zeros_like(edge_index[0]))
    assert max(kept) < edge_index.shape[1] * SIZE


def test_a_node_without_edges_hears_nothing() -> None:
    layer = _layer()
    nodes = torch.randn(2, SIZE, dtype=torch.float64)
    found = layer(nodes, torch.tensor([[1], [1]]), torch.tensor([3]))
    heard = layer.gate.weight @ torch.cat([nodes[0] + 0.5, nodes[0]])
    expected = heard.sigmoid() * (nodes[0] + 0.5).tanh() + (1 - heard.sigmoid()) * nodes[0]
    torch.testing.assert_close(found[0], expected)
    nothing = layer(nodes[:0], torch.empty(2, 0, dtype=torch.long), torch.empty(0, dtype=torch.long))
    assert nothing.shape == (0, SIZE)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dtypes(dtype: torch.dtype, graph: tuple[torch.Tensor, ...]) -> None:
    nodes, edge_index, edge_type = graph
    layer = _layer(value_projection=True, edge_type_bias=True)
    expected = layer(nodes, edge_index, edge_type)
    lower = layer.to(dtype)(nodes.to(dtype), edge_index, edge_type)
    assert lower.dtype == dtype
    tolerance = {torch.float32: 1e-4, torch.bfloat16: 0.15}[dtype]
    torch.testing.assert_close(lower.double(), expected, rtol=tolerance, atol=tolerance)


def test_autocast(graph: tuple[torch.Tensor, ...]) -> None:
    nodes, edge_index, edge_type = graph
    layer = _layer(value_projection=True, edge_type_bias=True).float()
    expected = layer(nodes.float(), edge_index, edge_type)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = layer(nodes.float(), edge_index, edge_type)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=0.1, atol=0.1)


def test_no_module_is_generated() -> None:
    _layer()
    assert GatedAttentionLayer.propagate.__module__ == GatedAttentionLayer.__module__
