"""What a method adds to training: its head, its data, its collator."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from datasets import Dataset, IterableDataset
from torch.utils.data import Dataset as TorchDataset
from transformers import PreTrainedTokenizerBase

from eventformers.errors import UnknownNameError
from eventformers.models.configuration_base import EventConfig
from eventformers.models.modeling_base import EventPreTrainedModel
from eventformers.trainers.recipes import Recipe
from eventformers.trainers.silhouette_stopping import UnseenMentions

METHODS = {
    "swcc": "eventformers.trainers.swcc",
    "mico": "eventformers.trainers.mico",
    "heterevent": "eventformers.trainers.heterevent",
    "event_type_induction": "eventformers.trainers.event_type_induction",
    "event_grounding": "eventformers.trainers.event_grounding",
}
"""The module of each method, which holds its `METHOD`."""

FURTHER_MODELS = {"event_grounding_cross": "eventformers.trainers.event_grounding_cross"}
"""The module of each further model of a method, which recipes of that method name by `method`."""


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


class Prepare(Protocol):
    """Makes the training data of a method."""

    def __call__(
        self,
        recipe: Recipe,
        data: str | None,
        tokenizer: PreTrainedTokenizerBase,
        head: Any,
        seed: int,
        tools: Any = None,
        /,
    ) -> TrainingData: ...


@dataclass(frozen=True)
class Method:
    """A method, as the trainer sees it.

    Args:
        name: the `model_type`.
        title: how people call it.
        config_class: its configuration.
        head_class: its training head.
        default_recipe: the recipe that is taken where none is named.
        dataset: the dataset builder that it trains on, in snake_case, and the builder's config where a
            recipe's `data` section names none.
        data_keys: settings that `prepare` reads from a recipe's `data` section.
        view_keys: settings that it reads from the `views` section.
        tasks: evaluation tasks that a run is scored on.
        prepare: makes the training data from a recipe, the raw or built data, the tokenizer, the head before
            training, a seed, and functions of inference, which event grounding alone calls.
        choose_tasks: the tasks that a recipe's run is scored on, where they are not all.
        paper_recipe: the recipe of the paper's main settings.
        recipes_of: the method among whose recipes its own are; None where they have a folder of their own.
        companions: configs of the builder that it reads beside the one that it trains on.
    """

    name: str
    title: str
    config_class: type[EventConfig]
    head_class: type[EventPreTrainedModel]
    default_recipe: str
    dataset: tuple[str, str]
    data_keys: frozenset[str]
    view_keys: frozenset[str]
    tasks: tuple[str, ...]
    prepare: Prepare
    choose_tasks: Callable[[Recipe], tuple[str, ...]] | None = None
    paper_recipe: str = "paper"
    recipes_of: str | None = None
    companions: tuple[str, ...] = ()

    @property
    def recipe_folder(self) -> str:
        """The folder of its recipes."""
        return self.recipes_of or self.name

    def tasks_of(self, recipe: Recipe) -> tuple[str, ...]:
        """The tasks that a run of this recipe is scored on."""
        return self.tasks if self.choose_tasks is None else self.choose_tasks(recipe)

    def training_dataset(self, recipe: Recipe) -> tuple[str, str, dict[str, Any]]:
        """The builder, its config and its settings that a recipe trains on."""
        builder, config = self.dataset
        settings = {
            name: value
            for name, value in recipe.data.items()
            if name not in ("config", "streaming", "validation_rows")
        }
        return builder, recipe.data.get("config", config), settings


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


def load_method(name: str) -> Method:
    """Load a method, or a further model of one, by its `model_type`.

    Raises:
        UnknownNameError: there is no such method.
    """
    modules = METHODS | FURTHER_MODELS
    if name not in modules:
        raise UnknownNameError("method", name, METHODS)
    return importlib.import_module(modules[name]).METHOD
