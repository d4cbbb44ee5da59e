"""What a method adds to training: its data and its collator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from datasets import Dataset, IterableDataset
from torch.utils.data import Dataset as TorchDataset
from transformers import PreTrainedTokenizerBase

from eventformers.trainers.recipes import Recipe
from eventformers.trainers.silhouette_stopping import UnseenMentions


class EventCollator(Protocol):
    """Turns rows into the inputs of a head, the same for the same seed, epoch and row."""

    epoch: int
    truncated: int

    def __call__(self, rows: Any, /) -> dict[str, Any]: ...


class Calibration(NamedTuple):
    """What was chosen for a trained model on rows that it was not trained on.

    Attributes:
        values: what the log tells, by name.
        told: what the card tells: titles and Markdown.
    """

    values: dict[str, float]
    told: dict[str, str]


@dataclass
class TrainingData:
    """What a method prepares for its trainer.

    Args:
        train: training rows.
        validation: rows for the validation loss; None where none are kept aside.
        collator: turns rows into the head's inputs.
        description: what the card tells of the data: name, fingerprint, counts, sources, licences.
        unseen: mentions of unseen types, by which a checkpoint can be chosen; None where a method has none.
        calibrate: what is chosen for the trained head once a run ends, written to its configuration; None
            where a method chooses nothing.
        least_rows: rows of a batch at least, over all processes, for the loss to tell a row from others.
    """

    train: TorchDataset | IterableDataset
    validation: TorchDataset | None
    collator: EventCollator
    description: dict[str, Any] = field(default_factory=dict)
    unseen: UnseenMentions | None = None
    calibrate: Callable[[Any], Calibration] | None = None
    least_rows: int = 2


@dataclass(frozen=True)
class MethodTraining:
    """What a method adds to training.

    Args:
        prepare: makes the training data from a recipe, the raw or built data, the tokenizer, the head before
            training and a seed.
        data_types: the settings of a recipe's `data` section, each with its type, as `eventformers.strict`
            checks them; those of the builder, which checks them itself, as `object`.
        view_types: the settings of the `views` section, each with its type.
        choose_tasks: the tasks that a recipe's run is scored on; None takes all tasks of the method.
    """

    prepare: Callable[[Recipe, str | None, PreTrainedTokenizerBase, Any, int], TrainingData]
    data_types: Mapping[str, Any]
    view_types: Mapping[str, Any]
    choose_tasks: Callable[[Recipe], tuple[str, ...]] | None = None


class IndexedRows(TorchDataset):
    """A dataset whose rows know their place, so that draws depend on the row and not on the order."""

    def __init__(self, rows: Dataset) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        return {"row": index, **self.rows[index]}


def indexed_stream(rows: IterableDataset, seed: int, buffer_size: int = 10_000) -> IterableDataset:
    """Shuffle an endless repetition of a stream and number its rows."""
    shuffled = rows.repeat(None).shuffle(seed=seed, buffer_size=buffer_size)
    return shuffled.map(lambda row, index: {"row": index, **row}, with_indices=True)
