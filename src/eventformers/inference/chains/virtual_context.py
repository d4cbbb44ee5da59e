"""Virtual contexts: the model reads a single event at the end of training chains that share its words.

Zheng et al. (TNNLS 2022), Eq. 17 and 18: retrieve chains by the words that their events share with the event,
append the event to each chain, and average its nodes in their graphs with the softmax of the matches as
weights. Eq. 18 also divides by the number of chains; we leave this out, as it changes no cosine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.sparse import csr_array, diags_array
from sklearn.feature_extraction.text import CountVectorizer

from eventformers.datasets_scripts.events import Event, event_text
from eventformers.datasets_scripts.loading import load_built, without_samples
from eventformers.errors import EventformersError
from eventformers.inference.chains.scorers import DistinctEvents, Scores, encode_states
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.event_reader import EventLike, read_items
from eventformers.inference.encoding.vectors import Positions, Vectors

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
