"""Evaluation protocols: how the rows of a dataset and the vectors of a model become a metric's inputs.

A protocol takes an `Embed` function and rows, and gives a `ProtocolOutput`. It never sees a model, a file or
a metric, so any function from events to vectors can be scored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from eventformers.datasets_scripts.events import Event
from eventformers.errors import EventformersError

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
Row: TypeAlias = Mapping[str, object]
Embed: TypeAlias = Callable[[list[Event]], NDArray[np.floating]]
"""Events to vectors, (N, d), in the order of the events. Vectors need not be normalised."""


@dataclass(frozen=True)
class ProtocolOutput:
    """What a protocol makes of a dataset.

    Attributes:
        inputs: the metric's keyword arguments.
        predictions: one record per row, in the order of the rows, ready for JSON.
        events: number of events in the rows.
        distinct_events: number of events that were embedded; a repeated event is embedded once.
    """

    inputs: dict[str, list[float]]
    predictions: list[dict[str, JsonValue]]
    events: int
    distinct_events: int


Protocol: TypeAlias = Callable[[Embed, Iterable[Row]], ProtocolOutput]


def compare_pairs(embed: Embed, rows: Iterable[Row]) -> ProtocolOutput:
    """Cosines of a similar and a dissimilar pair of events per row.

    A row is right where the similar pair is strictly closer; a tie is wrong (Weber et al. 2018).

    Args:
        embed: events to vectors.
        rows: with the events `similar_a`, `similar_b`, `dissimilar_a`, `dissimilar_b`.

    Returns:
        Inputs `similar` and `dissimilar`; per row both cosines and `correct`.

    Raises:
        EventformersError: no rows, or a vector that has no cosine.
    """
    cosines = _pair_cosines(embed, rows, (("similar_a", "similar_b"), ("dissimilar_a", "dissimilar_b")))
    similar, dissimilar = (column.tolist() for column in cosines.values.T)
    return ProtocolOutput(
        inputs={"similar": similar, "dissimilar": dissimilar},
        predictions=[
            {"similar": near, "dissimilar": far, "correct": near > far}
            for near, far in zip(similar, dissimilar, strict=True)
        ],
        events=cosines.events,
        distinct_events=cosines.distinct_events,
    )


def grade_pairs(embed: Embed, rows: Iterable[Row]) -> ProtocolOutput:
    """Cosine of one pair of events per row, beside the human rating of the pair.

    Args:
        embed: events to vectors.
        rows: with the events `event_a`, `event_b` and the number `score`.

    Returns:
        Inputs `predictions` (cosines) and `references` (ratings); per row both.

    Raises:
        EventformersError: no rows, or a vector that has no cosine.
    """
    held = list(rows)
    cosines = _pair_cosines(embed, held, (("event_a", "event_b"),))
    predicted = cosines.values[:, 0].tolist()
    rated = np.asarray([row["score"] for row in held], dtype=np.float64).tolist()
    return ProtocolOutput(
        inputs={"predictions": predicted, "references": rated},
        predictions=[
            {"prediction": cosine, "reference": rating}
            for cosine, rating in zip(predicted, rated, strict=True)
        ],
        events=cosines.events,
        distinct_events=cosines.distinct_events,
    )


@dataclass(frozen=True)
class _PairCosines:
    """Cosines, (rows, pairs), and how many events they took."""

    values: NDArray[np.float64]
    events: int
    distinct_events: int


def _pair_cosines(embed: Embed, rows: Iterable[Row], pairs: Sequence[tuple[str, str]]) -> _PairCosines:
    """The cosine of every pair of columns in every row; each distinct event is embedded once."""
    position: dict[tuple[str, str, str], int] = {}
    distinct: list[Event] = []
    chosen: list[int] = []
    for row in rows:
        for column in (column for pair in pairs for column in pair):
            event = _event(row, column)
            key = (event["subject"], event["predicate"], event["object"])
            if key not in position:
                position[key] = len(distinct)
                distinct.append(event)
            chosen.append(position[key])
    if not chosen:
        raise EventformersError("the dataset has no rows; accepted: at least one")
    vectors = _unit_vectors(embed(distinct), distinct)
    ends = np.asarray(chosen).reshape(-1, len(pairs), 2)
    cosines = np.einsum("rpd,rpd->rp", vectors[ends[..., 0]], vectors[ends[..., 1]])
    # Rounding far below the precision of the vectors: the order of summation must not decide between two
    # pairs whose cosines are equal, such as two pairs of one event with itself.
    return _PairCosines(np.round(np.clip(cosines, -1.0, 1.0), 12), len(chosen), len(distinct))


def _event(row: Row, column: str) -> Event:
    """The event in a column of a row."""
    event = row.get(column)
    if not isinstance(event, Mapping) or not {"subject", "predicate", "object"} <= event.keys():
        raise EventformersError(
            f"found columns {', '.join(map(str, row))}; accepted: an event with subject, predicate and "
            f"object in the column {column!r}"
        )
    return {"subject": event["subject"], "predicate": event["predicate"], "object": event["object"]}


def _unit_vectors(vectors: NDArray[np.floating], events: Sequence[Event]) -> NDArray[np.float64]:
    """The vectors at length one, in double precision, (N, d)."""
    array = np.asarray(vectors, dtype=np.float64)
    if array.ndim != 2 or len(array) != len(events):
        raise EventformersError(
            f"the model gave vectors of shape {array.shape} for {len(events)} events; "
            "accepted: one vector each"
        )
    lengths = np.linalg.norm(array, axis=1, keepdims=True)
    wrong = np.flatnonzero(~(np.isfinite(lengths[:, 0]) & (lengths[:, 0] > 0)))
    if wrong.size:
        raise EventformersError(
            f"the model gave no usable vector (NaN, infinite or zero) for {wrong.size} of {len(events)} "
            f"events, the first {' '.join(filter(None, events[wrong[0]].values()))!r}; accepted: finite "
            "vectors that are not zero"
        )
    return array / lengths
