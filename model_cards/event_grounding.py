"""Model cards of hierarchical event grounding (Ou et al., 2023): the bi-encoder and the cross-encoder."""

from __future__ import annotations

import json

from eventformers.markdown import setting
from eventformers.model_cards.method import (
    MethodCard,
    Reading,
    Settings,
    Snippet,
    assignment,
    encode_snippet,
    loading,
    number,
    transformers_snippet,
)

PAPER = "Hierarchical Event Grounding (Ou, Pratapa, Gupta and Mitamura, AAAI 2023)"
URL = "https://doi.org/10.48550/arXiv.2302.04197"
CITATION = """\
@inproceedings{ou-etal-2023-hierarchical,
  title = {Hierarchical Event Grounding},
  author = {Ou, Jiefu and Pratapa, Adithya and Gupta, Rishubh and Mitamura, Teruko},
  booktitle = {Proceedings of the AAAI Conference on Artificial Intelligence},
  year = {2023},
  doi = {10.48550/arXiv.2302.04197}
}"""

PAPER_SETTINGS: dict[str, object] = {
    "pooling": "cls",
    "mention_tokens": 128,
    "event_tokens": 128,
    "share_towers": False,
    "hierarchy_weight": 0.01,
    "per_device_train_batch_size": 64,
    "learning_rate": 1e-5,
    "warmup_steps": 0.05,
}
"""Section 5 and appendix C of the paper; the joint stage uses batches of the same size here."""

TRAINING_ROWS = {"mentions": 751_550}
"""Table 1: mentions of Wikipedia in the training split."""

MENTIONS = (
    "Troops closed the [ENT_START] Falaise Gap [ENT_END] in 1944.",
    "He won the [ENT_START] 100 metres [ENT_END] in Beijing.",
)
EVENTS = (
    "Falaise pocket [ENT_TITLE] battle of 1944",
    "Operation Overlord [ENT_TITLE] landing of 1944",
    "2008 Summer Olympics [ENT_TITLE] games in Beijing",
)
"""The first mention is of the first event, a part of the second; the other is of a part of the third."""

_READ_MENTION = (
    "a mention, in its context between `[ENT_START]` and `[ENT_END]`, or an event, `title [ENT_TITLE] "
    "description`"
)
_HEADING = "; title and date of the mention's document come first, if known"
_TRAINED_STAGES = {
    "linking": "mentions and events",
    "hierarchy": "parents and children of the hierarchy",
    "joint": "mentions and events, and parents and children of the hierarchy",
}


def _heading_read(config: Settings) -> str:
    """Describe the input from a mention's document."""
    return _HEADING if config.get("read_heading") else ""


def _learned_by_softmax(config: Settings) -> bool:
    """True if gold events were learned against the other candidates together."""
    return config.get("linking_objective") == "softmax"


def _reduction_reading(config: Settings) -> Reading:
    """Describe the reduction of the linking loss."""
    return Reading(
        "Section 5.1, reduction of the loss",
        "not stated",
        "the mean over the gold events of a mention, then over the mentions"
        if _learned_by_softmax(config)
        else "the mean over all pairs",
    )


def summary(config: Settings) -> str:
    """Describe the model, its input and its output."""
    return (
        "This model maps a **mention** of an event in its context, and an **event** of a knowledge base with "
        f"title and description, to vectors of {config.get('projection_dim')} numbers. The dot product of "
        "both is their score: a mention has a high score with the event that it names and with all events "
        "that contain this event. Use it to retrieve the candidate events of a mention, to link mentions to "
        "a whole path of events, and to find which events are part of which."
    )


def text_read(config: Settings) -> str:
    """Describe the form of a text."""
    return f"{_READ_MENTION}{_heading_read(config)}"


def objective(config: Settings) -> str:
    """The loss terms of the last stage, with their weights."""
    stage = config.get("stage")
    weights = {"linking": 1.0, "hierarchy": 1.0}
    if stage == "joint":
        weights = {name: number(config, f"{name}_weight") for name in weights}
    terms = []
    if stage != "hierarchy":
        calibrated = _calibration(config)
        pairs = (
            "cross-entropy of each gold event of a mention among the events of the batch that are not gold "
            "for it, by dot products;"
            if _learned_by_softmax(config)
            else "binary cross-entropy of the dot products of the mentions and events of a batch;"
        )
        terms.append(
            f"- **Linking** (section 5.1): {pairs} every gold event of a mention is positive, whichever "
            f"mention it came with. Weight {setting(weights['linking'])}."
            f"{f' {calibrated}' if calibrated else ''}"
        )
    if stage != "linking":
        scorer = "complete ComplEx score" if config.get("full_complex") else "antisymmetric part of ComplEx"
        terms.append(
            f"- **Hierarchy** (Eq. 1 to 4): binary cross-entropy of the parents and children of a batch, "
            f"scored by the {scorer} on the vectors of the events. Weight {setting(weights['hierarchy'])}."
        )
    return f"The last stage of training used {_TRAINED_STAGES[str(stage)]}.\n\n" + "\n".join(terms)


def readings(config: Settings, training: Settings) -> list[Reading]:
    """List the choices made where the paper is open, for the enabled terms."""
    taken = [
        _reduction_reading(config),
        Reading(
            "Section 5.1, gold events within a batch",
            "the events of other mentions of a batch are its negatives",
            "an event of another mention that is also gold for this one is positive",
        ),
        Reading(
            "Section 5.2, first epoch",
            "the hierarchy is learned in the first epoch; the length of that epoch is not stated",
            "a separate stage, whose epoch is one pass over all pairs of a parent and a child, in every "
            "language that describes both",
        ),
    ]
    if config.get("stage") != "linking":
        taken += [
            Reading(
                "Eq. 4, negatives",
                "as printed, the loss has no lower bound",
                "binary cross-entropy: a pair without an edge has the loss -log σ(-s)",
            ),
            Reading(
                "Eq. 1, symmetric part of ComplEx",
                "left out",
                "kept" if config.get("full_complex") else "as in the paper",
            ),
        ]
    if beyond := _beyond_the_paper(config, training):
        taken.append(Reading("Beyond the paper", "not used", "; ".join(beyond)))
    return taken


def usage(config: Settings) -> list[Snippet]:
    """Examples: scores of events; vectors of mentions with this package and with transformers alone."""
    mentions, events = ([json.dumps(text) for text in texts] for texts in (MENTIONS, EVENTS))
    listed = f"{assignment('mentions', mentions)}\n{assignment('events', events)}"
    return [
        Snippet(
            "Scores of mentions and events, with transformers alone",
            f"""\
{loading("AutoModel")}
{listed}

def encode(texts, side):
    inputs = tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids=False)
    with torch.inference_mode():
        return model(**inputs, side=side).embeddings

print((encode(mentions, "mention") @ encode(events, "event").T).round(decimals=2))""",
        ),
        encode_snippet("mentions", mentions),
        transformers_snippet(mentions, note="mentions"),
        Snippet(
            "The same scores of mentions and events with sentence-transformers (`pip install "
            "sentence-transformers`), which runs no code of this model; the folders `mention` and `event` "
            "contain the single towers",
            f"""\
from sentence_transformers import SentenceTransformer

model = SentenceTransformer(MODEL_ID)

{listed}
scores = model.similarity(model.encode_query(mentions), model.encode_document(events))""",
            is_run=False,
        ),
    ]


def limits(config: Settings) -> list[str]:
    """List what the model cannot do."""
    sentences = [
        "It ranks the events of a knowledge base for given mentions. It does not find the mentions of a "
        "text, and it cannot link to events outside the knowledge base.",
        "Scores order the candidates of one mention. Linking also needs a threshold, which depends on the "
        "kind of mentions and on the size of the knowledge base. A cross-encoder, which reads both texts "
        "together, decides more accurately.",
        "Wikidata's part-of facts are what its editors entered: branches are missing, and depth differs "
        "between subjects. The hierarchy that the model learned has the same gaps.",
        "Encyclopaedias and news cover wars, sports and elections more than other events, and some parts of "
        "the world more than others; the vectors reflect this. Do not judge people by them.",
    ]
    if config.get("stage") == "hierarchy":
        sentences.append("It was trained only on the hierarchy: its mention tower never saw a mention.")
    return sentences


def _calibration(config: Settings) -> str:
    facts = []
    if config.get("learnable_score_scale"):
        facts.append(f"multiplied by a learned factor that starts at {setting(config.get('score_scale'))}")
    elif config.get("score_scale") not in (1, None):
        facts.append(f"multiplied by {setting(config.get('score_scale'))}")
    if config.get("score_bias") is not None:
        facts.append(f"shifted by a learned bias that starts at {setting(config.get('score_bias'))}")
    return f"Dot products are {' and '.join(facts)}." if facts else ""


def _beyond_the_paper(config: Settings, training: Settings) -> list[str]:
    facts = []
    if config.get("pooling") == "mean":
        facts.append("the vector of a text is the mean over its tokens, not that of the first token")
    if config.get("share_towers"):
        facts.append("mentions and events share one encoder")
    if _learned_by_softmax(config):
        facts.append("each gold event is learned against all other candidates together, not pair by pair")
    if _calibration(config):
        facts.append("the loss scales or shifts the scores, which does not change the order of candidates")
    if negatives := number(training, "hard_negatives"):
        facts.append(
            f"each mention comes with {setting(int(negatives))} hard negatives, wrong events retrieved by an "
            "earlier model"
        )
    return facts


METHOD_CARD = MethodCard(
    method="event_grounding",
    title="Hierarchical event grounding",
    paper=PAPER,
    url=URL,
    tags=("event-grounding", "event-linking", "entity-linking", "event-hierarchy"),
    summary=summary,
    text_read=text_read,
    objective=objective,
    readings=readings,
    usage=usage,
    limits=limits,
    paper_settings=PAPER_SETTINGS,
    citation=CITATION,
    training_rows=TRAINING_ROWS,
    compared_by="the dot product of a mention and an event",
    published_note="Published scores are of XLM-R base (two encoders of 278 million parameters) on mentions "
    "in 42 languages. They are not comparable with scores on other mentions and events.",
)


CROSS_SETTINGS: dict[str, object] = {
    "pooling": "cls",
    "mention_tokens": 128,
    "event_tokens": 128,
    "head_dropout": 0.1,
    "candidates": 8,
    "per_device_train_batch_size": 16,
    "learning_rate": 1e-5,
    "num_train_epochs": 5,
    "warmup_steps": 0.1,
}
"""Section 5 and appendix C of the paper; the dropout is the released code's."""


def cross_summary(config: Settings) -> str:
    """Describe the model, its input and its output."""
    probability = (
        "The softmax of the scores of a mention's candidates is the probability of each"
        if _learned_by_softmax(config)
        else "The sigmoid of the score is the probability that the mention is of the event or of a part of it"
    )
    return (
        "This model reads a **mention** of an event in its context together with one **candidate event** of "
        f"a knowledge base, as one text, pools it to a vector of {config.get('projection_dim')} numbers, and "
        f"computes one score from the vector. {probability}. Use it to re-rank the candidates that a "
        "bi-encoder retrieved, and to link the mention to those above a threshold."
    )


def cross_text_read(config: Settings) -> str:
    """Describe the form of a text."""
    return (
        "a pair of a mention, in its context between `[ENT_START]` and `[ENT_END]`, and, after a separating "
        f"token, an event, `title [ENT_TITLE] description`{_heading_read(config)}"
    )


def cross_objective(config: Settings) -> str:
    """The loss."""
    loss = (
        "cross-entropy of the score of each gold event among the candidates of the mention that are not gold,"
        if _learned_by_softmax(config)
        else "binary cross-entropy of the scores of the candidates,"
    )
    return (
        f"- **Candidates** (section 5.1): {loss} which a bi-encoder retrieved for each mention; gold events "
        "that it missed replace the lowest-scored others. Weight `1`."
    )


def cross_readings(config: Settings, training: Settings) -> list[Reading]:
    """List the choices made where the paper is open."""
    beyond = [
        Reading(
            "Beyond the paper",
            "not used",
            "each gold event is learned against all other candidates together, not pair by pair",
        )
    ]
    return [
        _reduction_reading(config),
        Reading(
            "Section 5.1, prediction head",
            "named without details; the released code of the work that it follows uses the encoder's own "
            "layer with tanh, then a linear one",
            "a hidden layer with tanh, dropout and a linear layer"
            if config.get("head_hidden_layer")
            else "dropout and a linear layer",
        ),
        Reading(
            "Appendix C, warm-up",
            "stated twice, as 0.05 and as 0.1 of the steps",
            setting(training.get("warmup_steps")),
        ),
        Reading(
            "Section 5.1, gold events that were not retrieved",
            "added to the candidates",
            "replace the lowest-scored candidates that are not gold, so that each mention has "
            f"{setting(training.get('candidates', 8))} candidates; if there are more gold events, "
            "the deepest ones are kept",
        ),
        *(beyond if _learned_by_softmax(config) else []),
    ]


def cross_usage(config: Settings) -> list[Snippet]:
    """Examples: probabilities of candidates; vectors of pairs with this package and without it."""
    texts = [json.dumps(f"{MENTIONS[0]} [SEP] {event}") for event in EVENTS]
    probabilities = "softmax(dim=0)" if _learned_by_softmax(config) else "sigmoid()"
    return [
        Snippet(
            "Probabilities of candidates, with transformers alone",
            f"""\
{loading("AutoModelForSequenceClassification")}
mention = {json.dumps(MENTIONS[0])}
{assignment("events", list(map(json.dumps, EVENTS)))}
pairs = [f"{{mention}} {{tokenizer.sep_token}} {{event}}" for event in events]
inputs = tokenizer(pairs, padding=True, return_tensors="pt", return_token_type_ids=False)
with torch.inference_mode():
    logits = model(**inputs).logits
print(logits.{probabilities}.round(decimals=2))""",
        ),
        encode_snippet("pairs", texts),
        transformers_snippet(texts),
    ]


def cross_limits(config: Settings) -> list[str]:
    """List what the model cannot do."""
    return [
        "It scores given candidates: an event that the bi-encoder did not retrieve cannot be linked. Reading "
        "every pair of mention and event is slow, so use it for a handful of candidates per mention.",
        "It was trained on the candidates of one bi-encoder. With the candidates of another one its "
        "probabilities are not calibrated, and the threshold must be chosen again.",
        "Wikidata's part-of facts are what its editors entered: an event that is missing there as a parent "
        "counted as wrong in training.",
        "Encyclopaedias and news cover wars, sports and elections more than other events, and some parts of "
        "the world more than others; the scores reflect this. Do not judge people by them.",
    ]


CROSS_CARD = MethodCard(
    method="event_grounding_cross",
    title="Hierarchical event grounding, cross-encoder",
    paper=PAPER,
    url=URL,
    tags=("event-grounding", "event-linking", "cross-encoder", "event-hierarchy"),
    summary=cross_summary,
    text_read=cross_text_read,
    objective=cross_objective,
    readings=cross_readings,
    usage=cross_usage,
    limits=cross_limits,
    paper_settings=CROSS_SETTINGS,
    citation=CITATION,
    training_rows=TRAINING_ROWS,
    compared_by="",
)
