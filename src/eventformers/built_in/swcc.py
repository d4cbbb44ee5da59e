"""SWCC (Gao et al., 2022)."""

from eventformers.methods import Method

METHOD = Method(
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
    card="eventformers.model_cards.swcc.METHOD_CARD",
    reads="events",
    showing="eventformers.commands.demo.NEAREST_EVENT",
    paper="swcc",
    tables="eventformers.reproduction/papers/swcc.yaml",
    default_recipe="minilm-verbs",
)
