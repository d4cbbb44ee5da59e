"""The methods of this package as data, and their classes for type checkers."""

from typing import TYPE_CHECKING

from eventformers.methods import Method

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

SWCC = Method(
    name="swcc",
    title="SWCC",
    classes={
        "AutoConfig": "eventformers.models.configuration_swcc.SwccConfig",
        "AutoModel": "eventformers.models.modeling_swcc.SwccModel",
        "AutoModelForPreTraining": "eventformers.models.modeling_swcc.SwccForPreTraining",
    },
    trainer="eventformers.trainers.swcc.TRAINING",
    collator="eventformers.trainers.swcc.SwccCollator",
    recipes="eventformers.trainers/recipes/swcc",
    dataset=("event_chains", "cooccurrence"),
    tasks=("hard_similarity", "hard_similarity_extended", "transitive_similarity"),
    card="eventformers.model_cards/swcc.yaml",
    reads="events",
    showing="eventformers.commands.demo.NEAREST_EVENT",
    paper="swcc",
    tables="eventformers.reproduction/papers/swcc.yaml",
    default_recipe="minilm-verbs",
)
"""SWCC (Gao et al., 2022)."""

MICO = Method(
    name="mico",
    title="MICO",
    classes={
        "AutoConfig": "eventformers.models.configuration_mico.MicoConfig",
        "AutoModel": "eventformers.models.modeling_mico.MicoModel",
        "AutoModelForPreTraining": "eventformers.models.modeling_mico.MicoForPreTraining",
        "AutoModelForMultipleChoice": "eventformers.models.modeling_mico.MicoForMultipleChoice",
    },
    trainer="eventformers.trainers.mico.TRAINING",
    collator="eventformers.trainers.mico.MicoCollator",
    recipes="eventformers.trainers/recipes/mico",
    dataset=("commonsense_graphs", "conceptnet_inductive_pairs"),
    tasks=("conceptnet_completion", "atomic_completion", "copa", "siqa", "csqa"),
    card="eventformers.model_cards/mico.yaml",
    reads="texts",
    processor="eventformers.models.processing_mico.MicoProcessor",
    showing="eventformers.commands.demo.NEAREST_ALTERNATIVES",
    paper="mico",
    tables="eventformers.reproduction/papers/mico.yaml",
    default_recipe="minilm-best",
    paper_recipe="paper-bert-base",
)
"""MICO (Su et al., 2022)."""

HETEREVENT = Method(
    name="heterevent",
    title="HeterEvent and MulCL",
    classes={
        "AutoConfig": "eventformers.models.configuration_heterevent.HeterEventConfig",
        "AutoModel": "eventformers.models.modeling_heterevent.HeterEventModel",
        "AutoModelForPreTraining": "eventformers.models.modeling_heterevent.HeterEventForPreTraining",
        "AutoModelForMultipleChoice": "eventformers.models.modeling_heterevent.HeterEventForMultipleChoice",
    },
    trainer="eventformers.trainers.heterevent.TRAINING",
    collator="eventformers.trainers.heterevent.HeterEventCollator",
    recipes="eventformers.trainers/recipes/heterevent",
    dataset=("event_chains", "chains"),
    tasks=("mcnc", "mcns_v", "multistep_base", "multistep_sky", "mcne_v"),
    card="eventformers.model_cards/heterevent.yaml",
    reads="chains",
    processor="eventformers.models.processing_heterevent.HeterEventProcessor",
    showing="eventformers.commands.demo.NEAREST_EVENT",
    paper="mulcl",
    tables="eventformers.reproduction/papers/mulcl.yaml",
    default_recipe="minilm-documents",
)
"""HeterEvent and MulCL (Zheng et al., 2022)."""

EVENT_TYPE_INDUCTION = Method(
    name="event_type_induction",
    title="Event type induction",
    classes={
        "AutoConfig": "eventformers.models.configuration_event_type_induction.EventTypeInductionConfig",
        "AutoModel": "eventformers.models.modeling_event_type_induction.EventTypeInductionModel",
        "AutoModelForPreTraining": (
            "eventformers.models.modeling_event_type_induction.EventTypeInductionForPreTraining"
        ),
    },
    trainer="eventformers.trainers.event_type_induction.TRAINING",
    collator="eventformers.trainers.event_type_induction.EventTypeInductionCollator",
    recipes="eventformers.trainers/recipes/event_type_induction",
    dataset=("event_types", "mentions"),
    tasks=("type_induction", "type_naming", "frame_linking"),
    card="eventformers.model_cards/event_type_induction.yaml",
    reads="mentions",
    processor="eventformers.models.processing_event_type_induction.EventTypeInductionProcessor",
    showing="eventformers.commands.demo.NEAREST_SENTENCES",
    paper="type-induction",
    tables="eventformers.reproduction/papers/type_induction.yaml",
    default_recipe="minilm-geneva",
)
"""Semi-supervised event type induction by batch attention (Edwards and Ji, 2023)."""

EVENT_GROUNDING = Method(
    name="event_grounding",
    title="Hierarchical event grounding",
    classes={
        "AutoConfig": "eventformers.models.configuration_event_grounding.EventGroundingConfig",
        "AutoModel": "eventformers.models.modeling_event_grounding.EventGroundingModel",
        "AutoModelForPreTraining": (
            "eventformers.models.modeling_event_grounding.EventGroundingForPreTraining"
        ),
    },
    trainer="eventformers.trainers.event_grounding.TRAINING",
    collator="eventformers.trainers.event_grounding.EventGroundingCollator",
    recipes="eventformers.trainers/recipes/event_grounding",
    dataset=("event_hierarchies", "mentions"),
    tasks=("event_retrieval", "parent_discovery"),
    card="eventformers.model_cards/event_grounding.yaml",
    reads="mentions_and_events",
    processor="eventformers.models.processing_event_grounding.EventGroundingProcessor",
    showing="eventformers.commands.demo.NEAREST_MENTIONS",
    paper="grounding",
    tables="eventformers.reproduction/papers/grounding.yaml",
    default_recipe="minilm-current-events",
    paper_recipe="paper-multilingual",
    companions=("events", "hierarchy"),
)
"""Hierarchical event grounding (Ou et al., 2023), the bi-encoder."""

EVENT_GROUNDING_CROSS = Method(
    name="event_grounding_cross",
    title="Hierarchical event grounding, cross-encoder",
    classes={
        "AutoConfig": "eventformers.models.configuration_event_grounding.EventGroundingCrossConfig",
        "AutoModel": "eventformers.models.modeling_event_grounding_cross.EventGroundingCrossModel",
        "AutoModelForSequenceClassification": (
            "eventformers.models.modeling_event_grounding_cross.EventGroundingForSequenceClassification"
        ),
    },
    trainer="eventformers.trainers.event_grounding.CROSS_TRAINING",
    collator="eventformers.trainers.event_grounding.EventGroundingCrossCollator",
    recipes="eventformers.trainers/recipes/event_grounding",
    dataset=("event_hierarchies", "mentions"),
    tasks=(),
    card="eventformers.model_cards/event_grounding_cross.yaml",
    reads="mentions_and_events",
    processor="eventformers.models.processing_event_grounding.EventGroundingProcessor",
    head="AutoModelForSequenceClassification",
    default_recipe="minilm-current-events-cross",
    paper_recipe="paper-multilingual-cross",
    recipes_of="event_grounding",
    companions=("events",),
)
"""The cross-encoder of hierarchical event grounding, a further model of the same paper."""
