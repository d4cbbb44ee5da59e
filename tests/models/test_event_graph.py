"""The graphs of chains against graphs built edge by edge, and what corrupted views keep."""

from __future__ import annotations

import pytest
import torch

from eventformers.models.event_graph import (
    EVENT_EVENT,
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
