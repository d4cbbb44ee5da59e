"""The methods of this package as data; below, their classes for type checkers."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eventformers.models.configuration_event_grounding import EventGroundingConfig as EventGroundingConfig
    from eventformers.models.configuration_event_grounding import (
        EventGroundingCrossConfig as EventGroundingCrossConfig,
    )
    from eventformers.models.configuration_event_type_induction import (
        EventTypeInductionConfig as EventTypeInductionConfig,
    )
    from eventformers.models.configuration_heterevent import HeterEventConfig as HeterEventConfig
    from eventformers.models.configuration_mico import MicoConfig as MicoConfig
    from eventformers.models.configuration_swcc import SwccConfig as SwccConfig
    from eventformers.models.modeling_event_grounding import (
        EventGroundingForPreTraining as EventGroundingForPreTraining,
    )
    from eventformers.models.modeling_event_grounding import EventGroundingModel as EventGroundingModel
    from eventformers.models.modeling_event_grounding_cross import (
        EventGroundingCrossModel as EventGroundingCrossModel,
    )
    from eventformers.models.modeling_event_grounding_cross import (
        EventGroundingForSequenceClassification as EventGroundingForSequenceClassification,
    )
    from eventformers.models.modeling_event_type_induction import (
        EventTypeInductionForPreTraining as EventTypeInductionForPreTraining,
    )
    from eventformers.models.modeling_event_type_induction import (
        EventTypeInductionModel as EventTypeInductionModel,
    )
    from eventformers.models.modeling_heterevent import (
        HeterEventForMultipleChoice as HeterEventForMultipleChoice,
    )
    from eventformers.models.modeling_heterevent import HeterEventForPreTraining as HeterEventForPreTraining
    from eventformers.models.modeling_heterevent import HeterEventModel as HeterEventModel
    from eventformers.models.modeling_mico import MicoForMultipleChoice as MicoForMultipleChoice
    from eventformers.models.modeling_mico import MicoForPreTraining as MicoForPreTraining
    from eventformers.models.modeling_mico import MicoModel as MicoModel
    from eventformers.models.modeling_swcc import SwccForPreTraining as SwccForPreTraining
    from eventformers.models.modeling_swcc import SwccModel as SwccModel
    from eventformers.models.processing_event_grounding import (
        EventGroundingProcessor as EventGroundingProcessor,
    )
    from eventformers.models.processing_event_type_induction import (
        EventTypeInductionProcessor as EventTypeInductionProcessor,
    )
    from eventformers.models.processing_events import EventProcessor as EventProcessor
    from eventformers.models.processing_heterevent import HeterEventProcessor as HeterEventProcessor
    from eventformers.models.processing_mico import MicoProcessor as MicoProcessor
    from eventformers.trainers.event_grounding import EventGroundingCollator as EventGroundingCollator
    from eventformers.trainers.event_grounding import (
        EventGroundingCrossCollator as EventGroundingCrossCollator,
    )
    from eventformers.trainers.event_type_induction import (
        EventTypeInductionCollator as EventTypeInductionCollator,
    )
    from eventformers.trainers.heterevent import HeterEventCollator as HeterEventCollator
    from eventformers.trainers.mico import MicoCollator as MicoCollator
    from eventformers.trainers.swcc import SwccCollator as SwccCollator
