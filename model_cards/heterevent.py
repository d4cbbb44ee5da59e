"""Model card of HeterEvent and MulCL (Zheng et al., 2022)."""

from __future__ import annotations

from eventformers.datasets_scripts.events import Event
from eventformers.markdown import setting
from eventformers.model_cards.method import (
    ALL_PAIRS,
    MethodCard,
    Reading,
    Settings,
    Snippet,
    assignment,
    encode_snippet,
    event_literal,
    loading,
    number,
    text_of_event,
)

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

TRAINING_ROWS = {"chains": 1_400_000}
"""Section V."""

CHAIN: tuple[Event, ...] = (
    {"subject": "police", "predicate": "searched", "object": "house"},
    {"subject": "police", "predicate": "found", "object": "weapon"},
)
CANDIDATES: tuple[Event, ...] = (
    {"subject": "police", "predicate": "arrested", "object": "suspect"},
    {"subject": "police", "predicate": "baked", "object": "cake"},
)
"""Every role is one word, so that the examples without this package find roles by words."""

_STAGES = {
    "sequence": "**Sequence** (SeqCL, Eq. 6): the positives of a chain are the chain under another dropout "
    "mask and its own segments; its negatives are the chain in another order, the chain with substituted "
    "events, and corrupted segments.",
    "graph": "**Graph** (GraCL, Eq. 14): the positives of a chain's graph are its own nodes, its negatives "
    "are those of corrupted views of it; the positive of a node is the same node in another view.",
    "supervised": "**Supervised** (Eq. 15 and 16): one event of a chain is left out and predicted.",
}
_WEIGHTS = {
    "sequence": ("order_weight", "replacement_weight", "composition_weight"),
    "graph": ("normal_corrupted_weight", "corrupted_corrupted_weight"),
    "supervised": ("word_weight", "event_weight"),
}
_LEVELS = {
    "words": "only from the words ([W])",
    "events": "only from the events ([E])",
    "words_and_events": "from words and events ([W+E])",
}


def summary(config: Settings) -> str:
    """Describe the model, its input and its output."""
    return (
        "This model reads a **chain of events**, that is who did what to whom, in order, such as "
        f"`{text_of_event(config, CHAIN[0])}`, `{text_of_event(config, CHAIN[1])}`, and maps every "
        f"event to a vector of {config.get('projection_dim')} numbers. The vector depends on the other "
        "events: a recurrent network runs over the chain, and messages pass along a graph of its events and "
        "words. Use it to predict which event comes next. A single event is a chain of one."
    )


def objective(config: Settings) -> str:
    """Describe the objective of the last stage."""
    stage = str(config.get("stage"))
    terms = [f"- {_STAGES[stage]} Temperature {setting(config.get('contrast_temperature'))}."]
    level = str(config.get("training_level"))
    unused = {"words": "event_weight", "events": "word_weight"}.get(level)
    names = [name for name in _WEIGHTS[stage] if number(config, name) and name != unused]
    weights = [f"`{name}` {setting(config.get(name))}" for name in names]
    if weights:
        terms.append(f"- Weights: {', '.join(weights)}.")
    if stage == "supervised":
        terms.append(f"- It learns {_LEVELS[level]}.")
    text = "The last stage of the training:\n\n" + "\n".join(terms)
    earlier = list(_STAGES.values())[: list(_STAGES).index(stage)]
    if not earlier:
        return text
    lines = "\n".join(f"- {sentence}" for sentence in earlier)
    return f"{text}\n\nThe stages of training below may name earlier stages:\n\n{lines}"


def readings(config: Settings, training: Settings) -> list[Reading]:
    """List the choices made where the paper is open."""
    taken = [
        Reading(
            "Eq. 1, sizes",
            "not stated; with BERT's 768 the tensor would have 1.8 billion entries",
            f"tokens are projected to {setting(config.get('event_dim'))}; composition by "
            + ("the full tensor" if config.get("composition") == "tensor" else "a tensor of low rank"),
        ),
        Reading("Section III, text encoder", "over an event or over a chain, not stated", "each event alone"),
        Reading(
            "Eq. 2, vector of a chain",
            "the state of a [SEP] token after the chain, although the inputs are events, not tokens",
            "the state of a learned event after the chain",
        ),
        Reading(
            "Section III, edges",
            "three types; which words or events are joined is not stated",
            "all words of one event, an event and its words, neighbouring events; both directions, and "
            "self-loops",
        ),
        Reading(
            "Eq. 3 to 5, 12 and 13",
            "printed without a logarithm",
            "as printed" if config.get("literal_ratio") else "minus the logarithm, as in InfoNCE",
        ),
        Reading(
            "Eq. 3 and 4, positive",
            "the chain's vector itself, with the constant cosine 1",
            "the chain under another dropout mask"
            if number(config, "event_dropout")
            else "the chain itself, as printed",
        ),
        Reading(
            "Eq. 3 and 4, corruptions",
            "an event is exchanged at random; the source of substituted events is not stated",
            "at least two events move, at least one is substituted; substitutes come from other chains",
        ),
        Reading(
            "Eq. 5, anchor",
            "the vector of the whole chain, which contains the segment that it is compared with",
            "the rest of the chain, without the segment"
            if config.get("composition_anchor") == "rest"
            else "as printed",
        ),
        Reading("Eq. 5, segments", "their losses are summed", "the mean, on the scale of Eq. 3 and 4"),
        Reading("Temperature", "not stated", setting(config.get("contrast_temperature"))),
        Reading(
            "Eq. 7 to 10, layers",
            "whether they share weights is not stated",
            "one set of weights for all layers" if config.get("share_layers") else "weights for each layer",
        ),
        Reading(
            "Eq. 11, readout",
            "the text says mean, the formula is a sum",
            f"the {config.get('readout')}",
        ),
        Reading(
            "Eq. 12 and 13, corrupted graphs",
            "only a citation",
            f"each edge is dropped with probability {setting(config.get('edge_drop'))} and each dimension "
            f"masked with {setting(config.get('feature_mask'))}; all nodes are kept",
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
        taken += [
            Reading(
                "Eq. 15, prediction of a word",
                "from the first word of its event; the text says from the words near it",
                "from the first word, as printed"
                if config.get("literal_first")
                else "from each other word of its event",
            ),
            Reading(
                "Eq. 16, prediction of an event",
                "from its neighbours; the negatives are not stated",
                f"from {'its context' if config.get('predict_from') == 'mean' else 'its neighbours'}, among "
                "the events of the batch",
            ),
        ]
    if beyond := _beyond_the_paper(config):
        taken.append(Reading("Beyond the paper", "not used", "; ".join(beyond)))
    return taken


def text_read(config: Settings) -> str:
    """Describe the form of a text."""
    roles = text_of_event(config)
    return f"an event as `{roles}`, absent roles skipped; a text without known roles is all predicate"


def usage(config: Settings) -> list[Snippet]:
    """Examples with transformers alone and with this package."""
    events = [*CHAIN, *CANDIDATES]
    literals = [event_literal(event) for event in events]
    return [
        Snippet(
            "Which event comes next, with transformers and torch-geometric; logits are cosines divided by "
            "the temperature",
            f"""\
{loading("AutoModelForMultipleChoice", "processor")}
question = {{
    "context": [{", ".join(event_literal(event) for event in CHAIN)}],
    "choices": [{", ".join(event_literal(event) for event in CANDIDATES)}],
}}
with torch.inference_mode():
    logits = model(**processor(question)).logits
print(logits.round(decimals=2))""",
        ),
        Snippet(
            "The same choice with eventformers, installed from its source",
            f"""\
import eventformers

chain = [{", ".join(_line(event) for event in CHAIN)}]
candidates = [{", ".join(_line(event) for event in CANDIDATES)}]
prediction = eventformers.next_event(MODEL_ID, chain, candidates=candidates)
for candidate in prediction.candidates:
    print(candidate.text, round(candidate.score, 2))""",
        ),
        encode_snippet("events", literals),
        Snippet(
            "With transformers and torch-geometric (each event on its own; `processor(chains=[...])` groups "
            "events)",
            f"""\
{loading("AutoModel", "processor")}
{assignment("events", literals)}
with torch.inference_mode():
    output = model(**processor(events))
embeddings = torch.nn.functional.normalize(output.embeddings)
print(embeddings.shape)
print(({ALL_PAIRS}).round(decimals=2))""",
        ),
    ]


def limits(config: Settings) -> list[str]:
    """List what the model cannot do."""
    return [
        "It was trained on chains with a protagonist. A single event has only its words as information.",
        "Programs extracted the events and chains from text, mostly by equal words instead of "
        "co-reference: errors, gaps and prejudices of the extractor and of the texts persist in the vectors. "
        "Do not judge people by them.",
        "It learned from short chains, mostly of up to nine events. `eventformers.next_event` reads the "
        "latest eight of a longer chain.",
        "It predicts what texts report next, not what people do next, and it does not identify causes. A "
        "score is not a probability, and its scale differs between models.",
        "Wrong choices of the benchmarks are random events with an argument of the chain; a score on them "
        "does not show how the model ranks plausible alternatives.",
    ]


def _beyond_the_paper(config: Settings) -> list[str]:
    facts = []
    if config.get("event_skip"):
        facts.append("the encoder's own vector of an event is added to its state")
    if config.get("gate_bias") is not None:
        facts.append(f"the gate of Eq. 10 has a bias that starts at {setting(config.get('gate_bias'))}")
    if config.get("value_projection"):
        facts.append("messages are projected")
    if config.get("edge_type_bias"):
        facts.append("attention has a bias for each type of edge")
    if config.get("training_level") == "words_and_events":
        weights = [setting(config.get(name)) for name in _WEIGHTS["supervised"]]
        if weights[0] != weights[1]:
            facts.append(f"words have weight {weights[0]} and events {weights[1]}")
    if config.get("freeze_encoder"):
        facts.append("the text encoder was frozen")
    return facts


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
    training_rows=TRAINING_ROWS,
    published_note="Published scores are of BERT-base (110 million parameters), trained on 1.4 million "
    "chains of the New York Times part of Gigaword. Those on chains are of 2,000 questions each that were "
    "made from these texts, so they are not comparable with scores on other questions.",
)
