"""eventformers: event representation learning, native to the Hugging Face Hub.

After this import, every Auto class of transformers loads the models of this package without
`trust_remote_code`. The names below load at their first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from eventformers.registration import register

if TYPE_CHECKING:
    from eventformers.evaluate_metrics import load_metric
    from eventformers.evaluation.core import evaluate
    from eventformers.extraction.pipeline import extract
    from eventformers.inference.chains.next_event import next_event
    from eventformers.inference.commonsense.complete import complete
    from eventformers.inference.encode import encode
    from eventformers.inference.grounding.ground import ground
    from eventformers.inference.induction.induce import induce
    from eventformers.models.configuration_event_grounding import (
        EventGroundingConfig,
        EventGroundingCrossConfig,
    )
    from eventformers.models.configuration_event_type_induction import EventTypeInductionConfig
    from eventformers.models.configuration_heterevent import HeterEventConfig
    from eventformers.models.configuration_mico import MicoConfig
    from eventformers.models.configuration_swcc import SwccConfig
    from eventformers.models.modeling_event_grounding import (
        EventGroundingForPreTraining,
        EventGroundingModel,
    )
    from eventformers.models.modeling_event_grounding_cross import (
        EventGroundingCrossModel,
        EventGroundingForSequenceClassification,
    )
    from eventformers.models.modeling_event_type_induction import (
        EventTypeInductionForPreTraining,
        EventTypeInductionModel,
    )
    from eventformers.models.modeling_heterevent import (
        HeterEventForMultipleChoice,
        HeterEventForPreTraining,
        HeterEventModel,
    )
    from eventformers.models.modeling_mico import MicoForMultipleChoice, MicoForPreTraining, MicoModel
    from eventformers.models.modeling_swcc import SwccForPreTraining, SwccModel
    from eventformers.publishing.dataset_building import build_dataset
    from eventformers.training import train

__version__ = "0.1.0"

_HOMES = {
    "EventGroundingConfig": "eventformers.models.configuration_event_grounding",
    "EventGroundingCrossConfig": "eventformers.models.configuration_event_grounding",
    "EventGroundingCrossModel": "eventformers.models.modeling_event_grounding_cross",
    "EventGroundingForPreTraining": "eventformers.models.modeling_event_grounding",
    "EventGroundingForSequenceClassification": "eventformers.models.modeling_event_grounding_cross",
    "EventGroundingModel": "eventformers.models.modeling_event_grounding",
    "EventTypeInductionConfig": "eventformers.models.configuration_event_type_induction",
    "EventTypeInductionForPreTraining": "eventformers.models.modeling_event_type_induction",
    "EventTypeInductionModel": "eventformers.models.modeling_event_type_induction",
    "HeterEventConfig": "eventformers.models.configuration_heterevent",
    "HeterEventForMultipleChoice": "eventformers.models.modeling_heterevent",
    "HeterEventForPreTraining": "eventformers.models.modeling_heterevent",
    "HeterEventModel": "eventformers.models.modeling_heterevent",
    "MicoConfig": "eventformers.models.configuration_mico",
    "MicoForMultipleChoice": "eventformers.models.modeling_mico",
    "MicoForPreTraining": "eventformers.models.modeling_mico",
    "MicoModel": "eventformers.models.modeling_mico",
    "SwccConfig": "eventformers.models.configuration_swcc",
    "SwccForPreTraining": "eventformers.models.modeling_swcc",
    "SwccModel": "eventformers.models.modeling_swcc",
    "build_dataset": "eventformers.publishing.dataset_building",
    "complete": "eventformers.inference.commonsense.complete",
    "encode": "eventformers.inference.encode",
    "evaluate": "eventformers.evaluation.core",
    "extract": "eventformers.extraction.pipeline",
    "ground": "eventformers.inference.grounding.ground",
    "induce": "eventformers.inference.induction.induce",
    "load_metric": "eventformers.evaluate_metrics",
    "next_event": "eventformers.inference.chains.next_event",
    "train": "eventformers.training",
}

__all__ = [
    "EventGroundingConfig",
    "EventGroundingCrossConfig",
    "EventGroundingCrossModel",
    "EventGroundingForPreTraining",
    "EventGroundingForSequenceClassification",
    "EventGroundingModel",
    "EventTypeInductionConfig",
    "EventTypeInductionForPreTraining",
    "EventTypeInductionModel",
    "HeterEventConfig",
    "HeterEventForMultipleChoice",
    "HeterEventForPreTraining",
    "HeterEventModel",
    "MicoConfig",
    "MicoForMultipleChoice",
    "MicoForPreTraining",
    "MicoModel",
    "SwccConfig",
    "SwccForPreTraining",
    "SwccModel",
    "__version__",
    "build_dataset",
    "complete",
    "encode",
    "evaluate",
    "extract",
    "ground",
    "induce",
    "load_metric",
    "next_event",
    "train",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'eventformers' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOMES))


register()
