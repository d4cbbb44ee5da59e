"""Recipes: YAML files with the settings of a training run, and overrides of single settings."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

from eventformers.datasets_scripts.reading.lines import parse_yaml
from eventformers.errors import DataFormatError, EventformersError, UnknownNameError, shown
from eventformers.methods import load_method
from eventformers.strict import check_types

SECTIONS = ("model", "data", "views", "training")
_STAGE_TYPES: dict[str, Any] = {"name": str, "stage": str, **dict.fromkeys(SECTIONS, dict)}
_OF_ONE_RECIPE = ("expected", "recorded", "note")


@dataclass
class Recipe:
    """Settings of a training run, or of one of its stages.

    Args:
        method: the `model_type` of the trained model; a file names it if it differs from its folder's.
        name: file name without suffix.
        description: one line.
        encoder: Hub id of the encoder that the numbers belong to; None takes the packaged one.
        model: fields of the method's configuration.
        data: settings of the dataset builder.
        views: settings of the method's collator.
        training: fields of `EventTrainingArguments`.
        stages: consecutive stages. Each is a mapping with its `name`, the sections that it overrides, and
            `stage`, the method's stage, if that has another name. Empty for a single stage with the sections
            above.
        seed: seed of the run; None draws one.
        expected: scores by task that the paper, or our own runs, report.
        expected_source: source of these scores.
        recorded: `hours` of training on two CPU cores, and `megabytes` of the model's folder, of our own run
            with the packaged encoder, as far as they are known.
        follows: for a model that trains on the outcome of another run: the name of that run's `recipe`, and
            `encoder` or settings with their folders inside the run. `release` fills them in.
        note: how to read the scores of a run.
        changed: settings that differ from the file, by key.
    """

    method: str
    name: str
    description: str = ""
    encoder: str | None = None
    model: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    views: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    stages: list[dict[str, Any]] = field(default_factory=list)
    seed: int | None = None
    expected: dict[str, float] = field(default_factory=dict)
    expected_source: str = ""
    recorded: dict[str, float] = field(default_factory=dict)
    follows: dict[str, str] = field(default_factory=dict)
    note: str = ""
    changed: dict[str, Any] = field(default_factory=dict)


_RECIPE_TYPES: dict[str, Any] = {
    **{name: kind for name, kind in get_type_hints(Recipe).items() if name not in ("name", "changed")},
    **{**dict.fromkeys(SECTIONS, dict), "stages": list[dict], "extends": object},
}


def list_recipes(method: str) -> list[str]:
    """List the names of a method's recipes, sorted."""
    return sorted(path.stem for path in load_method(method).recipes_path.glob("*.yaml"))


def _read(method: str, name: str) -> dict[str, Any]:
    known_names = list_recipes(method)
    is_file = isinstance(name, str) and name.endswith((".yaml", ".yml")) and os.path.isfile(name)
    if not is_file and name not in known_names:
        raise UnknownNameError(f"recipe of {method}", str(name), known_names)
    path = Path(name) if is_file else load_method(method).recipes_path / f"{name}.yaml"
    content = deepcopy(_parsed(path.read_bytes(), path))
    check_types({str(path): content}, {str(path): dict})
    _check(content, _RECIPE_TYPES, str(path))
    if content.get("follows") and "recipe" not in content["follows"]:
        raise EventformersError(
            f"{path}, follows: found {shown(content['follows'])}; accepted: a recipe, and folders of its run "
            "by setting"
        )
    names = [stage.get("name") for stage in content.get("stages", ())]
    for name, stage in zip(names, content.get("stages", ()), strict=True):
        _check(stage, _STAGE_TYPES, f"{path}, stage {name}")
        if not re.fullmatch(r"[\w-]+", name or ""):
            raise EventformersError(
                f"{path}, stages: found the name {shown(name)}; accepted: letters, digits, _ and -"
            )
    if len(set(names)) < len(names):
        raise EventformersError(f"{path}, stages: found {', '.join(names)}; accepted: each name once")
    return content


@functools.lru_cache(maxsize=64)
def _parsed(text: bytes, path: Path) -> Any:
    """The value of a recipe's YAML, whose parser is slow."""
    return parse_yaml(text, path, "a mapping of settings")


def _check(content: Mapping[str, Any], types: Mapping[str, Any], place: str) -> None:
    """Check the keys of a recipe or a stage, and the types of their values."""
    for key in content:
        if key not in types:
            raise UnknownNameError(f"key in {place}:", str(key), types)
    named = {key: f"{place}, {key}" for key in content}
    check_types({named[key]: content[key] for key in content}, {named[key]: types[key] for key in content})


def _merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    merged = deepcopy(dict(base))
    for key, value in changes.items():
        if key in SECTIONS and isinstance(value, Mapping):
            merged[key] = {**merged.get(key, {}), **value}
        elif key == "stages":
            earlier = {stage["name"]: stage for stage in base.get("stages", ())}
            merged[key] = [_merge(earlier.get(stage["name"], {}), stage) for stage in value]
        else:
            merged[key] = value
    return merged


def load_recipe(method: str, name: str) -> Recipe:
    """Load a recipe by name or by the path of a YAML file; `extends: other` starts from another recipe.

    A recipe with `stages` runs only those, in its order; they inherit their settings from the other recipe.

    Args:
        method: the `model_type`.
        name: recipe name, or a path that ends with `.yaml`.

    Raises:
        UnknownNameError: there is no such recipe, or it has an unknown key.
        EventformersError: the file is not a YAML mapping.
    """
    content = _read(method, name)
    seen = {name}
    while (base := content.pop("extends", None)) is not None:
        if isinstance(base, str) and base in seen:
            raise EventformersError(f"recipe {name} extends itself through {base}")
        # Scores, times and notes belong to one recipe: other settings give others.
        inherited = {key: value for key, value in _read(method, base).items() if key not in _OF_ONE_RECIPE}
        seen.add(base)
        content = _merge(inherited, content)
    return Recipe(**{"method": method, **content, "name": Path(name).stem})


def apply_settings(recipe: Recipe, settings: Sequence[str], accepted: Mapping[str, Iterable[str]]) -> Recipe:
    """Override single settings, given as `key=value` or `section.key=value`.

    In a recipe with stages, `key=value` sets a value for all stages, `stage.key=value` sets it for one stage,
    and `stages=[name, ...]` selects stages.

    Args:
        settings: the overrides; values are read as YAML.
        accepted: the keys of each section.

    Returns:
        A new recipe.

    Raises:
        UnknownNameError: no section has such a key.
        EventformersError: there is no `=`, or several sections have the key.
    """
    changed = deepcopy(recipe)
    keys = {section: set(names) for section, names in accepted.items()}
    stages = {stage["name"]: stage for stage in changed.stages}
    for setting in settings:
        path, text = _split(setting)
        value = _read_value(text)
        first, _, rest = path.partition(".")
        stage = stages.get(first) if rest else None
        path = path if stage is None else rest
        section, _, key = path.rpartition(".")
        homes = [section] if section else [name for name, known in keys.items() if key in known]
        if key == "seed" and not section and stage is None:
            changed.seed = value
        elif key == "stages" and not section and stage is None:
            if not isinstance(value, list) or not value:
                raise EventformersError(
                    f"--set stages received {shown(value)}; accepted: a list of {', '.join(stages)}"
                )
            for name in value:
                if name not in stages:
                    raise UnknownNameError("stage of the recipe", str(name), stages)
            changed.stages = [stages[name] for name in value]
            stages = {stage["name"]: stage for stage in changed.stages}
            changed.changed["stages"] = value
        elif len(homes) > 1:
            choices = " or ".join(f"{home}.{key}" for home in homes)
            raise EventformersError(f"--set {key} is ambiguous; accepted: {choices}")
        elif not homes or key not in keys.get(homes[0], set()):
            known_keys = [known for home in (homes or keys) for known in keys.get(home, set())]
            raise UnknownNameError(
                "recipe key", key if known_keys else path, known_keys or (*SECTIONS, *stages)
            )
        elif stage is not None:
            stage.setdefault(homes[0], {})[key] = value
            changed.changed[f"{first}.{homes[0]}.{key}"] = value
        else:
            getattr(changed, homes[0])[key] = value
            changed.changed[f"{homes[0]}.{key}"] = value
            for other in stages.values():
                other.get(homes[0], {}).pop(key, None)
    return changed


def read_settings(settings: Sequence[str]) -> dict[str, Any]:
    """Read settings given as `key=value`; values are read as YAML.

    Raises:
        EventformersError: there is no `=`, or a value is not YAML.
    """
    pairs = [_split(setting) for setting in settings]
    return {key: _read_value(text) for key, text in pairs}


def _split(setting: str) -> tuple[str, str]:
    key, separator, text = setting.partition("=")
    if not separator or not key:
        raise EventformersError(f"--set received {shown(setting)}; accepted: key=value")
    return key, text


def _read_value(text: str) -> Any:
    try:
        value = parse_yaml(text, Path("--set"), "YAML")
    except DataFormatError as error:
        raise EventformersError(f"--set received the value {shown(text)}: {error.found}") from error
    # YAML 1.1 parses 1e-5, without a decimal point, as text.
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def check_keys(recipe: Recipe, accepted: Mapping[str, Iterable[str]]) -> None:
    """Raise an error for a recipe with a setting that is not among the keys of its section.

    Raises:
        UnknownNameError: a section has a key that is not accepted.
    """
    for section, names in accepted.items():
        known = set(names)
        for key in getattr(recipe, section):
            if key not in known:
                raise UnknownNameError(f"recipe key in section {section}:", key, known)
