"""The evaluation tasks by name, and variants of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from importlib import import_module
from typing import Any, TypedDict, cast, get_type_hints

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.evaluation.tasks.base import ENCODER_SETTINGS, TaskKind, TaskSettings
from eventformers.evaluation.tasks.base import Task as Task
from eventformers.files import packaged_yaml


def _declared(name: str, entry: dict[str, Any]) -> Task:
    """Make a task from its entry in `tasks.yaml`."""
    values = {key: _value(value) for key, value in entry.items()}
    of_kind = {key: _value(value) for key, value in values.pop("kind").items()}
    module, _, kind = of_kind.pop("class").partition(".")
    declared = import_module(f"{__name__}.{module}")
    protocol = getattr(declared, of_kind.pop("protocol"))
    return Task(name=name, kind=getattr(declared, kind)(protocol, **of_kind), **values)


def _value(value: object) -> Any:
    # YAML and JSON give lists; frozen settings hold tuples.
    return tuple(value) if isinstance(value, list) else value


TASKS: dict[str, Task] = {
    name: _declared(name, entry)
    for name, entry in packaged_yaml(__file__, "tasks.yaml").items()
    if not name.startswith(".")
}
"""The tasks by name."""

_KINDS = tuple(dict.fromkeys(type(task.kind) for task in TASKS.values()))


class TaskEntry(TypedDict):
    """A task in `list_tasks`."""

    name: str
    title: str
    dataset: str
    config: str
    metric: str
    main_score: str
    description: str


def list_tasks() -> list[TaskEntry]:
    """List the evaluation tasks.

    Returns:
        For each its `name`, `title`, the `dataset` and `config` whose rows it reads, its `metric` and
        `main_score`, and a `description` of the score.
    """
    names = get_type_hints(TaskEntry)
    return [cast(TaskEntry, {name: getattr(task, name) for name in names}) for task in TASKS.values()]


def names_of_kind(kind: type[TaskKind]) -> list[str]:
    """List the names of the tasks of a kind."""
    return [task.name for task in TASKS.values() if isinstance(task.kind, kind)]


def check_settings(settings: Mapping[str, object]) -> None:
    """Check settings that apply to several tasks: an unknown one, or an unknown or invalid value, is an
    error."""
    known = {name: kind for kind in _KINDS for name in _names(kind)}
    for name in settings:
        if name not in known:
            raise UnknownNameError("setting", name, known)
    for kind in dict.fromkeys(known[name] for name in settings):
        kind.Settings(**{name: _value(settings[name]) for name in settings if name in _names(kind)})


def settings_used(task: Task, settings: Mapping[str, object]) -> dict[str, object]:
    """Select the settings that a task uses."""
    kind = task.kind
    used = {*kind.used(kind.settings)[0], *ENCODER_SETTINGS}.intersection(_names(type(kind)))
    return {name: value for name, value in settings.items() if name in used}


def with_settings(task: Task, settings: Mapping[str, object] | TaskSettings) -> Task:
    """Return a copy of a task with other settings.

    Args:
        settings: an instance of `task.kind.Settings`, or values by name, which replace those of the task.

    Raises:
        UnknownNameError: a setting or a value is unknown.
        EventformersError: a value is invalid, or the task does not use a setting.
    """
    kind = task.kind
    if isinstance(settings, Mapping):
        for name in settings:
            if name not in _names(type(kind)):
                raise _foreign(task, next((one for one in _KINDS if name in _names(one)), None), name)
        values: dict[str, Any] = {name: _value(value) for name, value in settings.items()}
        settings = replace(kind.settings, **values)
    elif type(settings) is not kind.Settings:
        raise _foreign(task, next((one for one in _KINDS if one.Settings is type(settings)), None))
    return replace(task, kind=kind.with_settings(task.name, settings))


def _names(kind: type[TaskKind]) -> list[str]:
    return [field.name for field in fields(kind.Settings)]


def _foreign(task: Task, owner: type[TaskKind] | None, name: str = "") -> EventformersError:
    """Build the error for settings of another kind of task."""
    if owner is None:
        return UnknownNameError("setting", name, {one for kind in _KINDS for one in _names(kind)})
    return EventformersError(f"{task.name} {owner.refusal}: {', '.join(names_of_kind(owner))}")


def get_task(name: str | Task) -> Task:
    """Find a task by its name; a `Task`, which may be a variant, is returned unchanged."""
    if isinstance(name, Task):
        return name
    if name not in TASKS:
        raise UnknownNameError("task", name, TASKS)
    return TASKS[name]
