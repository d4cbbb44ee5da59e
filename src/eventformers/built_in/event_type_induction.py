"""Semi-supervised event type induction by batch attention (Edwards and Ji, 2023)."""

from eventformers.methods import Method

METHOD = Method(
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
    card="eventformers.model_cards.event_type_induction.METHOD_CARD",
    reads="mentions",
    processor="eventformers.models.processing_event_type_induction.EventTypeInductionProcessor",
    showing="eventformers.commands.demo.NEAREST_SENTENCES",
    paper="type-induction",
    tables="eventformers.reproduction/papers/type_induction.yaml",
    default_recipe="minilm-geneva",
)
