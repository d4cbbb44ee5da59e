"""What an evaluation task declares, and what every kind of task does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar

import torch

from eventformers.errors import EventformersError
from eventformers.evaluation.tasks.protocols import Embed, JsonValue, ProtocolOutput, Row, TaskSettings

if TYPE_CHECKING:
    from eventformers.evaluation.session import Session
    from eventformers.inference.encode import EventEncoder

BatchSize: TypeAlias = int | Literal["auto"]

Asked = TypeVar("Asked")
"""What the protocols of a kind ask for scores: a function from texts to vectors, a scorer of chains, …"""


@dataclass(frozen=True)
class Computing:
    """What a model computes on; arguments as of `evaluate`."""

    device: str | None = None
    dtype: str | None = None
    batch_size: BatchSize = "auto"


@dataclass(frozen=True)
class TaskRows:
    """The rows that a score is measured on.

    Attributes:
        rows: the rows of the scored split.
        other_splits: the rows of the other splits by name.
        companions: the rows of the task's companion configs by name.
        split: the name of the scored split.
    """

    rows: Iterable[Row]
    other_splits: Mapping[str, Iterable[Row]] = field(default_factory=dict)
    companions: Mapping[str, Iterable[Row]] = field(default_factory=dict)
    split: str = ""


@dataclass(frozen=True)
class Prepared(Generic[Asked]):
    """A model that is ready for a kind of task.

    Attributes:
        asked: what the protocols of the kind ask.
        name: what the variant of a result adds to the name of the settings; empty for nothing.
        record: what a result records beside the settings; asked after the run.
    """

    asked: Asked
    name: str = ""
    record: Callable[[], Mapping[str, JsonValue]] = dict


@dataclass(frozen=True)
class TaskKind(ABC, Generic[Asked]):
    """A kind of task: its settings, and how it prepares and runs a model.

    Attributes:
        protocol: makes the metric's inputs from rows and what is asked.
        uses: the settings that the protocol has a use for.
        settings: how the task reads its rows.
        Settings: the class of the settings, whose fields are the keys of `evaluate --set`.
        refusal: why a task of another kind does not take these settings, and what the message calls them.
        reads_all_splits: whether the protocol reads the dataset's other splits, too.
    """

    Settings: ClassVar[type[TaskSettings]]
    refusal: ClassVar[str]
    reads_all_splits: ClassVar[bool] = False

    protocol: Callable[..., ProtocolOutput]
    uses: tuple[str, ...] = ()
    settings: Any = field(default_factory=TaskSettings)

    def with_settings(self, task: str, settings: Any) -> Self:
        """The kind under other settings.

        Args:
            task: the task's name, for an error.
            settings: the settings.

        Raises:
            EventformersError: the task has no use for one of them.
        """
        used, hint = self.used(settings)
        if unused := [name for name in settings.chosen if name not in used]:
            raise EventformersError(
                f"{task} has no use for {', '.join(unused)}; accepted: {', '.join(used)}{hint}"
            )
        return replace(self, settings=settings)

    def used(self, settings: Any) -> tuple[tuple[str, ...], str]:
        """The settings that the task has a use for beside these, and how others become useful."""
        return self.uses, ""

    @abstractmethod
    def prepare(self, model: EventEncoder, session: Session, computing: Computing) -> Prepared[Asked]:
        """Make a model ready.

        Args:
            model: the model.
            session: holds what is loaded and encoded.
            computing: device, precision and batch size.

        Raises:
            EventformersError: the model cannot do the task under these settings.
        """

    @abstractmethod
    def of_vectors(self, embed: Embed, device: torch.device | None = None) -> Asked:
        """What the protocols ask, by any function from texts and events to vectors.

        Args:
            embed: the function.
            device: where ranks are computed; None takes an accelerator where there is one.
        """

    def run(self, asked: Asked, data: TaskRows) -> ProtocolOutput:
        """Make the metric's inputs.

        Raises:
            EventformersError: the rows cannot be read, or the model gives nothing that can be scored.
        """
        return self.protocol(asked, data.rows)

    def record(self, prepared: Prepared[Asked]) -> dict[str, JsonValue]:
        """How the rows were read, for the settings of a result; without places on a disk."""
        return {**self.settings.recorded, **prepared.record()}

    def untrained(self, model: EventEncoder) -> Self:
        """How the untrained encoder is read beside a model."""
        return self

    @property
    def untrained_may_fail(self) -> bool:
        """Whether these settings may not work on every model."""
        return False

    @property
    def data_settings(self) -> Mapping[str, JsonValue]:
        """The settings of the dataset builder that are chosen."""
        return {}

    @property
    def development_split(self) -> str:
        """The split that a threshold is chosen on; empty for none."""
        return ""

    def count(self, rows: Sized) -> int:
        """How many of the rows are scored."""
        return len(rows)


@dataclass(frozen=True)
class Task:
    """One evaluation task.

    Attributes:
        name: its name in `TASKS`, on the command line and in the paths of results.
        title: its name in tables and cards.
        dataset: the dataset builder, in snake_case.
        config: the builder's config.
        splits: the splits that can be scored; of those that the data has, the first is the usual one.
        kind: how a model is prepared and run on it.
        metric: a name that `load_metric` takes.
        main_score: the key of the metric's scores that stands for the task.
        description: what the score means, in one sentence.
        paper_reference: where the task was published.
        published_scores: main scores from papers, by model.
        published_split: the split that the published scores were measured on.
        published_rows: how many rows that split has as it was published.
        published_data: whether the rows of the published scores can be had; where not, no data are the same.
        max_length: tokens of a text at most; None leaves it to the encoder.
        other_configs: configs with the same columns that are taken where the data lacks the first.
        companions: configs of the builder whose rows the protocol reads, too, such as frames to link to.
        companions_by_split: those of which it reads the scored split alone.
        sample_settings: settings of the builder for the bundled samples, which are smaller than the data that
            its defaults are for.
        build_settings: settings of the builder for other data, such as those that a run trained under.
    """

    name: str
    title: str
    dataset: str
    config: str
    splits: tuple[str, ...]
    kind: TaskKind[Any]
    metric: str
    main_score: str
    description: str
    paper_reference: str
    published_scores: Mapping[str, float] = field(default_factory=dict)
    published_split: str = "test"
    published_rows: int | None = None
    published_data: bool = True
    max_length: int | None = None
    other_configs: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    companions_by_split: tuple[str, ...] = ()
    sample_settings: Mapping[str, object] = field(default_factory=dict)
    build_settings: Mapping[str, object] = field(default_factory=dict)

    def is_published_data(self, split: str, rows: int | None, origin: str | None) -> bool:
        """Whether a score was measured on the rows that the published scores were measured on.

        Args:
            split: the split that was scored.
            rows: how many rows it has; None where that is not known.
            origin: `samples`, `local` or `hub`, as `DatasetRecord` has it; None where that is not known.
        """
        is_same = (split, rows) == (self.published_split, self.published_rows)
        return is_same and self.published_data and origin != "samples"

    def published_scores_on(self, split: str, rows: int | None, origin: str | None) -> Mapping[str, float]:
        """The published scores where `is_published_data` holds for the same arguments; otherwise none."""
        return self.published_scores if self.is_published_data(split, rows, origin) else {}

    def choose_split(self, found: Iterable[str], wanted: str | None = None) -> str:
        """The split to score: the one that is wanted, or else the usual one.

        Args:
            found: the splits that the data has.
            wanted: one of them; None takes the first of `splits` that is there.

        Raises:
            EventformersError: the data lacks it.
        """
        names = list(found)
        for split in (wanted,) if wanted is not None else self.splits:
            if split in names:
                return split
        accepted = f"{wanted!r}, which was asked for" if wanted is not None else " or ".join(self.splits)
        raise EventformersError(
            f"{self.config}: found the splits {', '.join(names)}; accepted: data with {accepted}"
        )
