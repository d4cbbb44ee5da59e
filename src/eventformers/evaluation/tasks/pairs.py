"""Tasks that compare pairs of events, alone or at the end of chains that share their words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from eventformers.datasets_scripts.events import Event, event_text
from eventformers.errors import EventformersError
from eventformers.evaluation.session import Session
from eventformers.evaluation.tasks.base import (
    Computing,
    Embed,
    JsonValue,
    Prepared,
    ProtocolOutput,
    Row,
    TaskKind,
    TaskRows,
    TaskSettings,
    read_event,
)
from eventformers.inference.chains.scorers import DistinctEvents, context_encoder
from eventformers.inference.encode import EventEncoder
from eventformers.inference.encoding.vectors import rounded_cosines, unit_vectors
from eventformers.strict import count, strict_settings

_HARD = (("similar_a", "similar_b"), ("dissimilar_a", "dissimilar_b"))
_GRADED = (("event_a", "event_b"),)


@strict_settings
@dataclass(frozen=True)
class PairSettings(TaskSettings):
    """The settings of similarity tasks.

    Attributes:
        virtual_context: the data of the training chains at whose end each event is read, for a model that
            reads chains; None reads events alone.
        retrieved: maximum number of contexts of an event.
        num_layers: number of graph layers that read them; 1 is the paper's for single events (Fig. 3).
    """

    places: ClassVar[tuple[str, ...]] = ("virtual_context", "retrieved", "num_layers")

    virtual_context: str | Path | None = None
    retrieved: int = count(10)
    num_layers: int = count(1)

    def validate_context(self) -> None:
        """Raise an error for settings of contexts without their data."""
        if self.virtual_context is None and self.chosen:
            raise EventformersError(
                f"{', '.join(self.chosen)}: settings of contexts without their data; accepted: with "
                "virtual_context (--virtual-context)"
            )

    @property
    def name(self) -> str:
        """The name of the contexts in results, with the counts that differ from the default."""
        counts = {name: value for name, value in self.chosen.items() if name != "virtual_context"}
        named = [f"{name.replace('_', '-')}-{value}" for name, value in counts.items()]
        return "" if self.virtual_context is None else "-".join(("virtual-context", *named))


@dataclass(frozen=True)
class Pairs(TaskKind):
    """Kind of task that compares the vectors of events."""

    Settings = PairSettings
    refusal = "does not compare events; tasks that do"

    uses: tuple[str, ...] = PairSettings.places
    settings: PairSettings = field(default_factory=PairSettings)

    def prepare(self, model: EventEncoder, session: Session, computing: Computing) -> Prepared:
        """See `TaskKind`."""
        settings = self.settings
        if settings.virtual_context is None:
            return Prepared(partial(model.encode, batch_size=computing.batch_size))
        reader = context_encoder(
            model,
            settings.virtual_context,
            retrieved=settings.retrieved,
            num_layers=settings.num_layers,
        )

        def record() -> Mapping[str, JsonValue]:
            told: dict[str, JsonValue] = {
                "retrieved": reader.retrieved,
                "num_layers": reader.num_layers,
                "contexts": len(reader.index.contexts),
                "events_without_context": reader.without_context,
            }
            return {"virtual_context": told}

        return Prepared(partial(reader.encode, batch_size=computing.batch_size), record=record)

    def untrained(self, model: EventEncoder) -> Self:
        """Remove the contexts, since the untrained encoder reads events alone."""
        return replace(self, settings=PairSettings())


def compare_pairs(embed: Embed, data: TaskRows, settings: PairSettings) -> ProtocolOutput:
    """Compute the cosines of a similar and a dissimilar pair of events per row.

    A row is correct if the similar pair is strictly closer; a tie is wrong (Weber et al. 2018).

    Args:
        data: rows with the events `similar_a`, `similar_b`, `dissimilar_a`, `dissimilar_b`.

    Returns:
        Inputs `similar` and `dissimilar`; per row both cosines and `correct`.
    """
    cosines, events, distinct = _pair_cosines(embed, data.rows, _HARD)
    similar, dissimilar = (column.tolist() for column in cosines.T)
    return ProtocolOutput(
        inputs={"similar": similar, "dissimilar": dissimilar},
        predictions=[
            {"similar": near, "dissimilar": far, "correct": near > far}
            for near, far in zip(similar, dissimilar, strict=True)
        ],
        texts=events,
        distinct_texts=distinct,
    )


def grade_pairs(embed: Embed, data: TaskRows, settings: PairSettings) -> ProtocolOutput:
    """Compute the cosine of one pair of events per row, to compare with its human rating.

    Args:
        data: rows with the events `event_a`, `event_b` and the number `score`.

    Returns:
        Inputs `predictions` (cosines) and `references` (ratings); per row both.
    """
    held = list(data.rows)
    cosines, events, distinct = _pair_cosines(embed, held, _GRADED)
    predicted = cosines[:, 0].tolist()
    rated = np.asarray([row["score"] for row in held], dtype=np.float64).tolist()
    return ProtocolOutput(
        inputs={"predictions": predicted, "references": rated},
        predictions=[
            {"prediction": cosine, "reference": rating}
            for cosine, rating in zip(predicted, rated, strict=True)
        ],
        texts=events,
        distinct_texts=distinct,
    )


def _pair_cosines(
    embed: Embed, rows: Iterable[Row], pairs: Sequence[tuple[str, str]]
) -> tuple[NDArray[np.float64], int, int]:
    """Compute the cosines of pairs of columns, `(rows, pairs)`; count all and distinct events."""
    distinct = DistinctEvents()
    chosen = distinct.rows(event for row in rows for event in _events(row, pairs))
    vectors = unit_vectors(embed(distinct.events), [event_text(event) for event in distinct.events])
    ends = chosen.reshape(-1, len(pairs), 2)
    cosines = np.einsum("rpd,rpd->rp", vectors[ends[..., 0]], vectors[ends[..., 1]])
    return rounded_cosines(cosines), len(chosen), len(distinct.events)


def events_of_pairs(row: Row) -> list[Event]:
    """Read the events of a row's pairs, in order."""
    return _events(row, _HARD if "similar_a" in row else _GRADED)


def _events(row: Row, pairs: Sequence[tuple[str, str]]) -> list[Event]:
    return [read_event(row.get(column), row, column) for pair in pairs for column in pair]
