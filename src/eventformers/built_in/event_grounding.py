"""Hierarchical event grounding (Ou et al., 2023): the bi-encoder and the cross-encoder."""

from eventformers.methods import Method

METHOD = Method(
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
    card="eventformers.model_cards.event_grounding.METHOD_CARD",
    reads="mentions_and_events",
    processor="eventformers.models.processing_event_grounding.EventGroundingProcessor",
    showing="eventformers.commands.demo.NEAREST_MENTIONS",
    paper="grounding",
    tables="eventformers.reproduction/papers/grounding.yaml",
    default_recipe="minilm-current-events",
    paper_recipe="paper-multilingual",
    companions=("events", "hierarchy"),
)

CROSS_ENCODER = Method(
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
    card="eventformers.model_cards.event_grounding_cross.METHOD_CARD",
    reads="mentions_and_events",
    processor="eventformers.models.processing_event_grounding.EventGroundingProcessor",
    head="AutoModelForSequenceClassification",
    default_recipe="minilm-current-events-cross",
    paper_recipe="paper-multilingual-cross",
    recipes_of="event_grounding",
    companions=("events",),
)
