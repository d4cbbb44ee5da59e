"""eventformers: event representation learning, native to the Hugging Face Hub.

After this import every Auto class of transformers loads the suite's models without `trust_remote_code`. The
names below, and the classes of the built-in methods, are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from eventformers.registration import register

if TYPE_CHECKING:
    from eventformers.built_in import *  # noqa: F403
    from eventformers.datasets_scripts.building import list_datasets as list_datasets
    from eventformers.errors import EventformersError as EventformersError
    from eventformers.evaluate_metrics import list_metrics as list_metrics
    from eventformers.evaluate_metrics import load_metric as load_metric
    from eventformers.evaluation.core import evaluate as evaluate
    from eventformers.evaluation.results import TaskResult as TaskResult
    from eventformers.evaluation.session import Session as Session
    from eventformers.evaluation.tasks import list_tasks as list_tasks
    from eventformers.exploration.explore import explore as explore
    from eventformers.extraction.pipeline import extract as extract
    from eventformers.hub import push as push
    from eventformers.inference.chains.next_event import next_event as next_event
    from eventformers.inference.commonsense.complete import complete as complete
    from eventformers.inference.encode import EventEncoder as EventEncoder
    from eventformers.inference.encode import encode as encode
    from eventformers.inference.grounding.ground import ground as ground
    from eventformers.inference.induction.induce import induce as induce
    from eventformers.loading.pretrained import list_pretrained as list_pretrained
    from eventformers.loading.pretrained import pretrained as pretrained
    from eventformers.methods import list_methods as list_methods
    from eventformers.publishing.dataset_building import build_dataset as build_dataset
    from eventformers.trainers.arguments import EventTrainingArguments as EventTrainingArguments
    from eventformers.trainers.base import EpochCallback as EpochCallback
    from eventformers.trainers.base import EventTrainer as EventTrainer
    from eventformers.trainers.run import training_data as training_data
    from eventformers.training import train as train

__version__ = "0.1.0"

_NAMES = {
    "EpochCallback": "eventformers.trainers.base",
    "EventEncoder": "eventformers.inference.encode",
    "EventTrainer": "eventformers.trainers.base",
    "EventTrainingArguments": "eventformers.trainers.arguments",
    "EventformersError": "eventformers.errors",
    "Session": "eventformers.evaluation.session",
    "TaskResult": "eventformers.evaluation.results",
    "build_dataset": "eventformers.publishing.dataset_building",
    "complete": "eventformers.inference.commonsense.complete",
    "encode": "eventformers.inference.encode",
    "evaluate": "eventformers.evaluation.core",
    "explore": "eventformers.exploration.explore",
    "extract": "eventformers.extraction.pipeline",
    "ground": "eventformers.inference.grounding.ground",
    "induce": "eventformers.inference.induction.induce",
    "list_datasets": "eventformers.datasets_scripts.building",
    "list_methods": "eventformers.methods",
    "list_metrics": "eventformers.evaluate_metrics",
    "list_pretrained": "eventformers.loading.pretrained",
    "list_tasks": "eventformers.evaluation.tasks",
    "load_metric": "eventformers.evaluate_metrics",
    "next_event": "eventformers.inference.chains.next_event",
    "pretrained": "eventformers.loading.pretrained",
    "push": "eventformers.hub",
    "train": "eventformers.training",
    "training_data": "eventformers.trainers.run",
}


def _homes() -> dict[str, str]:
    """The module of each public name."""
    from eventformers.methods import built_in_methods

    paths = [
        path
        for method in built_in_methods()
        for path in (*method.classes.values(), method.processor, method.collator)
        if path is not None
    ]
    return {name: module for module, _, name in (path.rpartition(".") for path in paths)} | _NAMES


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted({"__version__", *_homes()})
    module = _NAMES.get(name)
    if module is None and name[0].isupper():
        module = _homes().get(name)
    if module is None:
        raise AttributeError(f"module 'eventformers' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_homes()))


register()
