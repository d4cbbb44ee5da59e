"""Registration of models, processors and pipelines with transformers, without importing it.

Importing transformers takes seconds, and the command line should answer at once. So where transformers is not
loaded yet, a one-shot import hook registers our classes right after the module that they belong to has run.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from eventformers.errors import shown

if TYPE_CHECKING:
    from eventformers.methods import Method

CONFIGURATION_AUTO = "transformers.models.auto.configuration_auto"
MODELING_AUTO = "transformers.models.auto.modeling_auto"
PROCESSING_AUTO = "transformers.models.auto.processing_auto"
PIPELINES = "transformers.pipelines"


def _for_each_method(action: Callable[[Method], None]) -> None:
    # Importing the registry takes as long as the rest of `import eventformers`.
    from eventformers.methods import all_methods, leave_out

    for method in list(all_methods().values()):
        try:
            action(method)
        except Exception as error:
            leave_out(method, error)


def _register_configuration(method: Method) -> None:
    auto = importlib.import_module(CONFIGURATION_AUTO)
    if method.config_class.model_type != method.name:
        raise ValueError(f"its configuration has the model_type {shown(method.config_class.model_type)}")
    if method.name in auto.CONFIG_MAPPING_NAMES:
        raise ValueError(f"transformers has a model_type {shown(method.name)} already")
    auto.AutoConfig.register(method.name, method.config_class, exist_ok=True)


def _register_models(method: Method) -> None:
    from eventformers.methods import load_object

    auto = importlib.import_module(MODELING_AUTO)
    models = {name: load_object(path) for name, path in method.classes.items() if name != "AutoConfig"}
    for name, model in models.items():
        getattr(auto, name).register(method.config_class, model, exist_ok=True)


def _register_processor(method: Method) -> None:
    """Register a class that loads a processor with the method's on use: the import of a processor is often
    what makes transformers import its own, and this registration run."""
    from eventformers.methods import load_object

    def from_pretrained(*args: Any, **kwargs: Any) -> Any:
        return load_object(method.processor).from_pretrained(*args, **kwargs)

    module, _, name = method.processor.rpartition(".")
    members = {"__module__": module, "from_pretrained": staticmethod(from_pretrained)}
    auto = importlib.import_module(PROCESSING_AUTO)
    auto.AutoProcessor.register(method.config_class, type(name, (), members), exist_ok=True)


def _register_pipelines(method: Method) -> None:
    auto = importlib.import_module(MODELING_AUTO)
    registry = importlib.import_module(PIPELINES).PIPELINE_REGISTRY
    for task, entry in method.pipelines.items():
        # By their names, as those of transformers are: `register_pipeline` would import them all.
        classes = tuple(getattr(auto, name) for name in entry["pt"])
        found = {"impl": entry["impl"], "pt": classes, "type": "text"}
        registry.supported_tasks.setdefault(task, found)


_ACTIONS: dict[str, Callable[[Method], None]] = {
    CONFIGURATION_AUTO: _register_configuration,
    MODELING_AUTO: _register_models,
    PROCESSING_AUTO: _register_processor,
    PIPELINES: _register_pipelines,
}


class _RegistrationFinder(importlib.abc.MetaPathFinder):
    """Runs each action once for all methods, right after the module that it waits for has been executed."""

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
            _for_each_method(action)

        spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec


def register() -> None:
    """Make every Auto class load the suite's models, and `pipeline` its tasks, whether transformers is loaded
    already or later."""
    finder = _RegistrationFinder()
    for module_name, action in _ACTIONS.items():
        if module_name in sys.modules:
            del finder.waiting[module_name]
            _for_each_method(action)
    if finder.waiting:
        sys.meta_path.insert(0, finder)
