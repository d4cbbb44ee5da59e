"""The pages that docstrings and signatures make: all settings, and the public names of Python."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import itertools
import re
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

from transformers import PreTrainedConfig, PreTrainedModel, TrainingArguments

import eventformers
from eventformers.datasets_scripts import BUILDERS
from eventformers.evaluation.tasks import TASKS, names_of_kind
from eventformers.markdown import table
from eventformers.methods import all_methods
from eventformers.models.configuration_base import EventConfig
from eventformers.strict import described
from eventformers.trainers.arguments import TRAINING_TYPES, EventTrainingArguments
from eventformers.trainers.method import STREAMING_MEANING
from eventformers.trainers.run import accepted_keys

_ENTRY = re.compile(r" {4}(\*{0,2}\w+)(?: \([^)]*\))?: (.*)")
_CONTINUATION = re.compile(r" {5,}(\S.*)")


def docstring_entries(docstring: str, section: str) -> dict[str, str]:
    """Parse the names and meanings of one section of a docstring, such as `Args` or `Returns`."""
    entries: dict[str, str] = {}
    inside = False
    for line in docstring.splitlines():
        if not line.startswith(" "):
            inside = line == f"{section}:" or (inside and not line)
        elif inside and (entry := _ENTRY.fullmatch(line)):
            entries[entry[1]] = entry[2]
        elif inside and entries and (more := _CONTINUATION.fullmatch(line)):
            entries[list(entries)[-1]] += f" {more[1]}"
    return entries


def python_page() -> str:
    """Make the page of public names: signature, description, arguments, returned values and errors."""
    values = {name: getattr(eventformers, name) for name in eventformers.__all__}
    classes = {name: value for name, value in values.items() if inspect.isclass(value)}
    functions = {name: value for name, value in values.items() if callable(value) and name not in classes}
    parts = [f"## Functions\n\n{_links(functions)}"]
    shared = [values[name] for name in _SHARED]
    parts += [_described(name, value, 3, shared) for name, value in functions.items()]
    parts.append(f"## Classes\n\n{_links(classes)}")
    for name, value in classes.items():
        bases = [base for base in value.__mro__[1:] if base.__module__.startswith("eventformers.")]
        parts.append(_described(name, value, 3, bases))
        for method in vars(value):
            own = getattr(value, method)
            is_public = not method.startswith(("_", "validate_"))
            if is_public and inspect.isroutine(own) and own.__doc__:
                inherited = [vars(base)[method] for base in bases if method in vars(base)]
                parts.append(_described(f"{name}.{method}", own, 4, inherited))
    parts.append("## Version\n\n`__version__` is the version of the package.")
    return "\n\n".join(parts)


def _links(values: Iterable[str]) -> str:
    return ", ".join(f"[`{name}`](#{name.lower()})" for name in values)


def _described(name: str, value: Any, level: int, relatives: Iterable[Any] = ()) -> str:
    """Describe a function or a class by its docstring, arguments that it leaves out by those of relatives."""
    description, *sections = re.split(r"^(\w+):$", inspect.getdoc(value) or "", flags=re.MULTILINE)
    parts = [f"{'#' * level} `{name}`"]
    if signature := _signature(name, value):
        # Not marked as Python, which has no such statement.
        parts.append(f"```text\n{signature}\n```")
    parts.append(description.strip())
    found = [docstring_entries(inspect.getdoc(one) or "", "Args") for one in relatives]
    for heading, text in {"Args": "", **dict(zip(sections[::2], sections[1::2], strict=True))}.items():
        if heading in ("Returns", "Yields"):
            parts.append(f"**{heading}** {' '.join(text.split())}")
            continue
        entries = docstring_entries(f"{heading}:{text.rstrip()}", heading)
        if heading == "Args" and found:
            known = ChainMap(entries, *found)
            written = (re.split("[:=]", str(one))[0] for one in inspect.signature(value).parameters.values())
            entries = {name: known[name] for name in written if name in known} | entries
        if entries:
            lines = [f"- `{entry}`: {meaning}" for entry, meaning in entries.items()]
            parts.append("\n".join([f"**{_HEADINGS.get(heading, heading)}**", "", *lines]))
    return "\n\n".join(parts)


_HEADINGS = {"Args": "Arguments"}
_SHARED = ("encode", "induce")
"""Functions whose arguments other functions have, too; these leave them out of their docstrings."""
_LONGEST_SIGNATURE = 88
_MADE_FROM_SETTINGS = (PreTrainedModel, PreTrainedConfig, TrainingArguments, Exception)


def _signature(name: str, value: Any) -> str:
    """Write a signature, on several lines if it is long; empty for classes whose fields are settings."""
    if inspect.isclass(value) and issubclass(value, _MADE_FROM_SETTINGS):
        return ""
    signature = inspect.signature(value)
    parameters = [
        one.replace(
            annotation=_written(one.annotation),
            # A function as a default has no text that could be read again.
            default=_Text("...") if " at 0x" in repr(one.default) else one.default,
        )
        for one in signature.parameters.values()
        if one.name != "self"
    ]
    returned = _written(signature.return_annotation)
    signature = signature.replace(parameters=parameters, return_annotation=returned)
    if len(shown := f"{name}{signature}") <= _LONGEST_SIGNATURE:
        return shown
    lines: list[str] = []
    for kind, of_kind in itertools.groupby(parameters, key=lambda one: one.kind):
        if kind is inspect.Parameter.KEYWORD_ONLY and not any(line.startswith("    *") for line in lines):
            lines.append("    *,")
        lines += [f"    {one}," for one in of_kind]
    end = ")" if returned is inspect.Signature.empty else f") -> {returned}"
    return "\n".join([f"{name}(", *lines, end])


@dataclass(frozen=True)
class _Text:
    """A text that is its own `repr`, such as an annotation that is written without quotes."""

    text: str

    def __repr__(self) -> str:
        return self.text


def _written(annotation: Any) -> Any:
    """Return an annotation as it stands in the code; unchanged if there is none."""
    if annotation is inspect.Signature.empty:
        return annotation
    if isinstance(annotation, type) and not get_args(annotation):
        return _Text(annotation.__name__)
    return _Text(str(annotation).strip("\"'"))


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
        streaming = {"streaming": STREAMING_MEANING} if training.streams else {}
        data = {**dict.fromkeys(streaming, bool), **training.data_types}
        types = {**training.view_types, **data}
        meanings = {**streaming, **training.meanings}
        more = {f"data.{key}" if key in data else key: value for key, value in meanings.items()}
        # The views are the arguments of the classes of its module, its own first.
        module = importlib.import_module(training.prepare.__module__)
        kinds = [kind for _, kind in inspect.getmembers(module, inspect.isclass)]
        kinds.sort(key=lambda kind: kind.__module__ != module.__name__)
        parts += [f"### Views of `{name}`", _table(kinds, types, more)]
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


def _table(
    kinds: Sequence[type], types: Mapping[str, Any], more: Mapping[str, tuple[object, str]] | None = None
) -> str:
    """Make the table of the settings that `types` names and a docstring of `kinds`, or `more`, describes."""
    entries: dict[str, tuple[type, str]] = {}
    for kind in kinds:
        text = inspect.cleandoc(kind.__doc__ or "")
        found = docstring_entries(text, "Args") | docstring_entries(text, "Attributes")
        entries |= {name: (kind, meaning) for name, meaning in found.items() if name not in entries}
    rows = [
        [f"`{name}`", described(types[name]), _default(kinds[0], kind, name), meaning]
        for name, (kind, meaning) in entries.items()
        if name in types and name not in (more or {})
    ]
    for name, (default, meaning) in (more or {}).items():
        rows.append([f"`{name}`", described(types[name.rpartition(".")[2]]), _code(default), meaning])
    return table(["setting", "type", "default", "meaning"], rows)


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
