"""HeterEvent and MulCL (Zheng et al., 2022)."""

from eventformers.methods import Method

METHOD = Method(
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
    card="eventformers.model_cards.heterevent.METHOD_CARD",
    reads="chains",
    processor="eventformers.models.processing_heterevent.HeterEventProcessor",
    showing="eventformers.commands.demo.NEAREST_EVENT",
    paper="mulcl",
    tables="eventformers.reproduction/papers/mulcl.yaml",
    default_recipe="minilm-documents",
)
