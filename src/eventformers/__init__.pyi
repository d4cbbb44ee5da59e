from .evaluate_metrics import load_metric
from .evaluation.core import evaluate
from .extraction.pipeline import extract
from .inference.chains.next_event import next_event
from .inference.commonsense.complete import complete
from .inference.encode import encode
from .inference.grounding.ground import ground
from .inference.induction.induce import induce
from .models.configuration_event_grounding import (
    EventGroundingConfig,
    EventGroundingCrossConfig,
)
from .models.configuration_event_type_induction import EventTypeInductionConfig
from .models.configuration_heterevent import HeterEventConfig
from .models.configuration_mico import MicoConfig
from .models.configuration_swcc import SwccConfig
from .models.modeling_event_grounding import (
    EventGroundingForPreTraining,
    EventGroundingModel,
)
from .models.modeling_event_grounding_cross import (
    EventGroundingCrossModel,
    EventGroundingForSequenceClassification,
)
from .models.modeling_event_type_induction import (
    EventTypeInductionForPreTraining,
    EventTypeInductionModel,
)
from .models.modeling_heterevent import (
    HeterEventForMultipleChoice,
    HeterEventForPreTraining,
    HeterEventModel,
)
from .models.modeling_mico import MicoForMultipleChoice, MicoForPreTraining, MicoModel
from .models.modeling_swcc import SwccForPreTraining, SwccModel
from .publishing.dataset_building import build_dataset
from .training import train

__version__: str

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
