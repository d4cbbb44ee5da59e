"""The declaration of an evaluation task, and the base class of the kinds of tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eventformers.datasets_scripts.events import Event
from eventformers.errors import EventformersError, shown
from eventformers.evaluation.session import Session
from eventformers.inference.encode import EventEncoder
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
        predictions: one record per row, in the order of the rows, ready for JSON.
        texts: number of texts in the rows; an event is one.
        distinct_texts: number of embedded texts; a repeated text is embedded once.
        parts: further arguments of the metric by name, such as for the rows of one direction.
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
    """Make the output of a multiple-choice protocol from scores, and the number of texts that the model
    read."""
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
    """Read the event in a column of a row, or raise an error."""
    if not isinstance(value, Mapping) or not {"subject", "predicate", "object"} <= value.keys():
        raise wrong_columns(row, "an event with subject, predicate and object", column)
    return {"subject": value["subject"], "predicate": value["predicate"], "object": value["object"]}


def read_text(row: Row, column: str) -> str:
    """Read the text in a column of a row, or raise an error."""
    text = row.get(column)
    if not isinstance(text, str):
        raise wrong_columns(row, "a text", column)
    return text


BatchSize: TypeAlias = int | Literal["auto"]


@dataclass(frozen=True)
class Computing:
    """Device, precision and batch size of a model; see `evaluate`."""

    device: str | None = None
    dtype: str | None = None
    batch_size: BatchSize = "auto"


@dataclass(frozen=True)
class TaskRows:
    """The rows that a score is measured on; `companions` has those of the task's companion configs by
    name."""

    rows: Iterable[Row]
    other_splits: Mapping[str, Iterable[Row]] = field(default_factory=dict)
    companions: Mapping[str, Iterable[Row]] = field(default_factory=dict)
    split: str = ""


def threshold_rows(data: TaskRows, split: str) -> tuple[str, Iterable[Row] | None]:
    """Find the rows of a split to choose a threshold on, with their name in results; None are the scored rows
    themselves. A missing split is an error."""
    if data.split == split:
        return f"{split}, the scored split itself", None
    if split not in data.other_splits:
        raise EventformersError(
            f"found no split {shown(split)} to choose a threshold on; accepted: data with this split, or "
            "threshold=NUMBER"
        )
    return split, data.other_splits[split]


@dataclass(frozen=True)
class Prepared:
    """A model that is ready for a kind of task.

    Attributes:
        scorer: what the protocols of the kind call: a function from texts to vectors, a scorer of chains, …
        name: added to the name of the settings in the variant of a result; may be empty.
        record: returns what a result records beside the settings; called after the run.
    """

    scorer: Any
    name: str = ""
    record: Callable[[], Mapping[str, JsonValue]] = dict


@dataclass(frozen=True)
class TaskKind(ABC):
    """A kind of task: its settings, and how it prepares and runs a model.

    Attributes:
        protocol: makes the metric's inputs from a scorer, rows and the settings.
        Settings: the class of the settings, whose fields are the keys of `evaluate --set`.
        refusal: text of the error for a task of another kind, before the names of the tasks of this kind.
        reads_all_splits: whether the protocol also reads the dataset's other splits.
    """

    Settings: ClassVar[type[TaskSettings]]
    refusal: ClassVar[str]
    reads_all_splits: ClassVar[bool] = False

    protocol: Callable[..., ProtocolOutput]
    uses: tuple[str, ...] = ()
    settings: Any = field(default_factory=TaskSettings)

    def with_settings(self, task: str, settings: Any) -> Self:
        """Return a copy of this kind with other settings; one that the task of this name does not use is an
        error."""
        used, hint = self.used(settings)
        if unused := [name for name in settings.chosen if name not in used]:
            raise EventformersError(
                f"{task} does not use {', '.join(unused)}; accepted: {', '.join(used)}{hint}"
            )
        return replace(self, settings=settings)

    def used(self, settings: Any) -> tuple[tuple[str, ...], str]:
        """Return the settings that the task uses beside these, and a hint on how to use others."""
        return self.uses, ""

    @abstractmethod
    def prepare(self, model: EventEncoder, session: Session, computing: Computing) -> Prepared:
        """Prepare a model for the task; one that cannot run it under these settings is an error."""

    def run(self, scorer: Any, data: TaskRows) -> ProtocolOutput:
        """Run the protocol, which makes the metric's inputs; rows or output that cannot be read or scored are
        errors."""
        return self.protocol(scorer, data, self.settings)

    def record(self, prepared: Prepared) -> dict[str, JsonValue]:
        """Collect the settings for a result, without local paths."""
        return {**self.settings.recorded, **prepared.record()}

    def untrained(self, model: EventEncoder) -> Self:
        """Return the kind with the settings for the untrained encoder of a model."""
        return self

    @property
    def untrained_may_fail(self) -> bool:
        """Whether the untrained encoder may be unable to run the task."""
        return False

    @property
    def data_settings(self) -> Mapping[str, JsonValue]:
        """The settings of the dataset builder that the task changes."""
        return {}

    @property
    def development_split(self) -> str:
        """The split that a threshold is chosen on; empty for none."""
        return ""

    def count(self, rows: Sized) -> int:
        """Count the scored rows."""
        return len(rows)


@dataclass(frozen=True)
class Task:
    """An evaluation task.

    Attributes:
        name: its name in `TASKS`, on the command line and in the paths of results.
        splits: the splits that can be scored; the first that the data has is the usual one.
        kind: the kind of task, which prepares and runs models.
        description: what the score means, in one sentence.
        published: main scores from papers, by model.
        published_source: the paper, which ends the name of each of these models.
        published_split: the split that the published scores were measured on.
        published_rows: the number of rows of that split in the publication.
        published_data: whether the published rows are available; if not, no data counts as the same.
        max_length: maximum number of tokens of a text; None leaves it to the encoder.
        other_configs: configs with the same columns, used if the data lacks `config`.
        companions: further configs whose rows the protocol reads, such as frames to link to.
        companions_by_split: those of which the protocol reads only the scored split.
        cluster_column: the column whose equal values mark rows that depend on each other, and are resampled
            together in comparisons.
        sample_settings: settings of the builder for the bundled samples, which are too small for its
            defaults.
        build_settings: settings of the builder for other data, such as those of a training run.
    """

    name: str
    title: str
    dataset: str
    config: str
    splits: tuple[str, ...]
    kind: TaskKind
    metric: str
    main_score: str
    description: str
    paper_reference: str
    published: Mapping[str, float] = field(default_factory=dict)
    published_source: str = ""
    published_split: str = "test"
    published_rows: int | None = None
    published_data: bool = True
    max_length: int | None = None
    other_configs: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    companions_by_split: tuple[str, ...] = ()
    cluster_column: str = "document_id"
    sample_settings: Mapping[str, object] = field(default_factory=dict)
    build_settings: Mapping[str, object] = field(default_factory=dict)

    @property
    def published_scores(self) -> dict[str, float]:
        """The main scores from papers, by model with its source."""
        return {f"{model}{self.published_source}": score for model, score in self.published.items()}

    def may_share_rows(self, other: Task) -> bool:
        """Check whether another task can read the same rows: both read a config of the same dataset."""
        configs, others = ((task.config, *task.other_configs) for task in (self, other))
        return self.dataset == other.dataset and not set(configs).isdisjoint(others)

    def published_scores_on(self, split: str, rows: int | None, origin: str | None) -> Mapping[str, float]:
        """Return the published scores if a score was measured on their rows, else none.

        `rows` and `origin` (`samples`, `local` or `hub`, as in `DatasetRecord`) are None if unknown.
        """
        is_same = (split, rows) == (self.published_split, self.published_rows)
        return self.published_scores if is_same and self.published_data and origin != "samples" else {}

    def choose_split(self, found: Iterable[str], wanted: str | None = None) -> str:
        """Choose the split to score: the wanted one, or the first of `splits` that the data has. One that it
        lacks is an error."""
        names = list(found)
        for split in (wanted,) if wanted is not None else self.splits:
            if split in names:
                return split
        accepted = f"the requested {wanted!r}" if wanted is not None else " or ".join(self.splits)
        raise EventformersError(
            f"{self.config}: found the splits {', '.join(names)}; accepted: data with {accepted}"
        )
