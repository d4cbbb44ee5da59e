"""Vectors of events in chains, from a model that reads chains; each distinct event is encoded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from eventformers.datasets_scripts.events import Event
from eventformers.errors import EventformersError
from eventformers.inference.encode import EventEncoder, require_finite
from eventformers.inference.encoding.batches import for_inference
from eventformers.inference.encoding.event_inputs import DistinctRows
from eventformers.inference.encoding.vectors import Positions, Vectors
from eventformers.models.event_graph import build_event_graph

BLOCK_EVENTS = 4_096
"""Number of events per block of chains; it bounds the memory for nodes and edges."""


@dataclass(frozen=True)
class EventStates:
    """A model's encodings of distinct events, before it reads any chain.

    Attributes:
        encoder: the model.
        events: vectors of the events, (E, d).
        candidates: vectors of the events as candidates, without a graph, (E, D).
        word_vectors: vectors of the distinct words of all events, event by event, (occurrences, D).
        words: the id of each word, (occurrences,); equal words have equal ids.
        word_starts: position of the first word of each event, (E + 1,).
    """

    encoder: EventEncoder
    events: torch.Tensor
    candidates: Vectors
    word_vectors: torch.Tensor
    words: torch.Tensor
    word_starts: Positions

    def nodes(self, chains: Sequence[Positions], *, num_layers: int | None = None) -> list[Vectors]:
        """Compute the node of each event of each chain after the graph's layers.

        Args:
            chains: the positions in `events` of each chain's events; one or more.
            num_layers: number of layers to run; None runs all of the model's.

        Returns:
            One array for each chain, (events, D).

        Raises:
            EventformersError: a chain is empty, or the model has fewer layers.
        """
        depth = int(self.encoder.model.config.num_graph_layers)
        if num_layers is not None and not 1 <= num_layers <= depth:
            raise EventformersError(
                f"num_layers is {num_layers}; accepted: 1 to {depth}, the graph layers of this model"
            )
        lengths = np.asarray([len(chain) for chain in chains], dtype=np.int64)
        if not lengths.all():
            raise EventformersError(f"chain {int(np.argmin(lengths))} is empty; accepted: at least one event")
        model = for_inference(self.encoder.model, pack=False)
        found: list[Vectors] = [np.empty((0, 0), dtype=np.float32)] * len(chains)
        # Chains of similar length form a block, so that padding is small.
        order = np.argsort(lengths, kind="stable")
        start = 0
        while start < len(order):
            # The last chain of a block is its longest and decides how many rows the block may have.
            stop = start + 1
            while stop < len(order) and (stop + 1 - start) * lengths[order[stop]] <= BLOCK_EVENTS:
                stop += 1
            block = order[start:stop]
            nodes = self._block_nodes(model, [chains[place] for place in block], num_layers)
            for place, of_chain in zip(block, nodes, strict=True):
                found[place] = of_chain
            start = stop
        return found

    def _block_nodes(
        self, model: nn.Module, chains: Sequence[Positions], num_layers: int | None
    ) -> list[Vectors]:
        device, dtype = self.encoder.model.device, self.encoder.model.dtype
        rows, local = np.unique(np.concatenate(chains), return_inverse=True)
        lengths = [len(chain) for chain in chains]
        of_chains = torch.from_numpy(local.reshape(-1)).split(lengths)
        padded = pad_sequence(of_chains, batch_first=True, padding_value=-1).to(device)
        words, event_words = self._padded_words(rows)
        with torch.inference_mode():
            states, _ = model.encode_chains(self.events[rows].to(device, dtype), padded)
            graph = build_event_graph(padded, event_words.to(device))
            nodes = model.encode_graphs(
                states, padded, words.to(device, dtype), event_words.to(device), graph, num_layers=num_layers
            )
            of_events = nodes[graph.event_nodes[padded >= 0]].float().cpu().numpy()
        require_finite(self.encoder.name, of_events)
        return np.split(of_events, np.cumsum(lengths)[:-1])

    def _padded_words(self, rows: Positions) -> tuple[torch.Tensor, torch.Tensor]:
        """Return vectors `(rows, W, D)` and ids `(rows, W)` of the words of some events; -1 is padding."""
        starts, counts = self.word_starts[rows], np.diff(self.word_starts)[rows]
        width = max(1, int(counts.max()))
        is_word = np.arange(width) < counts[:, None]
        places = torch.from_numpy((starts[:, None] + np.arange(width))[is_word])
        mask = torch.from_numpy(is_word)
        words = self.word_vectors.new_zeros((len(rows), width, self.word_vectors.shape[1]))
        words[mask] = self.word_vectors[places]
        numbers = torch.full((len(rows), width), -1)
        numbers[mask] = self.words[places]
        return words, numbers


@dataclass(frozen=True)
class EventsAlone:
    """Vectors of events, each in a chain of its own.

    Attributes:
        nodes: nodes of the graph of each event alone, (E, D).
        candidates: vectors of the events as candidates, without a graph, (E, D).
    """

    nodes: Vectors
    candidates: Vectors


def encode_alone(
    encoder: EventEncoder, events: Sequence[Event], *, batch_size: int | Literal["auto"] = "auto"
) -> EventsAlone:
    """Encode distinct events, each in a chain of its own; sets `encoder.truncated`.

    Unlike `encode_states`, it keeps no vectors of words, which take most of the memory.

    Args:
        encoder: a model that reads chains.
        events: the events, no two of them equal.
        batch_size: maximum number of events in a batch, or `auto`.

    Raises:
        EventformersError: an event contains no word, or memory ran out.
    """
    inputs = encoder.inputs()
    keys = [inputs.key(event, place) for place, event in enumerate(events)]
    known: EventsAlone | None = encoder.recall("alone", keys, batch_size)
    if known is not None:
        return known
    rows = DistinctRows(keys)
    size = encoder.model.config.chain_dim
    found = EventsAlone(*(np.empty((len(keys), size), dtype=np.float32) for _ in range(2)))

    def apply(
        model: nn.Module, tensors: dict[str, torch.Tensor], positions: Positions
    ) -> tuple[Vectors, Vectors]:
        output = model(**tensors)
        found.nodes[positions] = output.embeddings.float().cpu().numpy()
        found.candidates[positions] = output.candidates.float().cpu().numpy()
        return found.nodes[positions], found.candidates[positions]

    encoder.pass_distinct(rows, inputs, apply, batch_size=batch_size)
    for vectors in (found.nodes, found.candidates):
        rows.copy_known(vectors)
    encoder.keep(found)
    return found


def encode_candidates(
    encoder: EventEncoder, events: Sequence[Event], *, batch_size: int | Literal["auto"] = "auto"
) -> Vectors:
    """Encode distinct events as candidates only, `(E, D)`; sets `encoder.truncated`.

    Unlike `encode_states`, it keeps nothing else of the events, and nothing in the encoder's memory.

    Args:
        encoder: a model that reads chains.
        events: the events, no two of them equal.
        batch_size: maximum number of events in a batch, or `auto`.

    Raises:
        EventformersError: an event contains no word, or memory ran out.
    """
    inputs = encoder.inputs()
    rows = DistinctRows([inputs.key(event, place) for place, event in enumerate(events)])
    candidates = np.empty((len(events), encoder.model.config.chain_dim), dtype=np.float32)

    def apply(
        model: nn.Module, tensors: dict[str, torch.Tensor], positions: Positions
    ) -> tuple[Vectors, ...]:
        states = model.encode_candidates(model.encode_events(**tensors).events)
        candidates[positions] = states.float().cpu().numpy()
        return (candidates[positions],)

    encoder.pass_distinct(rows, inputs, apply, batch_size=batch_size)
    rows.copy_known(candidates)
    return candidates


def encode_states(
    encoder: EventEncoder, events: Sequence[Event], *, batch_size: int | Literal["auto"] = "auto"
) -> EventStates:
    """Encode distinct events for chains, or read them from the encoder's memory; sets `encoder.truncated`.

    Args:
        encoder: a model that reads chains.
        events: the events, no two of them equal.
        batch_size: maximum number of events in a batch, or `auto`.

    Raises:
        EventformersError: the model does not read chains, an event contains no word, or memory ran out.
    """
    if not encoder.reads_chains:
        raise EventformersError(
            f"{encoder.name or 'the model'} reads single events; accepted: a model that reads chains, "
            "such as HeterEvent"
        )
    inputs = encoder.inputs()
    keys = [inputs.key(event, place) for place, event in enumerate(events)]
    known: EventStates | None = encoder.recall("states", keys, batch_size)
    if known is not None:
        return known
    rows = DistinctRows(keys)
    config = encoder.model.config
    vectors = torch.empty((len(events), config.event_vector_dim))
    candidates = np.empty((len(events), config.chain_dim), dtype=np.float32)
    words: list[torch.Tensor] = [torch.empty(0)] * len(events)
    numbers: list[torch.Tensor] = [torch.empty(0)] * len(events)

    def apply(
        model: nn.Module, tensors: dict[str, torch.Tensor], positions: Positions
    ) -> tuple[Vectors, Vectors, Vectors]:
        found = model.encode_events(**tensors)
        vectors[positions] = found.events.float().cpu()
        candidates[positions] = model.encode_candidates(found.events).float().cpu().numpy()
        of_events, their_numbers = found.words.float().cpu(), found.event_words.cpu()
        for place, position in enumerate(positions):
            is_word = their_numbers[place] >= 0
            words[position], numbers[position] = of_events[place, is_word], their_numbers[place, is_word]
        return vectors[positions].numpy(), candidates[positions], of_events.numpy()

    encoder.pass_distinct(rows, inputs, apply, batch_size=batch_size)
    for position, first in rows.known:
        vectors[position], candidates[position] = vectors[first], candidates[first]
        words[position], numbers[position] = words[first], numbers[first]
    states = EventStates(
        encoder=encoder,
        events=vectors,
        candidates=candidates,
        word_vectors=torch.cat(words),
        words=torch.cat(numbers),
        word_starts=np.cumsum([0, *map(len, numbers)]),
    )
    encoder.keep(states)
    return states
