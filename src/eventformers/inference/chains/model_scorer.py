"""Chain scoring with models that read whole chains, and the choice of a scorer for any model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from eventformers.datasets_scripts.events import Event
from eventformers.inference.chains.scorers import (
    Aggregation,
    CosineScorer,
    DistinctEvents,
    EncoderChainScorer,
    Scores,
)
from eventformers.inference.chains.vectors import encode_alone, encode_states
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.arrays import Vectors
from eventformers.inference.encoding.unit_vectors import unit_vectors


@dataclass(frozen=True)
class ModelChainScorer(CosineScorer):
    """A chain scorer for a model that reads whole chains (HeterEvent).

    The score of a candidate is the mean cosine of its encoder vector with the nodes of the context's events
    in the graph of the context. A transition from a to b is (cos(a, b) + 1) / 2, where a is the node of a
    graph with only this event and b is a candidate.

    Attributes:
        encoder: the model; its `truncated` counts the events that the latest call truncated.
        aggregation: `mean` over the events of the context, or only the `last` one.
        batch_size: maximum number of events in a batch, or `auto`.
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
            vectors = encode_alone(self.encoder, distinct.events, batch_size=self.batch_size)
            return distinct.units(vectors.nodes, left_rows), distinct.units(vectors.candidates, right_rows)
        states = encode_states(self.encoder, distinct.events, batch_size=self.batch_size)
        # Equal contexts are computed once.
        chains = {tuple(rows.tolist()): rows for rows in left_rows}
        of_chain = dict(zip(chains, states.nodes(list(chains.values())), strict=True))
        nodes = (unit_vectors(of_chain[tuple(rows.tolist())], distinct.texts(rows)) for rows in left_rows)
        return nodes, distinct.units(states.candidates, right_rows)


def chain_scorer(
    encoder: EventEncoder,
    *,
    aggregation: Aggregation = "mean",
    batch_size: int | Literal["auto"] = "auto",
) -> EncoderChainScorer | ModelChainScorer:
    """Return the scorer for a model.

    Args:
        encoder: a model of this suite or a plain encoder.
        aggregation: `mean` over the events of the context, or only the `last` one.
        batch_size: maximum number of events in a batch, or `auto`.
    """
    if encoder.reads_chains:
        return ModelChainScorer(encoder, aggregation, batch_size)

    def embed(events: Sequence[Event]) -> Vectors:
        return encoder.encode(events, batch_size=batch_size)

    return EncoderChainScorer(embed, encoder.name, aggregation)
