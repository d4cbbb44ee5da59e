"""The page of all settings, by section of a recipe and by kind of task."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, get_type_hints

from eventformers.datasets_scripts import BUILDERS
from eventformers.evaluation.tasks import TASKS, names_of_kind
from eventformers.markdown import table
from eventformers.methods import all_methods
from eventformers.models.configuration_base import EventConfig
from eventformers.reference.docstrings import Documented, docstring_entries
from eventformers.strict import described
from eventformers.trainers.arguments import TRAINING_TYPES, EventTrainingArguments
from eventformers.trainers.run import accepted_keys


def settings_page() -> str:
    """Make the tables of all settings: type, default and meaning."""
    parts = ["## `training`", _table([EventTrainingArguments], TRAINING_TYPES)]
    parts.append("## `data`")
    for name, builder in BUILDERS.items():
        config = builder.BUILDER_CONFIG_CLASS
        parts += [f"### Data of `{name}`", _table([config], _hints(config))]
    methods = all_methods()
    parts.append("## `views`, and `data` of the training of a method")
    for name, method in methods.items():
        training = method.training
        # The builder has the others.
        data = {key: kind for key, kind in training.data_types.items() if kind is not object}
        types = {**training.view_types, **data}
        more = {f"data.{key}" if key in data else key: value for key, value in training.meanings.items()}
        parts += [f"### Views of `{name}`", _table(_collators(training), types, more)]
    parts.append("## `model`")
    for name, method in methods.items():
        kinds = [kind for kind in method.config_class.__mro__ if issubclass(kind, EventConfig)]
        parts += [f"### Model of `{name}`", _table(kinds, accepted_keys(method)["model"])]
    parts.append("## Tasks: `evaluate --set`")
    for kind in dict.fromkeys(type(task.kind) for task in TASKS.values()):
        types = {entry.name: _hints(kind.Settings)[entry.name] for entry in dataclasses.fields(kind.Settings)}
        names = ", ".join(f"`{name}`" for name in names_of_kind(kind))
        parts += [f"### {names}", _table(kind.Settings.__mro__, types)]
    return "\n\n".join(parts)


def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _collators(training: Any) -> list[type]:
    """List the classes whose arguments a method's views are: those of its module, its own first."""
    module = importlib.import_module(training.prepare.__module__)
    found = [kind for _, kind in inspect.getmembers(module, inspect.isclass)]
    return sorted(found, key=lambda kind: kind.__module__ != module.__name__)


def _table(
    kinds: Sequence[type], types: Mapping[str, Any], more: Mapping[str, tuple[object, str]] | None = None
) -> str:
    """Make the table of the settings that `types` names and a docstring of `kinds`, or `more`, describes."""
    entries: dict[str, tuple[type, Documented]] = {}
    for kind in kinds:
        for entry in _documented(kind):
            entries.setdefault(entry.name, (kind, entry))
    rows = [
        [f"`{name}`", described(types[name]), _default(kinds[0], kind, name), entry.meaning]
        for name, (kind, entry) in entries.items()
        if name in types and name not in (more or {})
    ]
    for name, (default, meaning) in (more or {}).items():
        rows.append([f"`{name}`", described(types[name.rpartition(".")[2]]), _code(default), meaning])
    return table(["setting", "type", "default", "meaning"], rows)


def _documented(kind: type) -> Iterator[Documented]:
    text = inspect.cleandoc(kind.__doc__ or "")
    for section in ("Args", "Attributes"):
        yield from docstring_entries(text, section)


def _default(first: type, kind: type, name: str) -> str:
    """Return the default of a class's field; a subclass may change it."""
    parameters: Iterable[inspect.Parameter] = (
        inspect.signature(one).parameters[name]
        for one in (first, kind)
        if name in inspect.signature(one).parameters
    )
    value = next((one.default for one in parameters), inspect.Parameter.empty)
    if value is inspect.Parameter.empty:
        return "required"
    if type(value).__name__ == "_HAS_DEFAULT_FACTORY_CLASS":
        value = getattr(first(), name)
    return _code(value)


def _code(value: object) -> str:
    return f"`{'null' if value is None else value}`"
