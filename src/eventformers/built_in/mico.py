"""MICO (Su et al., 2022)."""

from eventformers.methods import Method

METHOD = Method(
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
    card="eventformers.model_cards.mico.METHOD_CARD",
    reads="texts",
    processor="eventformers.models.processing_mico.MicoProcessor",
    showing="eventformers.commands.demo.NEAREST_ALTERNATIVES",
    paper="mico",
    tables="eventformers.reproduction/papers/mico.yaml",
    default_recipe="minilm-best",
    paper_recipe="paper-bert-base",
)
