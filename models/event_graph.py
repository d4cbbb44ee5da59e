"""The heterogeneous event graph of a chain (HeterEvent), as index tensors, in plain torch.

The graphs of all chains of a batch form one graph without edges between chains, as in torch-geometric's
`Batch`. The layers that pass messages are torch-geometric's (`graph_layers`); its other parts are slower here
and would not repeat a run. For 128 chains of nine events of three words, on one thread of a CPU:

- A `Data` for each chain and `Batch.from_data_list` take 11.7 ms, of which batching alone 0.9; building all
  graphs as index tensors, on the device of the model, takes 0.8.
- `dropout_edge` and `mask_feature` draw from the global generator, so that a row's draws depend on its batch,
  and `mask_feature` masks the same dimensions in all chains. Called once for each of eight views they take
  8.4 ms, once for each chain 47; draws from a hash of seed and edge, equal on every device, take 4.0.
- `SumAggregation` holds a message for each edge: forward and backward pass take 16.6 ms for vectors of 256
  numbers, and 6.6 as weighted bags of rows.
"""

from typing import NamedTuple

import torch
from torch import nn

from .choice_rows import ABSENT, split_rows

WORD_WORD, WORD_EVENT, EVENT_EVENT, SELF_LOOP = range(4)
NUM_EDGE_TYPES = 4
NO_NODE = -1
"""Padding: no event, word or node."""
_EDGE_DRAWS, _FEATURE_DRAWS = 1, 2
_DRAW_BITS = 53


class EventGraph(NamedTuple):
    """The graphs of C chains, with V nodes and M directed edges in total.

    The nodes of a chain are consecutive: its events in order, then its words in the order in which they first
    occur. The graph of a chain is therefore the same whatever else is in the batch.
    Args:
        edge_index: source and target of each edge, `(2, M)`; both directions of every edge, and a self-loop
            at every node.
        edge_type: `WORD_WORD`, `WORD_EVENT`, `EVENT_EVENT` or `SELF_LOOP`, `(M,)`.
        node_chain: the chain of each node, `(V,)`.
        node_position: the node's position in its chain's own graph, `(V,)`.
        node_word: the word of each node, `(V,)`; -1 for an event.
        event_nodes: the node of each event of each chain, `(C, n)`; -1 for padding.
        word_nodes: the nodes of each event's words, `(C, n, W)`; padded with -1.
        nodes_of_chain: number of nodes of each chain, `(C,)`.
    """

    edge_index: torch.Tensor
    edge_type: torch.Tensor
    node_chain: torch.Tensor
    node_position: torch.Tensor
    node_word: torch.Tensor
    event_nodes: torch.Tensor
    word_nodes: torch.Tensor
    nodes_of_chain: torch.Tensor

    def repeat(self, times: int) -> "EventGraph":
        """Concatenate copies of the graphs of the whole batch."""
        num_nodes, num_chains = len(self.node_chain), len(self.nodes_of_chain)

        def shifted(values: torch.Tensor, step: int) -> torch.Tensor:
            """Copies along the first dimension, each with its indexes shifted; -1 stays."""
            shifts = step * torch.arange(times, device=values.device).view(-1, *[1] * values.dim())
            return torch.where(values >= 0, values + shifts, values.expand(times, *values.shape)).flatten(
                0, 1
            )

        edges = shifted(self.edge_index.T, num_nodes).T
        return EventGraph(
            edge_index=edges,
            edge_type=self.edge_type.repeat(times),
            node_chain=shifted(self.node_chain, num_chains),
            node_position=self.node_position.repeat(times),
            node_word=self.node_word.repeat(times),
            event_nodes=shifted(self.event_nodes, num_nodes),
            word_nodes=shifted(self.word_nodes, num_nodes),
            nodes_of_chain=self.nodes_of_chain.repeat(times),
        )


def chains_of_rows(chain_index: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
    """Group rows into chains by the chain of each row, `(R,)`, any numbers; the rows of a chain are in its
    order.

    Returns:
        Chains of row indexes, `(C, n)`, padded with -1 at the end, and the chain and the position of each
        row, `(R,)` each.
    """
    _, chain, counts = chain_index.unique(return_inverse=True, return_counts=True)
    order = chain.argsort(stable=True)
    start = counts.cumsum(0) - counts
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=order.device) - start[chain[order]]
    longest = int(counts.max()) if len(counts) else 0
    chains = torch.full((len(counts), longest), NO_NODE, dtype=torch.long, device=order.device)
    chains[chain, place] = torch.arange(len(order), device=order.device)
    return chains, (chain, place)


def build_event_graph(chains: torch.Tensor, event_words: torch.Tensor) -> EventGraph:
    """Build the graph of every chain: its events and distinct words, joined by three types of edges.

    An edge joins two words of one event, a word and an event that contains it, and two consecutive events of
    the chain.

    Args:
        chains: rows of `event_words`, `(C, n)`; padded with -1 at the end.
        event_words: the distinct words of each event, `(E, W)`; padded with -1.

    Raises:
        ValueError: a chain has an event after padding, or an index outside `event_words`.
    """
    device = chains.device
    is_event = chains >= 0
    if bool((is_event[:, 1:] & ~is_event[:, :-1]).any()):
        raise ValueError("a chain has an event after -1; accepted: -1 only at the end of a chain")
    if bool((chains >= len(event_words)).any()):
        raise ValueError(
            f"a chain names the event {int(chains.max())}; accepted: 0 to {len(event_words) - 1}, the rows "
            "of the batch"
        )
    num_chains, length = chains.shape
    words = event_words[chains.clamp(min=0)].masked_fill(~is_event.unsqueeze(-1), NO_NODE)
    is_word = words >= 0

    # Words of a chain, numbered by their first occurrence.
    occurrence_chain = torch.arange(num_chains, device=device).view(-1, 1, 1).expand_as(words)[is_word]
    span = int(words.max()) + 1 if words.numel() and bool(is_word.any()) else 1
    distinct, inverse = (occurrence_chain * span + words[is_word]).unique(return_inverse=True)
    occurrences = torch.arange(len(inverse), device=device)
    first = torch.full_like(distinct, len(inverse)).scatter_reduce(0, inverse, occurrences, "amin")
    by_occurrence = first.argsort()
    rank = torch.empty_like(by_occurrence)
    rank[by_occurrence] = torch.arange(len(distinct), device=device)
    word_chain = torch.div(distinct, span, rounding_mode="floor")[by_occurrence]
    word_ids = (distinct % span)[by_occurrence]

    num_events = is_event.sum(dim=1)
    num_words = torch.bincount(word_chain, minlength=num_chains)
    nodes_of_chain = num_events + num_words
    offset = nodes_of_chain.cumsum(0) - nodes_of_chain
    words_before = num_words.cumsum(0) - num_words
    positions = torch.arange(length, device=device)
    event_nodes = torch.where(is_event, offset.unsqueeze(1) + positions, NO_NODE)
    node_of_word = (offset + num_events - words_before)[word_chain] + torch.arange(
        len(word_chain), device=device
    )
    word_nodes = torch.full_like(words, NO_NODE)
    word_nodes[is_word] = node_of_word[rank[inverse]]

    num_nodes = int(nodes_of_chain.sum())
    node_chain = torch.arange(num_chains, device=device).repeat_interleave(nodes_of_chain)
    node_word = torch.full((num_nodes,), NO_NODE, dtype=torch.long, device=device)
    node_word[node_of_word] = word_ids
    edge_index, edge_type = _edges(event_nodes, word_nodes, num_nodes)
    return EventGraph(
        edge_index=edge_index,
        edge_type=edge_type,
        node_chain=node_chain,
        node_position=torch.arange(num_nodes, device=device) - offset[node_chain],
        node_word=node_word,
        event_nodes=event_nodes,
        word_nodes=word_nodes,
        nodes_of_chain=nodes_of_chain,
    )


def _edges(
    event_nodes: torch.Tensor, word_nodes: torch.Tensor, num_nodes: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Edges in both directions with their types, and self-loops: `(2, M)` and `(M,)`."""
    device = event_nodes.device
    width = word_nodes.shape[-1]
    left, right = torch.triu_indices(width, width, offset=1, device=device)
    pairs = torch.stack([word_nodes[..., left], word_nodes[..., right]], dim=-1).flatten(0, -2)
    pairs = pairs[(pairs >= 0).all(dim=-1)].sort(dim=-1).values
    # Two words that co-occur in several events of a chain are joined once.
    codes = (pairs[:, 0] * num_nodes + pairs[:, 1]).unique()
    pairs = torch.stack(
        [torch.div(codes, max(num_nodes, 1), rounding_mode="floor"), codes % max(num_nodes, 1)]
    )
    containing = torch.stack([event_nodes.unsqueeze(-1).expand_as(word_nodes), word_nodes])
    containing = containing[:, word_nodes >= 0]
    following = torch.stack([event_nodes[:, :-1], event_nodes[:, 1:]])[:, event_nodes[:, 1:] >= 0]
    loops = torch.arange(num_nodes, device=device).expand(2, -1)
    groups = ((pairs, WORD_WORD), (containing, WORD_EVENT), (following, EVENT_EVENT))
    edges = [part for group, _ in groups for part in (group, group.flip(0))]
    kinds = torch.tensor([*(kind for _, kind in groups), SELF_LOOP], device=device)
    counts = torch.tensor([*(2 * group.shape[1] for group, _ in groups), num_nodes], device=device)
    edge_type = kinds.repeat_interleave(counts)
    return torch.cat([*edges, loops], dim=1), edge_type


def start_nodes(
    states: torch.Tensor, chains: torch.Tensor, words: torch.Tensor, graph: EventGraph
) -> torch.Tensor:
    """Vectors of all nodes before the first layer, `(V, D)`; arguments as for
    `HeterEventModel.encode_graphs`.

    The initial vector of an event node is the event's state; that of a word node is the mean vector of the
    word over the events of its chain.
    """
    is_event, is_word = graph.event_nodes >= 0, graph.word_nodes >= 0
    nodes = states.new_zeros(len(graph.node_chain), states.shape[-1])
    places = graph.word_nodes[is_word]
    occurrences = words[chains.clamp(min=0)][is_word].to(states.dtype)
    summed = nodes.index_put((places,), occurrences, accumulate=True)
    times = torch.bincount(places, minlength=len(nodes)).clamp(min=1)
    means = summed / times.unsqueeze(1).to(summed.dtype)
    return means.index_put((graph.event_nodes[is_event],), states[is_event])


def nodes_at(nodes: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Vectors of nodes by their indexes: `(V, D)` and `(...)` to `(..., D)`, zeros for the index -1."""
    return nn.functional.pad(nodes, (0, 0, 0, 1))[places]


def pad_nodes(
    nodes: torch.Tensor, graph: EventGraph, copies: int = 1, parts: int = 1
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Pad the nodes of each chain to one row, for each copy of the graph.

    Chains are grouped by their number of nodes, in at most `parts` groups, so that fewer rows are padding.

    Args:
        nodes: nodes of the copies, in the order of `EventGraph.repeat`, `(copies * V, D)`.

    Returns:
        For each group of k chains its nodes `(k, copies, longest, D)`, zeros at padding, and a mask `(k,
        longest)`, True for a node.
    """
    by_size = graph.nodes_of_chain.argsort(stable=True)
    chains = [part for part in by_size.tensor_split(parts) if len(part)]
    if not chains:
        return []
    longest = graph.nodes_of_chain[torch.stack([part[-1] for part in chains])].tolist()
    rows = [len(part) * copies * width for part, width in zip(chains, longest, strict=True)]
    counts = torch.tensor([len(part) for part in chains], device=nodes.device)
    width_by_size = torch.tensor(longest, device=nodes.device).repeat_interleave(counts)
    width = torch.empty_like(by_size).index_copy(0, by_size, width_by_size)
    of_chain = copies * width_by_size
    start = torch.empty_like(by_size).index_copy(0, by_size, of_chain.cumsum(0) - of_chain)
    copy = torch.arange(copies, device=nodes.device).unsqueeze(1)
    places = (start + copy * width)[:, graph.node_chain] + graph.node_position
    padded = nodes.new_zeros(sum(rows), nodes.shape[-1]).index_copy(0, places.flatten(), nodes)
    return [
        (
            block.unflatten(0, (len(part), copies, width)),
            torch.arange(width, device=nodes.device) < graph.nodes_of_chain[part].unsqueeze(1),
        )
        for block, part, width in zip(padded.split(rows), chains, longest, strict=True)
    ]


def draw_kept_edges(graph: EventGraph, seeds: torch.Tensor, drop: float) -> torch.Tensor:
    """Draw which edges of corrupted views are kept, `(G, M)` (GCA's edge dropping), from a seed for each view
    of each chain, `(C, G)`.

    Both directions of an edge are kept or dropped together, and self-loops are kept. A draw depends only on
    the seed and on the edge's position in its chain's own graph.
    """
    source, target = graph.node_position[graph.edge_index]
    # Positions in one graph are far below 2^31, so no two edges of a graph share a number.
    edge = (torch.minimum(source, target) << 31) + torch.maximum(source, target)
    seed = seeds[graph.node_chain[graph.edge_index[0]]].T
    return _kept(seed, edge, drop, _EDGE_DRAWS) | (graph.edge_type == SELF_LOOP)


def draw_kept_features(seeds: torch.Tensor, dimension: int, masked: float) -> torch.Tensor:
    """Draw which dimensions of the nodes' features are kept in corrupted views, `(G, C, D)` (GCA's feature
    masking), from a seed for each view of each chain, `(C, G)`."""
    places = torch.arange(dimension, device=seeds.device)
    return _kept(seeds.T.unsqueeze(-1), places, masked, _FEATURE_DRAWS)


def _kept(seeds: torch.Tensor, counters: torch.Tensor, drop: float, purpose: int) -> torch.Tensor:
    """True with probability 1 - drop, from a hash of seed, purpose and counter: the same on every device."""
    draws = _mixed(_mixed(seeds.long() * 4 + purpose) + counters)
    return _shifted_right(draws, 64 - _DRAW_BITS) >= int(drop * 2**_DRAW_BITS)


def _mixed(values: torch.Tensor) -> torch.Tensor:
    """Apply the mixing function of SplitMix64 (Steele et al., 2014) to 64-bit integers, which wrap around."""
    values = values + _signed(0x9E3779B97F4A7C15)
    values = (values ^ _shifted_right(values, 30)) * _signed(0xBF58476D1CE4E5B9)
    values = (values ^ _shifted_right(values, 27)) * _signed(0x94D049BB133111EB)
    return values ^ _shifted_right(values, 31)


def _shifted_right(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Shift integers to the right as if they were unsigned."""
    return (values >> bits) & ((1 << (64 - bits)) - 1)


def _signed(value: int) -> int:
    """Reinterpret an unsigned 64-bit number as the signed one with the same bits."""
    return value - 2**64 if value >= 2**63 else value


def events_of_rows(
    input_ids: torch.Tensor, attention_mask: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Split the rows of multiple-choice questions, the events of the context, then the choice, `(C, k, L)`,
    into events.

    Returns:
        The distinct events `(E, W)` and their mask; the context `(C * k, n)` and the choice `(C * k, 1)` of
        each row as indices of events, padded with -1.
    """
    if attention_mask is None:
        attention_mask = torch.ones_like(input_ids)
    rows = split_rows(input_ids.flatten(0, 1), attention_mask.flatten(0, 1))
    distinct, event = torch.stack([rows.input_ids, rows.attention_mask]).unique(dim=1, return_inverse=True)
    events = torch.where(rows.texts == ABSENT, ABSENT, event[rows.texts])
    place = (rows.counts - 1).clamp(min=0).unsqueeze(1)
    # The last event is the choice.
    return distinct[0], distinct[1], events.scatter(1, place, ABSENT), events.gather(1, place)
