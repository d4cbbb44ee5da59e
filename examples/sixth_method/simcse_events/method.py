"""What the package brings, as data. It imports no torch, so that `eventformers --help` stays fast."""

from eventformers.methods import Method

METHOD = Method(
    name="simcse",
    title="SimCSE",
    classes={
        "AutoConfig": "simcse_events.configuration_simcse.SimCseConfig",
        "AutoModel": "simcse_events.modeling_simcse.SimCseModel",
        "AutoModelForPreTraining": "simcse_events.modeling_simcse.SimCseForPreTraining",
    },
    trainer="simcse_events.training.TRAINING",
    recipes="simcse_events/recipes",
    dataset=("event_chains", "documents"),
    tasks=("hard_similarity", "hard_similarity_extended", "transitive_similarity"),
    card="simcse_events/card.yaml",
    reads="events",
    showing="eventformers.commands.demo.NEAREST_EVENT",
)
