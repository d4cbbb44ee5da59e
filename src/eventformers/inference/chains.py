"""The scorer of chains that goes with a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from eventformers.datasets_scripts.events import Event
from eventformers.inference.chain_scorers import Aggregation, ChainScorer, EncoderChainScorer
from eventformers.inference.encode import EventEncoder, Vectors


def chain_scorer(
    encoder: EventEncoder,
    *,
    aggregation: Aggregation = "mean",
    batch_size: int | Literal["auto"] = "auto",
) -> ChainScorer:
    """The scorer that goes with a model.

    Args:
        encoder: a model of this suite or a plain encoder.
        aggregation: `mean` over the events of the context, or the `last` one alone.
        batch_size: events of a batch at most, or `auto`.
    """

    def embed(events: Sequence[Event]) -> Vectors:
        return encoder.encode(events, batch_size=batch_size)

    return EncoderChainScorer(embed, encoder.name, aggregation)
