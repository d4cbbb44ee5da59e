"""Registration of the suite's models and pipelines with transformers, without importing transformers for it.

Importing transformers takes seconds, and the command line should answer at once. So where transformers is not
loaded yet, a one-shot import hook registers our classes right after the module that they belong to has run.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

CONFIGURATION_AUTO = "transformers.models.auto.configuration_auto"
MODELING_AUTO = "transformers.models.auto.modeling_auto"
PIPELINES = "transformers.pipelines"

CONFIGURATIONS = {
    "swcc": "configuration_swcc.SwccConfig",
    "mico": "configuration_mico.MicoConfig",
    "heterevent": "configuration_heterevent.HeterEventConfig",
    "event_type_induction": "configuration_event_type_induction.EventTypeInductionConfig",
    "event_grounding": "configuration_event_grounding.EventGroundingConfig",
    "event_grounding_cross": "configuration_event_grounding.EventGroundingCrossConfig",
}
"""The configuration class of each `model_type`, as `file.Class` in `eventformers.models`."""


def _load(reference: str) -> Any:
    module_name, class_name = reference.split(".")
    return getattr(importlib.import_module(f"eventformers.models.{module_name}"), class_name)


def configuration_classes() -> Iterator[type]:
    """Load the configuration class of every method."""
    return (_load(reference) for reference in CONFIGURATIONS.values())


def _register_configurations() -> None:
    auto = importlib.import_module(CONFIGURATION_AUTO)
    for configuration in configuration_classes():
        auto.AutoConfig.register(configuration.model_type, configuration, exist_ok=True)  # type: ignore[attr-defined]


def _register_models() -> None:
    auto = importlib.import_module(MODELING_AUTO)
    for configuration in configuration_classes():
        for auto_name, reference in configuration.full_auto_map.items():  # type: ignore[attr-defined]
            if auto_name != "AutoConfig":
                getattr(auto, auto_name).register(configuration, _load(reference), exist_ok=True)


def _register_pipelines() -> None:
    auto = importlib.import_module(MODELING_AUTO)
    registry = importlib.import_module(PIPELINES).PIPELINE_REGISTRY
    for task, entry in _load("configuration_base.PIPELINES").items():
        # By their names, as those of transformers are: `register_pipeline` would import them all.
        registry.supported_tasks[task] = {
            "impl": f"eventformers.models.{entry['impl']}",
            "pt": tuple(getattr(auto, name) for name in entry["pt"]),
            "type": "text",
        }


_ACTIONS: dict[str, Callable[[], None]] = {
    CONFIGURATION_AUTO: _register_configurations,
    MODELING_AUTO: _register_models,
    PIPELINES: _register_pipelines,
}


class _RegistrationFinder(importlib.abc.MetaPathFinder):
    """Runs each action once, right after the module that it waits for has been executed."""

    def __init__(self) -> None:
        self.waiting = dict(_ACTIONS)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        action = self.waiting.pop(fullname, None)
        if action is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_and_register(module: ModuleType) -> None:
            execute(module)
            action()

        spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec


def register() -> None:
    """Make every Auto class load the suite's models, and `pipeline` its tasks, whether transformers is loaded
    already or later."""
    finder = _RegistrationFinder()
    for module_name, action in _ACTIONS.items():
        if module_name in sys.modules:
            del finder.waiting[module_name]
            action()
    if finder.waiting:
        sys.meta_path.insert(0, finder)
