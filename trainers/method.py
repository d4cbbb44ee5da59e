"""The parts of training that a method defines: its data and its collator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from datasets import Dataset, IterableDataset
from torch.utils.data import Dataset as TorchDataset
from transformers import PreTrainedTokenizerBase

from eventformers.errors import EventformersError, shown
from eventformers.trainers.codes import Codes
from eventformers.trainers.recipes import Recipe
from eventformers.trainers.silhouette_stopping import UnseenMentions


class EventCollator(Protocol):
    """Collator of rows into the inputs of a head, deterministic by seed, epoch and row."""

    epoch: int
    truncated: int

    def __call__(self, rows: Any, /) -> dict[str, Any]: ...


class Calibration(NamedTuple):
    """Values chosen for a trained model on held-out rows.

    Attributes:
        values: values for the log, by name.
        told: sections of the card: titles and Markdown.
    """

    values: dict[str, float]
    told: dict[str, str]


@dataclass
class TrainingData:
    """The data of a training run.

    Args:
        train: training rows.
        validation: rows for the validation loss; None without a held-out split.
        collator: turns rows into the head's inputs.
        description: description of the data for the card: name, fingerprint, counts, sources, licences.
        unseen: mentions of unseen types, for choosing a checkpoint; None if the method has none.
        calibrate: called with the trained head at the end of a run; writes the chosen values to its
            configuration. None without calibration.
        least_rows: minimum number of rows in a batch over all processes; a contrastive loss needs other rows.
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
    """The parts of training that a method defines.

    Args:
        prepare: makes the training data from a recipe, the raw or built data, the tokenizer, the untrained
            head and a seed.
        data_types: the settings of a recipe's `data` section with their types, checked by
            `eventformers.strict`; `object` for settings that the builder checks.
        view_types: the settings of the `views` section with their types.
        meanings: default and meaning of each setting of both sections that neither the configuration of the
            builder nor a class of the method's module documents, for the page of settings.
        choose_tasks: returns the tasks that score a run of a recipe; None takes all tasks of the method.
    """

    prepare: Callable[[Recipe, str | None, PreTrainedTokenizerBase, Any, int], TrainingData]
    data_types: Mapping[str, Any]
    view_types: Mapping[str, Any]
    choose_tasks: Callable[[Recipe], tuple[str, ...]] | None = None
    meanings: Mapping[str, tuple[object, str]] = field(default_factory=dict)


def check_columns(rows: Sequence[Any], *accepted: str) -> None:
    """Check that a collator got the rows of its dataset and not what `Trainer` left of them.

    Args:
        rows: the rows of a batch.
        *accepted: names of columns; a row has one of them.

    Raises:
        EventformersError: the first row has none of them.
    """
    if not any(name in rows[0] for name in accepted):
        raise EventformersError(
            f"the first row of the batch has the columns {shown(sorted(rows[0]))}; accepted: rows with "
            f"{' or '.join(accepted)}. Trainer removes columns that the model does not take: pass "
            "TrainingArguments(remove_unused_columns=False)"
        )


class IndexedRows(TorchDataset):
    """Dataset whose rows hold their index, so that draws depend on the row and not on the order.

    Args:
        rows: the rows.
        chosen: the indices of the rows to take, in order; None takes all.
    """

    def __init__(self, rows: Dataset, chosen: Codes | None = None) -> None:
        self.rows = rows
        self.chosen = chosen

    def __len__(self) -> int:
        return len(self.rows if self.chosen is None else self.chosen)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        row = index if self.chosen is None else int(self.chosen[index])
        return {"row": row, **self.rows[row]}
