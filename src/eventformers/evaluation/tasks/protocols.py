"""Types and readers that protocols share.

A protocol turns dataset rows and a function to vectors into a metric's inputs. It never sees a model, a file
or a metric, so it can score any function from events and texts to vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eventformers.datasets_scripts.events import Event
from eventformers.errors import EventformersError, shown
from eventformers.strict import StrictSettings, strict_settings

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
Row: TypeAlias = Mapping[str, object]
MetricInputs: TypeAlias = Mapping[str, Sequence[object]]
Embed: TypeAlias = Callable[[Sequence[str | Event]], NDArray[np.floating]]
"""Maps texts and events to vectors, (N, d), in the same order. Vectors need not be normalised."""

ENCODER_SETTINGS = ("pooling", "event_order")
"""The settings of every task that decide how its encoder is loaded."""


@strict_settings
@dataclass(frozen=True, kw_only=True)
class TaskSettings(StrictSettings):
    """The settings of a task; results record those that differ from the defaults.

    Attributes:
        places: the settings that name models and data, which results omit since they may be local paths.
        pooling: `cls`, `mean` or `lasttoken`; overrides the model's own.
        event_order: a key of `EVENT_ORDERS`; overrides the model's own.
    """

    places: ClassVar[tuple[str, ...]] = ()

    pooling: str | None = None
    event_order: str | None = None

    @property
    def chosen(self) -> dict[str, JsonValue]:
        """The settings that differ from the default, without those of the encoder."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name not in ENCODER_SETTINGS and getattr(self, field.name) != field.default
        }

    @property
    def name(self) -> str:
        """The name of the chosen settings in results; empty for the defaults."""
        told = {name: value for name, value in self.chosen.items() if name not in self.places}
        return "-".join(f"{name}-{value}".lower() for name, value in told.items())

    @property
    def recorded(self) -> dict[str, JsonValue]:
        """The settings as a result records them, without `places` and those of the encoder."""
        left_out = (*ENCODER_SETTINGS, *self.places)
        return {name: value for name, value in vars(self).items() if name not in left_out}


@dataclass(frozen=True)
class ProtocolOutput:
    """The output of a protocol.

    Attributes:
        inputs: the metric's keyword arguments.
        predictions: one record per row, in the order of the rows, ready for JSON.
        texts: number of texts in the rows; an event is one.
        distinct_texts: number of embedded texts; a repeated text is embedded once.
        parts: further keyword arguments of the metric by name, such as for the rows of one direction.
        details: further facts for the reader of the score.
    """

    inputs: MetricInputs
    predictions: list[dict[str, JsonValue]]
    texts: int
    distinct_texts: int
    parts: dict[str, MetricInputs] = field(default_factory=dict)
    details: dict[str, JsonValue] = field(default_factory=dict)


def choices_output(
    scores: Sequence[list[float]], labels: Sequence[int], *, distinct_texts: int
) -> ProtocolOutput:
    """Make the output of a multiple-choice protocol from scores.

    Args:
        scores: the scores of each question's alternatives.
        labels: index of the correct alternative.
        distinct_texts: number of texts that the model read.
    """
    return ProtocolOutput(
        inputs={"predictions": scores, "references": labels},
        predictions=[
            {"scores": list(of_row), "label": label, "correct": of_row.index(max(of_row)) == label}
            for of_row, label in zip(scores, labels, strict=True)
        ],
        texts=len(scores) + sum(map(len, scores)),
        distinct_texts=distinct_texts,
    )


def wrong_columns(row: Row, accepted: str, column: str) -> EventformersError:
    """Build the error for a row with a wrong value in a column."""
    return EventformersError(
        f"found columns {', '.join(map(str, row))}; accepted: {accepted} in the column {shown(column)}"
    )


def read_event(value: object, row: Row, column: str) -> Event:
    """Read the event in a column of a row.

    Raises:
        EventformersError: the value is not an event.
    """
    if not isinstance(value, Mapping) or not {"subject", "predicate", "object"} <= value.keys():
        raise wrong_columns(row, "an event with subject, predicate and object", column)
    return {"subject": value["subject"], "predicate": value["predicate"], "object": value["object"]}


def read_text(row: Row, column: str) -> str:
    """Read the text in a column of a row.

    Raises:
        EventformersError: the value is not a text.
    """
    text = row.get(column)
    if not isinstance(text, str):
        raise wrong_columns(row, "a text", column)
    return text
