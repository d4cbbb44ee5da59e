"""What HeterEvent and MulCL (Zheng et al., 2022) add to a model card."""

from __future__ import annotations

from typing import cast

from eventformers.datasets_scripts.events import EVENT_ORDERS, Event, EventOrder, event_text
from eventformers.model_cards.common import encode_snippet, number
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
    "supervised": ("word_weight", "event_weight"),
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
    level = str(config.get("training_level"))
    unused = {"words": "event_weight", "events": "word_weight"}.get(level)
    names = [name for name in _WEIGHTS[stage] if number(config, name) and name != unused]
    weights = [f"`{name}` {setting(config.get(name))}" for name in names]
    if weights:
        told.append(f"- Weights: {', '.join(weights)}.")
    if stage == "supervised":
        told.append(f"- It learns {_LEVELS[level]}.")
    text = "The last stage of the training:\n\n" + "\n".join(told)
    earlier = list(_STAGES.values())[: list(_STAGES).index(stage)]
    if not earlier:
        return text
    lines = "\n".join(f"- {sentence}" for sentence in earlier)
    return f"{text}\n\nWhat comes before it, as far as the stages of training below name it:\n\n{lines}"


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
            "Eq. 2, vector of a chain",
            "the state of a [SEP] token behind the chain, whose inputs are events and not tokens",
            "the state of a learned event behind the chain",
        ),
        Reading(
            "Section III, edges",
            "three types; which words or events are joined is not said",
            "all words of one event, an event and its words, neighbouring events; both directions, and each "
            "node with itself",
        ),
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
        Reading(
            "Eq. 3 and 4, corruptions",
            "an event is exchanged by chance; where substituted events come from is not said",
            "at least two events move, at least one is substituted; substitutes come from other chains",
        ),
        Reading(
            "Eq. 5, anchor",
            "the vector of the whole chain, which holds the segment that it is compared with",
            "the rest of the chain, without the segment"
            if config.get("composition_anchor") == "rest"
            else "as printed",
        ),
        Reading("Eq. 5, segments", "their losses are summed", "the mean, on the scale of Eq. 3 and 4"),
        Reading("Temperature", "not stated", setting(config.get("contrast_temperature"))),
        Reading(
            "Eq. 7 to 10, layers",
            "whether they share weights is not said",
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
        taken.append(Reading("Beyond the paper", "none of it", "; ".join(beyond)))
    return taken


def text_read(config: Settings) -> str:
    """The form of a text."""
    roles = event_text({"subject": "subject", "predicate": "predicate", "object": "object"}, _order(config))
    return f"an event as `{roles}`, absent roles skipped; a text whose roles nobody tells is all predicate"


def usage(config: Settings) -> list[Snippet]:
    """Examples with this package and with transformers alone."""
    events = [*CHAIN, *CANDIDATES]
    compared = "embeddings @ embeddings.T"
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
        Snippet(
            "The same choice with transformers alone; logits are cosines divided by the temperature",
            _plain_inputs("AutoModelForMultipleChoice", config)
            + f"""
with torch.inference_mode():
    logits = model(
        **inputs,
        role_masks=torch.tensor(roles),
        word_index=torch.tensor(words),
        chains=torch.tensor([{list(range(len(CHAIN)))}]),
        choices=torch.tensor([{list(range(len(CHAIN), len(events)))}]),
    ).logits
print(logits.round(decimals=2))""",
        ),
        encode_snippet("events", [_literal(event) for event in events], compared),
        Snippet(
            "With transformers alone (each event by itself; `chain_index` tells which belong together)",
            _plain_inputs("AutoModel", config)
            + f"""
with torch.inference_mode():
    output = model(**inputs, role_masks=torch.tensor(roles), word_index=torch.tensor(words))
embeddings = torch.nn.functional.normalize(output.embeddings)
print(embeddings.shape)
print(({compared}).round(decimals=2))""",
        ),
    ]


def _plain_inputs(auto_class: str, config: Settings) -> str:
    """The code that loads a model and makes its inputs, without this package."""
    order = _order(config)
    texts = "\n".join(f'    "{event_text(event, order)}",' for event in (*CHAIN, *CANDIDATES))
    places = [EVENT_ORDERS[order].index(role) for role in EVENT_ORDERS["subject_predicate_object"]]
    return f"""\
import torch
from transformers import {auto_class}, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(MODEL_ID, trust_remote_code=True)
model = {auto_class}.from_pretrained(MODEL_ID, trust_remote_code=True)

texts = [
{texts}
]
inputs = tokenizer(texts, padding=True, return_tensors="pt")
# Every role is one word here; subject, predicate and object are the words {places} of a text.
places = [inputs.word_ids(row) for row in range(len(texts))]
roles = [[[place == role for place in row] for role in {places}] for row in places]
# Equal numbers for equal words.
names = sorted(set(" ".join(texts).split()))
words = [
    [-1 if place is None else names.index(text.split()[place]) for place in row]
    for text, row in zip(texts, places)
]"""


def limits(config: Settings) -> list[str]:
    """What the model cannot do."""
    return [
        "It was trained on chains with a protagonist. Of a single event it knows no more than its words.",
        "Events and chains were taken from text by programs, mostly by equal words instead of coreference: "
        "errors, gaps and prejudices of the extractor and of the texts live on in the vectors. Do not judge "
        "people by them.",
        "It learned from chains of a few events, mostly up to nine. `eventformers.next_event` reads the "
        "latest eight of a longer one.",
        "What it predicts is what texts tell next, not what people do next, and no cause of anything. A "
        "score is no probability, and its scale differs between models.",
        "Wrong choices of the benchmarks are random events with an argument of the chain; a score on them "
        "says little of choices that people would make.",
    ]


def _beyond_the_paper(config: Settings) -> list[str]:
    said = []
    if config.get("event_skip"):
        said.append("the encoder's own vector of an event is added to its state")
    if config.get("gate_bias") is not None:
        said.append(f"the gate of Eq. 10 has a bias, from {setting(config.get('gate_bias'))}")
    if config.get("value_projection"):
        said.append("messages are projected")
    if config.get("edge_type_bias"):
        said.append("attention has a bias for each type of edge")
    if config.get("training_level") == "words_and_events":
        weights = [setting(config.get(name)) for name in _WEIGHTS["supervised"]]
        if weights[0] != weights[1]:
            said.append(f"words weigh {weights[0]} and events {weights[1]}")
    if config.get("freeze_encoder"):
        said.append("the text encoder did not train")
    return said


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
    training_rows=TRAINING_ROWS,
    published_note="Published scores are of BERT-base (110 million parameters), trained on 1.4 million "
    "chains of the New York Times part of Gigaword. Those on chains are of 2,000 questions each that were "
    "made from these texts, so that no score on other questions compares with them.",
)
