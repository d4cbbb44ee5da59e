"""What HeterEvent and MulCL (Zheng et al., 2022) add to a model card."""

from __future__ import annotations

from typing import cast

from eventformers.datasets_scripts.events import Event, EventOrder, event_text
from eventformers.model_cards.common import encode_snippet, number, transformers_snippet
from eventformers.model_cards.markdown import setting
from eventformers.model_cards.method import MethodCard, Reading, Settings, Snippet

CITATION = """\
@article{zheng-etal-2022-multistructure,
  title = {Multistructure Contrastive Learning for Pretraining Event Representation},
  author = {Zheng, Jianming and Cai, Fei and Liu, Jun and Ling, Yanxiang and Chen, Honghui},
  journal = {IEEE Transactions on Neural Networks and Learning Systems},
  year = {2022},
  doi = {10.1109/TNNLS.2022.3177641}
}"""

PAPER_SETTINGS: dict[str, object] = {
    "num_graph_layers": 3,
    "order_weight": 0.4,
    "replacement_weight": 0.4,
    "composition_weight": 0.2,
    "normal_corrupted_weight": 0.7,
    "corrupted_corrupted_weight": 0.3,
    "num_corrupted": 24,
    "num_segments": 8,
    "num_views": 8,
    "corruption_probability": 0.2,
    "per_device_train_batch_size": 128,
    "weight_decay": 1e-5,
    "max_grad_norm": 10.0,
}
"""Section V of the paper; views and batch size under the names of settings and training arguments."""

CHAIN: tuple[Event, ...] = (
    {"subject": "police", "predicate": "searched", "object": "house"},
    {"subject": "police", "predicate": "found", "object": "weapon"},
)
CANDIDATES: tuple[Event, ...] = (
    {"subject": "police", "predicate": "arrested", "object": "suspect"},
    {"subject": "police", "predicate": "baked", "object": "cake"},
)

_STAGES = {
    "sequence": "**Sequence** (SeqCL, Eq. 6): a chain is drawn to itself under another dropout mask, away "
    "from chains in another order, away from chains with substituted events, and to its own segments, away "
    "from corrupted ones.",
    "graph": "**Graph** (GraCL, Eq. 14): the graph of a chain is drawn to its own nodes, away from those of "
    "corrupted views of it; a node is drawn to itself in another view.",
    "supervised": "**Supervised** (Eq. 15 and 16): one event of a chain is left out and predicted.",
}
_WEIGHTS = {
    "sequence": ("order_weight", "replacement_weight", "composition_weight"),
    "graph": ("normal_corrupted_weight", "corrupted_corrupted_weight"),
}
_LEVELS = {
    "words": "from the words alone ([W])",
    "events": "from the events alone ([E])",
    "words_and_events": "from words and events ([W+E])",
}


def summary(config: Settings) -> str:
    """What the model is and what goes in and comes out."""
    return (
        "This model reads a **chain of events**, that is who did what to whom, in order, such as "
        f"`{event_text(CHAIN[0], _order(config))}`, `{event_text(CHAIN[1], _order(config))}`, and maps every "
        f"event to a vector of {config.get('projection_dim')} numbers. The vector knows the other events: a "
        "recurrent network runs over the chain, and messages pass along a graph of its events and words. It "
        "serves to tell which event comes next. An event by itself is a chain of one."
    )


def objective(config: Settings) -> str:
    """What the last stage minimised."""
    stage = str(config.get("stage"))
    told = [f"- {_STAGES[stage]} Temperature {setting(config.get('contrast_temperature'))}."]
    names = [name for name in _WEIGHTS.get(stage, ()) if number(config, name)]
    weights = [f"`{name}` {setting(config.get(name))}" for name in names]
    if weights:
        told.append(f"- Weights: {', '.join(weights)}.")
    if stage == "supervised":
        told.append(f"- It learns {_LEVELS[str(config.get('training_level'))]}.")
    return "The last stage of the training:\n\n" + "\n".join(told)


def readings(config: Settings, training: Settings) -> list[Reading]:
    """What was taken where the paper leaves a choice."""
    taken = [
        Reading(
            "Eq. 1, sizes",
            "none is stated; with BERT's 768 the tensor would have 1.8 billion entries",
            f"tokens are projected to {setting(config.get('event_dim'))}; composition by "
            + ("the whole tensor" if config.get("composition") == "tensor" else "a tensor of low rank"),
        ),
        Reading("Section III, text encoder", "over an event or over a chain is not said", "each event alone"),
        Reading(
            "Eq. 3 to 5, 12 and 13",
            "printed without a logarithm",
            "as printed" if config.get("literal_ratio") else "minus the logarithm, as InfoNCE",
        ),
        Reading(
            "Eq. 3 and 4, positive",
            "the chain's vector itself, with the constant cosine 1",
            "the chain under another dropout mask"
            if number(config, "event_dropout")
            else "the chain itself, as printed",
        ),
        Reading("Temperature", "not stated", setting(config.get("contrast_temperature"))),
        Reading(
            "Eq. 11, readout",
            "the text says mean, the formula is a sum",
            f"the {config.get('readout')}",
        ),
        Reading(
            "Eq. 12 and 13, corrupted graphs",
            "only a citation",
            f"each edge goes with the probability {setting(config.get('edge_drop'))} and each dimension with "
            f"{setting(config.get('feature_mask'))}; all nodes stay",
        ),
        Reading(
            "Section V, optimizer",
            "Adam with an exponentially descending rate and an L2 term; rate and decay are not stated",
            f"AdamW, rate {setting(training.get('learning_rate'))}, multiplied by "
            f"{setting(training.get('learning_rate_decay'))} from epoch to epoch"
            if training.get("learning_rate_decay") is not None
            else f"rate {setting(training.get('learning_rate'))}",
        ),
    ]
    if config.get("stage") == "supervised":
        taken.append(
            Reading(
                "Eq. 16, prediction of an event",
                "from its neighbours; the negatives are not stated",
                f"from {'its context' if config.get('predict_from') == 'mean' else 'its neighbours'}, among "
                "the events of the batch",
            )
        )
    return taken


def text_read(config: Settings) -> str:
    """The form of a text."""
    roles = event_text({"subject": "subject", "predicate": "predicate", "object": "object"}, _order(config))
    return f"an event as `{roles}`, absent roles skipped"


def usage(config: Settings) -> list[Snippet]:
    """Examples with this package and with transformers alone."""
    compared = "embeddings @ embeddings.T"
    events = [*CHAIN, *CANDIDATES]
    return [
        Snippet(
            "Which event comes next (`pip install eventformers`)",
            f"""\
import eventformers

chain = [{", ".join(_line(event) for event in CHAIN)}]
candidates = [{", ".join(_line(event) for event in CANDIDATES)}]
prediction = eventformers.next_event(MODEL_ID, chain, candidates=candidates)
for candidate in prediction.candidates:
    print(candidate.text, round(candidate.score, 2))""",
        ),
        encode_snippet("events", [_literal(event) for event in events], compared),
        transformers_snippet([f'"{event_text(event, _order(config))}"' for event in events], compared),
    ]


def limits(config: Settings) -> list[str]:
    """What the model cannot do."""
    return [
        "It was trained on chains of a few events that share a protagonist. Of a single event it knows no "
        "more than its words.",
        "Events and chains were taken from text by programs, mostly by equal words in place of coreference: "
        "errors, gaps and prejudices of the extractor and of the texts live on in the vectors. Do not judge "
        "people by them.",
        "What it predicts is what texts tell next, not what people do next, and no cause of anything. A "
        "score is no probability, and its scale differs between models.",
        "Wrong choices of the benchmarks are random events with an argument of the chain; a score on them "
        "says little of choices that people would make.",
    ]


def _order(config: Settings) -> EventOrder:
    return cast(EventOrder, config.get("event_order", "subject_predicate_object"))


def _literal(event: Event) -> str:
    return "{" + ", ".join(f'"{role}": "{text}"' for role, text in event.items()) + "}"


def _line(event: Event) -> str:
    return f'"{event["subject"]} | {event["predicate"]} | {event["object"]}"'


METHOD_CARD = MethodCard(
    method="heterevent",
    title="HeterEvent and MulCL",
    paper="Multistructure Contrastive Learning for Pretraining Event Representation (Zheng et al., TNNLS "
    "2022)",
    url="https://doi.org/10.1109/TNNLS.2022.3177641",
    tags=("event-representation", "narrative-cloze", "contrastive-learning", "graph-neural-network"),
    summary=summary,
    text_read=text_read,
    objective=objective,
    readings=readings,
    usage=usage,
    limits=limits,
    paper_settings=PAPER_SETTINGS,
    citation=CITATION,
    published_rows=dict.fromkeys(("mcnc", "mcns_v", "multistep_base", "multistep_sky", "mcne_v"), 2000),
    published_note="Published scores are of BERT-base (110 million parameters), trained on 1.4 million "
    "chains of the New York Times part of Gigaword, on 2,000 chains for each task.",
)
