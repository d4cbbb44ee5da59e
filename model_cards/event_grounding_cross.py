"""Model card of the cross-encoder of hierarchical event grounding (Ou et al., 2023)."""

from __future__ import annotations

import json

from eventformers.markdown import setting
from eventformers.model_cards.event_grounding import (
    CITATION,
    EVENTS,
    MENTIONS,
    PAPER,
    TRAINING_ROWS,
    URL,
    heading_read,
    learned_by_softmax,
    reduction_reading,
)
from eventformers.model_cards.method import (
    MethodCard,
    Reading,
    Settings,
    Snippet,
    assignment,
    encode_snippet,
    loading,
    transformers_snippet,
)

PAPER_SETTINGS: dict[str, object] = {
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


def summary(config: Settings) -> str:
    """Describe the model, its input and its output."""
    probability = (
        "The softmax of the scores of a mention's candidates is the probability of each"
        if learned_by_softmax(config)
        else "The sigmoid of the score is the probability that the mention is of the event or of a part of it"
    )
    return (
        "This model reads a **mention** of an event in its context together with one **candidate event** of "
        f"a knowledge base, as one text, pools it to a vector of {config.get('projection_dim')} numbers, and "
        f"computes one score from the vector. {probability}. Use it to re-rank the candidates that a "
        "bi-encoder retrieved, and to link the mention to those above a threshold."
    )


def text_read(config: Settings) -> str:
    """Describe the form of a text."""
    return (
        "a pair of a mention, in its context between `[ENT_START]` and `[ENT_END]`, and, after a separating "
        f"token, an event, `title [ENT_TITLE] description`{heading_read(config)}"
    )


def objective(config: Settings) -> str:
    """The loss."""
    loss = (
        "cross-entropy of the score of each gold event among the candidates of the mention that are not gold,"
        if learned_by_softmax(config)
        else "binary cross-entropy of the scores of the candidates,"
    )
    return (
        f"- **Candidates** (section 5.1): {loss} which a bi-encoder retrieved for each mention; gold events "
        "that it missed replace the lowest-scored others. Weight `1`."
    )


def readings(config: Settings, training: Settings) -> list[Reading]:
    """List the choices made where the paper is open."""
    beyond = [
        Reading(
            "Beyond the paper",
            "not used",
            "each gold event is learned against all other candidates together, not pair by pair",
        )
    ]
    return [
        reduction_reading(config),
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
        *(beyond if learned_by_softmax(config) else []),
    ]


def usage(config: Settings) -> list[Snippet]:
    """Examples: probabilities of candidates; vectors of pairs with this package and without it."""
    texts = [json.dumps(f"{MENTIONS[0]} [SEP] {event}") for event in EVENTS]
    probabilities = "softmax(dim=0)" if learned_by_softmax(config) else "sigmoid()"
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


def limits(config: Settings) -> list[str]:
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


METHOD_CARD = MethodCard(
    method="event_grounding_cross",
    title="Hierarchical event grounding, cross-encoder",
    paper=PAPER,
    url=URL,
    tags=("event-grounding", "event-linking", "cross-encoder", "event-hierarchy"),
    summary=summary,
    text_read=text_read,
    objective=objective,
    readings=readings,
    usage=usage,
    limits=limits,
    paper_settings=PAPER_SETTINGS,
    citation=CITATION,
    training_rows=TRAINING_ROWS,
    compared_by="",
)
