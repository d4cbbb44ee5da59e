"""The registry of methods: the built-in ones and those of other packages.

A method is data for the rest of the suite. A package adds one with an entry point of the group
`eventformers.methods` whose value is `package.module:METHOD`. This module does not import torch: the parts of
a method are dotted paths, which are imported on first use.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_type_hints

from huggingface_hub.dataclasses import type_validator

from eventformers.errors import EventformersError, UnknownNameError, shown

if TYPE_CHECKING:
    from eventformers.models.configuration_base import EventConfig
    from eventformers.models.modeling_base import EventPreTrainedModel
    from eventformers.trainers.method import MethodTraining
    from eventformers.trainers.recipes import Recipe

BUILT_IN = (
    "eventformers.built_in.SWCC",
    "eventformers.built_in.MICO",
    "eventformers.built_in.HETEREVENT",
    "eventformers.built_in.EVENT_TYPE_INDUCTION",
    "eventformers.built_in.EVENT_GROUNDING",
    "eventformers.built_in.EVENT_GROUNDING_CROSS",
)
"""The methods of this package, each followed by its further models."""

ENTRY_POINTS = "eventformers.methods"
"""The group of entry points through which other packages add methods."""

Reads = Literal["events", "texts", "chains", "mentions", "mentions_and_events"]
"""The input of a model: events, texts, chains of events, mentions in sentences, or mentions and their
candidate events."""

logger = logging.getLogger(__name__)


def load_object(path: str) -> Any:
    """Import the object at a dotted path `package.module.name`; what cannot be imported is an error."""
    try:
        return _imported(path)
    except (ImportError, AttributeError, ValueError) as error:
        raise EventformersError(f"cannot load {path}: {error}") from error


def _imported(path: str) -> Any:
    """Import an object, even if another package's module that it needs is half imported.

    Such a module imports this package, which registers its method before the module has defined its classes.
    It is run to its end here. The outer import then returns this copy, since import returns what it finds in
    `sys.modules` at the end, so every class exists once.
    """
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        package = module.partition(".")[0]
        half_imported = {
            name: module
            for name, module in sys.modules.items()
            if name.partition(".")[0] == package != __package__
            and getattr(getattr(module, "__spec__", None), "_initializing", False)
        }
        if not half_imported:
            raise
        for half in half_imported:
            del sys.modules[half]
        try:
            return getattr(importlib.import_module(module), name)
        finally:
            sys.modules.update({**half_imported, **sys.modules})


# Compared by identity: the registry has each method once.
@dataclass(frozen=True, eq=False)
class Method:
    """A method, or a further model of one, such as a cross-encoder beside a bi-encoder.

    Args:
        name: the `model_type`; also the METHOD of the command line.
        title: the name for people.
        classes: dotted path of the class for each Auto class; `AutoConfig`, `AutoModel` and the Auto class of
            the training head are required.
        trainer: dotted path of its `eventformers.trainers.method.MethodTraining`.
        recipes: folder of its recipes, as `package/folder`; has `demo.yaml` and `default_recipe`.
        dataset: the dataset builder that it trains on, in snake_case, and the builder's config for a recipe
            whose `data` section names none.
        tasks: evaluation tasks that score a run.
        card: YAML file of its part of a model card, as `package/file`. See
            `eventformers.model_cards.MethodCard`.
        reads: the input of its models.
        processor: dotted path of the processor of its models, which `AutoProcessor` loads.
        collator: dotted path of the collator of its training rows, a public name; None keeps it internal.
        showing: dotted path of its demo, an `eventformers.commands.demo.Showing`; None without one.
        paper: name of its paper for `eventformers reproduce`; None without tables.
        tables: YAML file of the paper's tables, as `package/file`; None without tables. See
            `eventformers.reproduction.tables`.
        head: Auto class of the training head.
        default_recipe: recipe of a run that names none.
        paper_recipe: recipe with the paper's main settings.
        recipes_of: the method whose recipes include its own; None for a method with separate recipes.
        companions: configs of the builder that it reads besides the one that it trains on.

    Raises:
        EventformersError: a field has the wrong type, or a class is missing.
    """

    name: str
    title: str
    classes: dict[str, str]
    trainer: str
    recipes: str
    dataset: tuple[str, str]
    tasks: tuple[str, ...]
    card: str
    reads: Reads
    processor: str = "eventformers.models.processing_events.EventProcessor"
    collator: str | None = None
    showing: str | None = None
    paper: str | None = None
    tables: str | None = None
    head: str = "AutoModelForPreTraining"
    default_recipe: str = "paper"
    paper_recipe: str = "paper"
    recipes_of: str | None = None
    companions: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        for name, expected in get_type_hints(Method).items():
            try:
                type_validator(name, getattr(self, name), expected)
            except TypeError as error:
                raise EventformersError(f"method {shown(self.name)}: {error}") from error
        missing = {"AutoConfig", "AutoModel", self.head} - self.classes.keys()
        if missing:
            raise EventformersError(f"method {shown(self.name)}: classes lacks {', '.join(sorted(missing))}")

    @property
    def config_class(self) -> type[EventConfig]:
        """Its configuration."""
        return load_object(self.classes["AutoConfig"])

    @property
    def head_class(self) -> type[EventPreTrainedModel]:
        """Its training head."""
        return load_object(self.classes[self.head])

    @property
    def training(self) -> MethodTraining:
        """Its contribution to training."""
        return load_object(self.trainer)

    @property
    def pipelines(self) -> dict[str, dict[str, Any]]:
        """The pipelines of its models by task: dotted path of the class, and the Auto classes."""
        package = self.config_class.__module__.rpartition(".")[0]
        found = {}
        for task, entry in self.config_class.pipelines.items():
            file = entry["impl"].partition(".")[0]
            home = package if find_spec(f"{package}.{file}") else "eventformers.models"
            found[task] = {**entry, "impl": f"{home}.{entry['impl']}"}
        return found

    @property
    def recipe_folder(self) -> str:
        """The method that owns its recipes."""
        return self.recipes_of or self.name

    @property
    def recipes_path(self) -> Path:
        """The folder of its recipes."""
        return self._packaged("recipes", self.recipes)

    @property
    def tables_path(self) -> Path | None:
        """The YAML file of its paper's tables; None without tables."""
        return None if self.tables is None else self._packaged("tables", self.tables)

    @property
    def card_path(self) -> Path:
        """The YAML file of its part of a model card."""
        return self._packaged("card", self.card)

    def _packaged(self, what: str, path: str) -> Path:
        """Find a file or folder of a package, given as `package/name`."""
        package, _, name = path.partition("/")
        found = find_spec(package)
        places = list(found.submodule_search_locations or []) if found else []
        if not places:
            raise EventformersError(f"method {shown(self.name)}: {what}: no package {package}")
        return Path(places[0], name)

    def tasks_of(self, recipe: Recipe) -> tuple[str, ...]:
        """The tasks that score a run of this recipe."""
        choose = self.training.choose_tasks
        return self.tasks if choose is None else choose(recipe)

    def training_dataset(self, recipe: Recipe) -> tuple[str, tuple[str, ...], dict[str, Any]]:
        """The builder, its configs and its settings for the training data of a recipe.

        There is one config, unless the recipe's `config` is a list.
        """
        builder, config = self.dataset
        chosen = recipe.data.get("config", config)
        settings = {
            name: value
            for name, value in recipe.data.items()
            if name not in ("config", "streaming", "validation_rows")
        }
        return builder, tuple(chosen) if isinstance(chosen, list) else (chosen,), settings


@cache
def _registered() -> dict[str, Method]:
    methods = {method.name: method for method in built_in_methods()}
    # Sorted, so that of two packages with a method of the same name the same one always wins.
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: (_package(entry), entry.name)):
        try:
            found = load_object(f"{entry.module}.{entry.attr}")
            if not isinstance(found, Method):
                raise EventformersError(f"{entry.value} is {type(found).__name__}, not a Method")
            if found.name in methods:
                raise EventformersError(f"there is already a method {shown(found.name)}")
        except (Exception, SystemExit) as error:
            _warn(f"entry point {entry.name} of {_package(entry)}", error)
        else:
            methods[found.name] = found
    return methods


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else entry.module


def _warn(source: str, error: BaseException) -> None:
    reason = " ".join(str(error).split()) or type(error).__name__
    logger.warning("%s: the method is left out: %s", source, reason)


def all_methods() -> Mapping[str, Method]:
    """Every method and further model by its `model_type`, the built-in ones first.

    A method of another package that cannot be imported, or whose name is taken, is skipped with a warning.
    """
    return MappingProxyType(_registered())


def main_methods() -> Mapping[str, Method]:
    """The methods without their further models."""
    return {name: method for name, method in all_methods().items() if method.recipes_of is None}


class MethodEntry(TypedDict):
    """A method in `list_methods`."""

    name: str
    title: str
    reads: str
    dataset: str
    tasks: list[str]
    recipes: list[str]


def list_methods() -> list[MethodEntry]:
    """List the methods, those of other packages included.

    Returns:
        For each its `name`, which is the `model_type`, `title`, `reads`, the input of its models, the
        `dataset` that it trains on, the `tasks` that score a run, and its `recipes`.
    """
    return [
        {
            "name": method.name,
            "title": method.title,
            "reads": method.reads,
            "dataset": method.dataset[0],
            "tasks": list(method.tasks),
            "recipes": sorted(path.stem for path in method.recipes_path.glob("*.yaml")),
        }
        for method in main_methods().values()
    ]


def load_method(name: str) -> Method:
    """Look up a method, or a further model of one, by its `model_type`."""
    if name not in all_methods():
        raise UnknownNameError("method", name, main_methods())
    return all_methods()[name]


def what_is_read(model_type: object) -> Reads | None:
    """The input of models of a `model_type`; None for an unknown type."""
    method = all_methods().get(model_type) if isinstance(model_type, str) else None
    return method.reads if method else None


def leave_out(method: Method, error: BaseException) -> None:
    """Drop a method of another package whose classes are unusable, with a warning; for a built-in one, raise
    the error."""
    if method in built_in_methods():
        raise error
    _warn(f"method {method.name!r}", error)
    _registered().pop(method.name, None)


def built_in_methods() -> Iterator[Method]:
    """The methods and further models of this package."""
    return (load_object(path) for path in BUILT_IN)
