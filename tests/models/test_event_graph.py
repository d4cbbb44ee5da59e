"""The graph of chains, its layers, and the encoder of a chain."""

from __future__ import annotations

import pytest
import torch

from eventformers.models.event_graph import (
    EVENT_EVENT,
    NUM_EDGE_TYPES,
    SELF_LOOP,
    WORD_EVENT,
    WORD_WORD,
    EventGraph,
    build_event_graph,
    chains_of_rows,
    draw_kept_edges,
    draw_kept_features,
    pad_nodes,
    start_nodes,
)
from eventformers.models.graph_layers import GatedAttentionLayer
from eventformers.models.heterevent_layers import ChainEncoder

EVENT_WORDS = torch.tensor(
    [[7, 2, -1], [2, 9, 7], [-1, -1, -1], [4, -1, -1], [0, 3, 5], [9, 2, 8]], dtype=torch.long
)
CHAINS = torch.tensor([[0, 1, 5, 4], [3, 2, -1, -1], [4, -1, -1, -1], [2, -1, -1, -1], [1, 1, 0, -1]])
SEEDS = torch.randint(2**62, (len(CHAINS), 4), generator=torch.Generator().manual_seed(0))

Name = tuple[str, int]
"""An event by its place, or a word by its number."""


def _slow_graph(chain: list[int]) -> tuple[list[Name], set[tuple[Name, Name, int]]]:
    """Nodes of one chain in order, and its directed edges with their types."""
    events = [event for event in chain if event >= 0]
    nodes: list[Name] = [("event", place) for place in range(len(events))]
    words = [[word for word in EVENT_WORDS[event].tolist() if word >= 0] for event in events]
    nodes += [("word", word) for word in dict.fromkeys(word for row in words for word in row)]
    edges: set[tuple[Name, Name, int]] = {(node, node, SELF_LOOP) for node in nodes}
    for place, row in enumerate(words):
        if place:
            edges.add((("event", place - 1), ("event", place), EVENT_EVENT))
        for word in row:
            edges.add((("word", word), ("event", place), WORD_EVENT))
            edges |= {(("word", word), ("word", other), WORD_WORD) for other in row if other != word}
    return nodes, edges | {(target, source, kind) for source, target, kind in edges}


def _named_edges(graph: EventGraph, names: list[Name]) -> list[tuple[Name, Name, int]]:
    sources, targets = graph.edge_index.tolist()
    return [
        (names[source], names[target], kind)
        for source, target, kind in zip(sources, targets, graph.edge_type.tolist(), strict=True)
    ]


def test_equals_a_graph_built_edge_by_edge() -> None:
    graph = build_event_graph(CHAINS, EVENT_WORDS)
    names: list[tuple[int, Name]] = []
    expected = set()
    for number, chain in enumerate(CHAINS.tolist()):
        nodes, edges = _slow_graph(chain)
        assert graph.node_position[len(names) : len(names) + len(nodes)].tolist() == list(range(len(nodes)))
        assert int(graph.nodes_of_chain[number]) == len(nodes)
        for place, event in enumerate(chain):
            assert int(graph.event_nodes[number, place]) == (-1 if event < 0 else len(names) + place)
            for slot, word in enumerate(EVENT_WORDS[event].tolist()):
                there = event >= 0 and word >= 0
                node = len(names) + nodes.index(("word", word)) if there else -1
                assert int(graph.word_nodes[number, place, slot]) == node
        names += [(number, node) for node in nodes]
        expected |= {((number, source), (number, target), kind) for source, target, kind in edges}
    found = _named_edges(graph, names)  # type: ignore[arg-type]
    assert len(found) == len(set(found))
    assert set(found) == expected
    assert graph.node_chain.tolist() == [number for number, _ in names]
    assert graph.node_word.tolist() == [value if kind == "word" else -1 for _, (kind, value) in names]


def test_no_chain_has_a_word() -> None:
    graph = build_event_graph(torch.tensor([[0, 1]]), torch.full((2, 1), -1))
    assert sorted(graph.edge_index.T.tolist()) == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert graph.node_word.tolist() == [-1, -1]


def test_refuses_a_hole_in_a_chain() -> None:
    with pytest.raises(ValueError, match="an event after -1"):
        build_event_graph(torch.tensor([[0, -1, 1]]), EVENT_WORDS)


def test_refuses_an_event_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="names the event 6; accepted: 0 to 5"):
        build_event_graph(torch.tensor([[0, 6]]), EVENT_WORDS)


def test_repeat_puts_copies_one_after_another() -> None:
    graph = build_event_graph(CHAINS, EVENT_WORDS)
    repeated = graph.repeat(3)
    # The same as building the graph of the chains three times over.
    expected = build_event_graph(CHAINS.repeat(3, 1), EVENT_WORDS)
    for name in ("node_chain", "node_position", "node_word", "event_nodes", "word_nodes", "nodes_of_chain"):
        assert torch.equal(getattr(repeated, name), getattr(expected, name)), name
    edges = [
        sorted(zip(*one.edge_index.tolist(), one.edge_type.tolist(), strict=True))
        for one in (repeated, expected)
    ]
    assert edges[0] == edges[1]
    # Edge m of copy g is edge g * M + m: what is drawn for the views has this order.
    size = len(graph.edge_type)
    assert torch.equal(repeated.edge_index[:, size : 2 * size] - len(graph.node_chain), graph.edge_index)


def test_start_nodes() -> None:
    """States for events; for a word the mean over the events of its chain that hold it."""
    generator = torch.Generator().manual_seed(1)
    states = torch.randn(*CHAINS.shape, 3, generator=generator)
    words = torch.randn(*EVENT_WORDS.shape, 3, generator=generator)
    graph = build_event_graph(CHAINS, EVENT_WORDS)
    nodes = start_nodes(states, CHAINS, words, graph)
    for node, (chain, place, word) in enumerate(
        zip(graph.node_chain.tolist(), graph.node_position.tolist(), graph.node_word.tolist(), strict=True)
    ):
        if word < 0:
            expected = states[chain, place]
        else:
            expected = torch.stack(
                [
                    words[event, slot]
                    for event in CHAINS[chain].tolist()
                    if event >= 0
                    for slot, other in enumerate(EVENT_WORDS[event].tolist())
                    if other == word
                ]
            ).mean(dim=0)
        torch.testing.assert_close(nodes[node], expected)


@pytest.mark.parametrize("parts", [1, 2, len(CHAINS) + 1])
@pytest.mark.parametrize("copies", [1, 3])
def test_pad_nodes(copies: int, parts: int) -> None:
    """Each chain stands in one part, with its nodes of each copy, beside chains of its size."""
    graph = build_event_graph(CHAINS, EVENT_WORDS)
    repeated = graph.repeat(copies)
    nodes = torch.arange(1.0, len(repeated.node_chain) + 1).unsqueeze(1).requires_grad_()
    padded = pad_nodes(nodes, graph, copies, parts)
    assert len(padded) == min(parts, len(CHAINS))
    found, sizes = [], []
    for rows, mask in padded:
        assert rows.shape == (len(mask), copies, int(mask.sum(dim=1).max()), 1)
        for of_chain, own in zip(rows, mask, strict=True):
            assert not of_chain[:, ~own].any()
            found.append(of_chain[:, own].flatten(0, 1).squeeze(1).tolist())
            sizes.append(int(own.sum()))
    assert sizes == sorted(sizes)
    expected = [
        [
            value
            for copy in range(copies)
            for value in nodes[repeated.node_chain == copy * len(CHAINS) + chain].squeeze(1).tolist()
        ]
        for chain in range(len(CHAINS))
    ]
    assert sorted(found) == sorted(expected)
    torch.cat([rows.flatten() for rows, _ in padded]).sum().backward()
    assert (nodes.grad == 1).all()


def test_pad_nodes_of_no_chain() -> None:
    graph = build_event_graph(CHAINS[:0], EVENT_WORDS)
    assert pad_nodes(torch.empty(0, 2), graph) == []


# Corrupted views


def test_both_directions_go_together_and_self_loops_stay() -> None:
    graph = build_event_graph(CHAINS, EVENT_WORDS)
    kept = draw_kept_edges(graph, SEEDS, 0.5)
    assert kept.shape == (SEEDS.shape[1], len(graph.edge_type))
    assert kept[:, graph.edge_type == SELF_LOOP].all()
    for view in kept:
        of_edge = dict(zip(map(tuple, graph.edge_index.T.tolist()), view.tolist(), strict=True))
        assert all(of_edge[target, source] == stays for (source, target), stays in of_edge.items())


@pytest.mark.parametrize("chain", range(len(CHAINS)))
def test_draws_do_not_depend_on_the_batch(chain: int) -> None:
    """A chain has the same corrupted views alone, as in another process."""
    together = build_event_graph(CHAINS, EVENT_WORDS)
    alone = build_event_graph(CHAINS[chain : chain + 1], EVENT_WORDS)
    own = together.node_chain[together.edge_index[0]] == chain
    start = int(together.nodes_of_chain[:chain].sum())
    seeds = SEEDS[chain : chain + 1]
    drawn = draw_kept_edges(together, SEEDS, 0.4)[:, own], draw_kept_edges(alone, seeds, 0.4)
    edges = (together.edge_index[:, own] - start), alone.edge_index
    found, expected = (
        dict(zip(map(tuple, index.T.tolist()), kept.T.tolist(), strict=True))
        for index, kept in zip(edges, drawn, strict=True)
    )
    assert found == expected
    features = draw_kept_features(SEEDS, 12, 0.4)[:, chain]
    assert torch.equal(features, draw_kept_features(seeds, 12, 0.4)[:, 0])


def test_shares_that_stay() -> None:
    """As the probabilities say, independent of one another across seeds and places."""
    graph = build_event_graph(torch.arange(60).unsqueeze(0), torch.arange(180).view(60, 3))
    seeds = torch.arange(50).unsqueeze(0)
    kept = draw_kept_edges(graph, seeds, 0.2)[:, graph.edge_type != SELF_LOOP].double()
    assert kept.mean().item() == pytest.approx(0.8, abs=0.01)
    assert kept.mean(dim=0).std().item() == pytest.approx((0.16 / 50) ** 0.5, rel=0.15)
    features = draw_kept_features(seeds, 400, 0.3)[:, 0].double()
    assert features.mean().item() == pytest.approx(0.7, abs=0.015)
    assert features.mean(dim=1).std().item() == pytest.approx((0.21 / 400) ** 0.5, rel=0.3)
    assert features.T.unique(dim=0).shape[0] == 400
    assert draw_kept_edges(graph, seeds, 0.0).all()
    assert draw_kept_features(seeds, 400, 0.0).all()


def _slow_mixed(value: int) -> int:
    """SplitMix64 on whole numbers modulo 2^64."""
    value = (value + 0x9E3779B97F4A7C15) % 2**64
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
    return value ^ (value >> 31)


def test_draws_are_a_hash_of_seed_and_place() -> None:
    """In whole numbers of any size, as on every device; a resumed run draws what it drew before."""
    seeds = [0, 1, 2**62 + 5, 2**63 - 1]
    for drop in (0.2, 0.5):
        expected = [
            [_slow_mixed((_slow_mixed(seed * 4 + 2) + place) % 2**64) / 2**64 >= drop for place in range(64)]
            for seed in seeds
        ]
        assert draw_kept_features(torch.tensor([seeds]), 64, drop)[:, 0].tolist() == expected


# Chains of rows


def test_rows_of_a_chain_in_order() -> None:
    chains, (chain, place) = chains_of_rows(torch.tensor([5, 2, 5, 5, 9, 2]))
    assert chains.tolist() == [[1, 5, -1], [0, 2, 3], [4, -1, -1]]
    assert chain.tolist() == [1, 0, 1, 1, 2, 0]
    assert place.tolist() == [0, 0, 1, 2, 0, 1]


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


EVENTS, EVENT_SIZE, CHAIN_SIZE = 6, 5, 8
CHAIN_LENGTHS = torch.tensor(
    [
        [0, 1, 2, 3],
        [0, 1, 3, 2],
        [0, 1, -1, -1],
        [4, -1, -1, -1],
        [0, 1, 2, 3],
        [5, 5, 5, -1],
        [-1, -1, -1, -1],
    ]
)


@pytest.fixture
def encoder() -> ChainEncoder:
    torch.manual_seed(0)
    encoder = ChainEncoder(EVENT_SIZE, CHAIN_SIZE).double()
    with torch.no_grad():
        encoder.chain_token.normal_()
    return encoder


@pytest.fixture
def events() -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(EVENTS, EVENT_SIZE, generator=generator, dtype=torch.float64)


def _by_torch(encoder: ChainEncoder, events: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """States of events `(C, n, D)` and of the chain token `(C, D)`, a chain at a time."""
    states, of_token = [], []
    for chain in CHAIN_LENGTHS:
        rows = [events[event] for event in chain.tolist() if event >= 0]
        output, _ = encoder.gru(torch.stack([*rows, encoder.chain_token]).unsqueeze(0))
        padding = torch.zeros(CHAIN_LENGTHS.shape[1] - len(rows), CHAIN_SIZE, dtype=torch.float64)
        states.append(torch.cat([output[0, :-1], padding]))
        of_token.append(output[0, -1])
    return torch.stack(states), torch.stack(of_token)


def test_equals_torch(encoder: ChainEncoder, events: torch.Tensor) -> None:
    """Values and the gradient of every weight and event."""
    draw = torch.Generator().manual_seed(2)
    weights = [
        torch.randn(*CHAIN_LENGTHS.shape, CHAIN_SIZE, generator=draw, dtype=torch.float64),
        torch.randn(len(CHAIN_LENGTHS), CHAIN_SIZE, generator=draw, dtype=torch.float64),
    ]
    results = []
    for run in (encoder, lambda leaf, _: _by_torch(encoder, leaf)):
        leaf = events.clone().requires_grad_()
        values = run(leaf, CHAIN_LENGTHS)
        loss = sum((weight * value).sum() for weight, value in zip(weights, values, strict=True))
        results.append([*values, *torch.autograd.grad(loss, [leaf, *encoder.parameters()])])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)
        assert (expected != 0).any()


def test_chain_states_alone(encoder: ChainEncoder, events: torch.Tensor) -> None:
    """The same state at the chain token, for any leading dimensions, without the backward half's run."""
    _, expected = encoder(events, CHAIN_LENGTHS)
    found = encoder.chain_states(events, CHAIN_LENGTHS.expand(2, 3, *CHAIN_LENGTHS.shape))
    torch.testing.assert_close(found, expected.expand(2, 3, *expected.shape))


def test_every_prefix_runs_once(
    encoder: ChainEncoder, events: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    from eventformers.models import heterevent_layers

    rows = []
    cell = heterevent_layers._gru_cell

    def counted(inputs: torch.Tensor, *arguments: torch.Tensor) -> torch.Tensor:
        rows.append(len(inputs))
        return cell(inputs, *arguments)

    monkeypatch.setattr(heterevent_layers, "_gru_cell", counted)
    encoder.chain_states(events, CHAIN_LENGTHS)
    prefixes = {
        tuple(sequence[:length])
        for chain in CHAIN_LENGTHS.tolist()
        for sequence in [[*(event for event in chain if event >= 0), "token"]]
        for length in range(1, len(sequence) + 1)
    }
    # And one row for the backward half of all chains.
    assert sum(rows) == len(prefixes) + 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_dtypes_of_states(encoder: ChainEncoder, events: torch.Tensor, dtype: torch.dtype) -> None:
    expected, _ = encoder(events, CHAIN_LENGTHS)
    states, _ = encoder.to(dtype)(events.to(dtype), CHAIN_LENGTHS)
    assert states.dtype == dtype
    torch.testing.assert_close(states.double(), expected, rtol=0.1, atol=0.05)


def test_autocast_leaves_it_as_it_is(encoder: ChainEncoder, events: torch.Tensor) -> None:
    encoder, events = encoder.float(), events.float()
    expected, _ = encoder(events, CHAIN_LENGTHS)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        states, _ = encoder(events, CHAIN_LENGTHS)
    assert torch.equal(states, expected)
