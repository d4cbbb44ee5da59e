"""Scorers of candidates for the next event of a chain: the interface of chain tasks and decoders to models.

They use vectors of single events, or a model that reads whole chains; each distinct event is encoded once.

In virtual contexts, the model reads a single event at the end of training chains (Zheng et al., TNNLS 2022,
Eq. 17 and 18): retrieve chains by the words that their events share with the event, append the event to each,
and average its nodes in their graphs with the softmax of the matches as weights. Eq. 18 also divides by the
number of chains; we leave this out, as it changes no cosine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from sklearn.feature_extraction.text import CountVectorizer
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from eventformers.datasets_scripts.events import Event, event_text
from eventformers.datasets_scripts.loading import load_built, without_samples
from eventformers.errors import EventformersError
from eventformers.inference.encode import EventEncoder, require_finite
from eventformers.inference.encoding.batches import for_inference
from eventformers.inference.encoding.event_inputs import DistinctRows
from eventformers.inference.encoding.event_reader import EventLike, read_items
from eventformers.inference.encoding.vectors import Positions, Vectors, rounded_cosines, unit_vectors
from eventformers.models.event_graph import build_event_graph

BLOCK_EVENTS = 4_096
"""Number of events per block of chains; it bounds the memory for nodes and edges."""


@dataclass(frozen=True)
class EventStates:
    """A model's encodings of distinct events, before it reads any chain.

    Attributes:
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
        """Compute the node of each event of each chain after the graph's layers, (events, D) for each chain.

        Args:
            chains: the positions in `events` of each chain's events; one or more.
            num_layers: number of layers to run; None runs all of the model's.

        Raises:
            EventformersError: the model has fewer layers.
        """
        depth = int(self.encoder.model.config.num_graph_layers)
        if num_layers is not None and not 1 <= num_layers <= depth:
            raise EventformersError(
                f"num_layers is {num_layers}; accepted: 1 to {depth}, the graph layers of this model"
            )
        lengths = np.asarray([len(chain) for chain in chains], dtype=np.int64)
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
        # Vectors, `(rows, W, D)`, and ids, `(rows, W)`, of the words of the events; -1 is padding.
        starts, counts = self.word_starts[rows], np.diff(self.word_starts)[rows]
        width = max(1, int(counts.max()))
        is_word = np.arange(width) < counts[:, None]
        places = torch.from_numpy((starts[:, None] + np.arange(width))[is_word])
        mask = torch.from_numpy(is_word)
        words = self.word_vectors.new_zeros((len(rows), width, self.word_vectors.shape[1]))
        words[mask] = self.word_vectors[places]
        event_words = torch.full((len(rows), width), -1)
        event_words[mask] = self.words[places]
        with torch.inference_mode():
            states, _ = model.encode_chains(self.events[rows].to(device, dtype), padded)
            graph = build_event_graph(padded, event_words.to(device))
            nodes = model.encode_graphs(
                states, padded, words.to(device, dtype), event_words.to(device), graph, num_layers=num_layers
            )
            of_events = nodes[graph.event_nodes[padded >= 0]].float().cpu().numpy()
        require_finite(self.encoder.name, of_events)
        return np.split(of_events, np.cumsum(lengths)[:-1])


def _encode_parts(
    encoder: EventEncoder,
    events: Sequence[Event],
    parts: Callable[[Any, dict[str, torch.Tensor]], Sequence[torch.Tensor]],
    number: int,
    batch_size: int | Literal["auto"],
    kind: str = "",
) -> NDArray[np.float32]:
    """Encode distinct events, each in a chain of its own, to `(number, E, D)`; sets `encoder.truncated`.

    Unlike `encode_states`, it keeps no vectors of words, which take most of the memory.

    Args:
        parts: computes the tensors from the model and its arguments.
        kind: their kind in the encoder's memory; "" for tensors that are not remembered.
    """
    inputs = encoder.inputs()
    keys = [inputs.key(event, place) for place, event in enumerate(events)]
    known: Vectors | None = encoder.recall(kind, keys, batch_size) if kind else None
    if known is not None:
        return known
    rows = DistinctRows(keys)
    vectors = np.empty((number, len(events), encoder.model.config.chain_dim), dtype=np.float32)

    def apply(model: nn.Module, tensors: dict[str, torch.Tensor], positions: Positions) -> list[Vectors]:
        computed = [part.float().cpu().numpy() for part in parts(model, tensors)]
        vectors[:, positions] = computed
        return computed

    encoder.pass_distinct(rows, inputs, apply, batch_size=batch_size)
    for part in vectors:
        rows.copy_known(part)
    if kind:
        encoder.keep(vectors)
    return vectors


def encode_states(
    encoder: EventEncoder, events: Sequence[Event], *, batch_size: int | Literal["auto"] = "auto"
) -> EventStates:
    """Encode distinct events for chains by a model that reads them, or take them from the encoder's memory;
    sets `encoder.truncated`."""
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


Scores: TypeAlias = NDArray[np.float64]
EmbedEvents: TypeAlias = Callable[[Sequence[Event]], NDArray[np.floating]]
"""A function from events to vectors, (N, d), in the same order. Vectors need not be normalised."""

Aggregation = Literal["mean", "last"]
"""How a candidate's cosines with the events of the context become a score: their mean, or only the last."""


class ChainScorer(Protocol):
    """A scorer of candidates for the next event of a chain, and of transitions between events."""

    @property
    def name(self) -> str:
        """What results call it."""
        ...

    def score_choices(
        self, contexts: Sequence[Sequence[Event]], choices: Sequence[Sequence[Event]]
    ) -> list[Scores]:
        """Score the choices of each question, one or more, after the events of its chain, in order.

        Returns:
            One array for each question, (choices,); higher is better. Scores of different questions need not
            be comparable.
        """
        ...

    def similarities(
        self, sources: Sequence[Sequence[Event]], targets: Sequence[Sequence[Event]]
    ) -> list[Scores]:
        """Score how well each later event, a target, follows each earlier one, a source, before rows are
        normalised.

        Returns:
            One array for each question, (sources, targets), 0 or more.
        """
        ...


class DistinctEvents:
    """Distinct events in the order of their first occurrence, so that each is encoded once."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._rows: dict[tuple[str, str, str], int] = {}

    def rows(self, events: Iterable[Event]) -> Positions:
        """Return the row of each event, and add new events."""
        rows = []
        for event in events:
            key = (event["subject"], event["predicate"], event["object"])
            rows.append(self._rows.setdefault(key, len(self.events)))
            if rows[-1] == len(self.events):
                self.events.append(event)
        return np.asarray(rows, dtype=np.int64)

    def texts(self, rows: Positions) -> list[str]:
        """Return the texts of the events in some rows."""
        return [event_text(self.events[row]) for row in rows]

    def units(self, vectors: NDArray[np.floating], entries: Iterable[Positions]) -> Iterator[Scores]:
        """Yield the vectors of the events in the rows of each entry, at length 1."""
        for rows in entries:
            yield unit_vectors(vectors[rows], self.texts(rows))


class CosineScorer(ABC):
    """A `ChainScorer` that uses cosines; subclasses compute the vectors.

    The score of a candidate is the mean of its cosines with the events of the context, or the last of them. A
    transition from a to b is (cos(a, b) + 1) / 2.
    """

    aggregation: Aggregation

    @abstractmethod
    def units(
        self, left: Sequence[Sequence[Event]], right: Sequence[Sequence[Event]], *, alone: bool
    ) -> tuple[Iterator[Scores], Iterator[Scores]]:
        """Compute the vectors, at length 1, of the events of each entry on the left, and of those on the
        right that may follow: one array for each entry, (events, d).

        Args:
            alone: True if each event on the left is a separate chain; False if those of an entry form one
                chain.
        """

    def score_choices(
        self, contexts: Sequence[Sequence[Event]], choices: Sequence[Sequence[Event]]
    ) -> list[Scores]:
        """Score the choices of each question; see `ChainScorer`."""
        return [
            rounded_cosines(self._direction(cosines))
            for cosines in self._cosines(contexts, choices, alone=False)
        ]

    def directions(
        self, contexts: Sequence[Sequence[Event]], choices: Sequence[Event]
    ) -> tuple[Scores, Scores]:
        """Compute vectors whose dot products are the scores of `score_choices` if all questions have the same
        choices, so that the best of very many choices can be searched in blocks.

        Returns:
            `(contexts, d)`, and `(choices, d)` at length 1.
        """
        of_contexts, (of_choices,) = self.units(contexts, [choices], alone=False)
        return np.stack([self._direction(units) for units in of_contexts]), of_choices

    def _cosines(
        self, left: Sequence[Sequence[Event]], right: Sequence[Sequence[Event]], *, alone: bool
    ) -> Iterator[Scores]:
        """Yield the cosines of the events on the left and on the right, `(left, right)` for each question."""
        for of_left, of_right in zip(*self.units(left, right, alone=alone), strict=True):
            yield of_left @ of_right.T

    @abstractmethod
    def candidates(self, choices: Sequence[Event]) -> Scores:
        """Compute the second result of `directions` by itself, for choices of which no two are equal."""

    def _direction(self, units: Scores) -> Scores:
        """Combine the unit vectors of a context, `(events, d)`, into `(d,)`."""
        return units.mean(axis=0) if self.aggregation == "mean" else units[-1]

    def similarities(
        self, sources: Sequence[Sequence[Event]], targets: Sequence[Sequence[Event]]
    ) -> list[Scores]:
        """Score how well each target follows each source, from 0 to 1; see `ChainScorer`."""
        return [(rounded_cosines(cosines) + 1) / 2 for cosines in self._cosines(sources, targets, alone=True)]


@dataclass(frozen=True)
class EncoderChainScorer(CosineScorer):
    """A chain scorer that uses vectors of single events: SWCC, MICO, and plain sentence encoders.

    The mean of the cosines ranks candidates like the cosine with the sum of the context's unit vectors.
    `embed` is called once, with each distinct event of a call.
    """

    embed: EmbedEvents
    name: str = ""
    aggregation: Aggregation = "mean"

    def units(
        self, left: Sequence[Sequence[Event]], right: Sequence[Sequence[Event]], *, alone: bool
    ) -> tuple[Iterator[Scores], Iterator[Scores]]:
        """Compute unit vectors; an event has the same vector in any chain."""
        distinct = DistinctEvents()
        left_rows, right_rows = ([distinct.rows(events) for events in side] for side in (left, right))
        vectors = np.asarray(self.embed(distinct.events)) if distinct.events else np.empty((0, 0))
        return distinct.units(vectors, left_rows), distinct.units(vectors, right_rows)

    def candidates(self, choices: Sequence[Event]) -> Scores:
        """Compute the unit vectors of the candidates."""
        return unit_vectors(np.asarray(self.embed(choices)), [event_text(event) for event in choices])


@dataclass(frozen=True)
class ModelChainScorer(CosineScorer):
    """A chain scorer for a model that reads whole chains (HeterEvent).

    The score of a candidate is the mean cosine of its encoder vector with the nodes of the context's events
    in the graph of the context. A transition from a to b is (cos(a, b) + 1) / 2, where a is the node of a
    graph with only this event and b is a candidate. The encoder's `truncated` counts the events that the
    latest call truncated.
    """

    encoder: EventEncoder
    aggregation: Aggregation = "mean"
    batch_size: int | Literal["auto"] = "auto"

    @property
    def name(self) -> str:
        """What results call it."""
        return self.encoder.name

    def units(
        self, left: Sequence[Sequence[Event]], right: Sequence[Sequence[Event]], *, alone: bool
    ) -> tuple[Iterator[Scores], Iterator[Scores]]:
        """Compute unit vectors of nodes and candidates; a context of one event is a chain of length one."""
        distinct = DistinctEvents()
        left_rows, right_rows = ([distinct.rows(events) for events in side] for side in (left, right))
        if not left_rows:
            return iter(()), iter(())
        if alone:

            def parts(model: Any, tensors: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
                output = model(**tensors)
                return output.embeddings, output.candidates

            nodes, candidates = _encode_parts(
                self.encoder, distinct.events, parts, 2, self.batch_size, kind="alone"
            )
            return distinct.units(nodes, left_rows), distinct.units(candidates, right_rows)
        states = encode_states(self.encoder, distinct.events, batch_size=self.batch_size)
        # Equal contexts are computed once.
        chains = {tuple(rows.tolist()): rows for rows in left_rows}
        of_chain = dict(zip(chains, states.nodes(list(chains.values())), strict=True))
        units = (unit_vectors(of_chain[tuple(rows.tolist())], distinct.texts(rows)) for rows in left_rows)
        return units, distinct.units(states.candidates, right_rows)

    def candidates(self, choices: Sequence[Event]) -> Scores:
        """Compute the unit vectors of the candidates, which read no chain."""
        [vectors] = _encode_parts(
            self.encoder,
            choices,
            lambda model, tensors: (model.encode_candidates(model.encode_events(**tensors).events),),
            *(1, self.batch_size),
        )
        return unit_vectors(vectors, [event_text(event) for event in choices])


def chain_scorer(
    encoder: EventEncoder,
    *,
    aggregation: Aggregation = "mean",
    batch_size: int | Literal["auto"] = "auto",
) -> EncoderChainScorer | ModelChainScorer:
    """Return the scorer for a model."""
    if encoder.reads_chains:
        return ModelChainScorer(encoder, aggregation, batch_size)
    return EncoderChainScorer(partial(encoder.encode, batch_size=batch_size), encoder.name, aggregation)


MAX_EVENTS = 8
"""Maximum number of events in a context, as in training; a longer chain yields several contexts."""

BLOCK_QUERIES = 256
"""Number of events matched and read in their contexts at a time; it bounds the memory."""

MATCH_DECIMALS = 12
"""Decimals of a match. The order of summation must not decide between equal matches."""


class ChainIndex:
    """An inverted index from words of events to chains, at least one.

    A chain of more than `MAX_EVENTS` yields several contexts, without overlap.
    """

    def __init__(self, chains: Iterable[Sequence[Event]]) -> None:
        self.contexts: list[Sequence[Event]] = [
            chain[start : start + MAX_EVENTS]
            for chain in chains
            for start in range(0, len(chain), MAX_EVENTS)
        ]
        self._words = CountVectorizer(analyzer=_words_of_all, dtype=np.float64)
        # The share of a context's events that contain a word.
        self._shares = _divided(self._words.fit_transform(self.contexts), map(len, self.contexts))

    def nearest(self, events: Sequence[Event], number: int) -> list[tuple[Positions, Scores]]:
        """Find the `number` contexts that match each event best.

        The match of an event with another is the share of its words that the other contains; the match with a
        context is the mean over the context's events (Eq. 17).

        Returns:
            Positions and matches of the contexts of each event, best first; ties keep the order of the index.
            Only contexts that share a word count, so there may be fewer, or none.
        """
        found: list[tuple[Positions, Scores]] = []
        for start in range(0, len(events), BLOCK_QUERIES):
            block = [[event] for event in events[start : start + BLOCK_QUERIES]]
            queries = _divided(self._words.transform(block), (len(_words_of_all(one)) for one in block))
            matches = (queries @ self._shares.T).tocsr()
            for first, last in zip(matches.indptr[:-1], matches.indptr[1:], strict=True):
                positions = matches.indices[first:last].astype(np.int64)
                values = np.round(matches.data[first:last], MATCH_DECIMALS)
                best = np.lexsort((positions, -values))[:number]
                found.append((positions[best], values[best]))
        return found


class ContextEncoder:
    """An encoder of events in at most `retrieved` virtual contexts, read by `num_layers` graph layers.

    Attributes:
        without_context: number of distinct events of the latest call that share no word with any chain; the
            model read each as a chain of one event.
    """

    def __init__(
        self, encoder: EventEncoder, index: ChainIndex, *, retrieved: int = 10, num_layers: int = 1
    ) -> None:
        self.encoder, self.index = encoder, index
        self.retrieved, self.num_layers = retrieved, num_layers
        self.without_context = 0

    def encode(self, items: EventLike, *, batch_size: int | Literal["auto"] = "auto") -> Vectors:
        """Encode events, each as the weighted mean of its nodes at the end of its contexts (Eq. 18).

        Args:
            items: events, as `eventformers.encode` reads them; a text is an event with only a predicate.

        Returns:
            (N, D) float32, in the order of the items.
        """
        distinct = DistinctEvents()
        asked = distinct.rows(
            {"subject": "", "predicate": item, "object": ""} if isinstance(item, str) else item
            for item in read_items(items)
        )
        queries = list(distinct.events)
        nearest = self.index.nearest(queries, self.retrieved)
        used = {int(position) for positions, _ in nearest for position in positions}
        contexts = {position: distinct.rows(self.index.contexts[position]) for position in sorted(used)}
        states = encode_states(self.encoder, distinct.events, batch_size=batch_size)
        self.without_context = sum(not len(positions) for positions, _ in nearest)
        vectors = np.empty((len(queries), states.candidates.shape[1]), dtype=np.float32)
        for start in range(0, len(queries), BLOCK_QUERIES):
            block = range(start, min(start + BLOCK_QUERIES, len(queries)))
            # Without a context, the event is a chain of one.
            chains = [
                np.append(context, query)
                for query in block
                for context in [contexts[int(position)] for position in nearest[query][0]]
                or [np.empty(0, dtype=np.int64)]
            ]
            nodes = iter(states.nodes(chains, num_layers=self.num_layers))
            for query in block:
                matches = nearest[query][1]
                last = np.stack([next(nodes)[-1] for _ in range(max(1, len(matches)))])
                vectors[query] = context_weights(matches) @ last
        return vectors[asked]


def context_encoder(
    encoder: EventEncoder, chains: str | Path, *, retrieved: int = 10, num_layers: int = 1
) -> ContextEncoder:
    """Create an encoder of events in the training chains of a dataset; arguments as for `ContextEncoder` and
    `chain_index`. A model that reads no chains is an error."""
    if not encoder.reads_chains:
        raise EventformersError(
            f"{encoder.name or 'the model'} reads single events and cannot use contexts; accepted: a model "
            "that reads chains, such as HeterEvent"
        )
    return ContextEncoder(encoder, chain_index(chains), retrieved=retrieved, num_layers=num_layers)


def chain_index(data: str | Path) -> ChainIndex:
    """Index the training chains of raw files, a built folder or a Hub id of `EventChains`, or of `samples`;
    data without them is an error."""
    splits = load_built(without_samples(data), "chains", builder="event_chains")
    if "train" not in splits:
        raise EventformersError(
            f"{data}: found the splits {', '.join(splits)} of chains; accepted: data with training chains"
        )
    return ChainIndex(splits["train"]["events"])


def context_weights(matches: Scores) -> Scores:
    """Compute the weights of an event's contexts, the softmax of their matches; 1 without a context."""
    return np.exp(matches) / np.exp(matches).sum() if len(matches) else np.ones(1)


def words_of(event: Event) -> list[str]:
    """Return the distinct words of an event, ignoring case."""
    return list(dict.fromkeys(event_text(event).casefold().split()))


def _words_of_all(events: Sequence[Event]) -> list[str]:
    return [word for event in events for word in words_of(event)]


def _divided(counts: csr_array, numbers: Iterable[int]) -> csr_array:
    """Divide each row by a number."""
    return diags_array(1 / np.array(list(numbers))) @ counts
