"""What the bi-encoder of hierarchical event grounding (Ou et al., 2023) adds to a model card."""

from __future__ import annotations

import json

from eventformers.model_cards.common import encode_snippet, number, transformers_snippet
from eventformers.model_cards.markdown import setting
from eventformers.model_cards.method import MethodCard, Reading, Settings, Snippet

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
"""Section 5 and appendix C of the paper; the joint stage has batches of the same size here."""

TRAINING_ROWS = {"mentions": 751_550}
"""Table 1: mentions of Wikipedia that train."""

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
_HEADING = "; title and date of the mention's document stand in front, where it has them"
_TRAINED_STAGES = {
    "linking": "mentions and events",
    "hierarchy": "parents and children of the hierarchy",
    "joint": "mentions and events, and parents and children of the hierarchy",
}


def heading_read(config: Settings) -> str:
    """What is read of a mention's document."""
    return _HEADING if config.get("read_heading") else ""


def learned_by_softmax(config: Settings) -> bool:
    """Whether gold events were learned against the other candidates together."""
    return config.get("linking_objective") == "softmax"


def positive_weight_reading(config: Settings) -> Reading:
    """How the pairs of the loss of linking count."""
    weight = config.get("positive_weight")
    if learned_by_softmax(config):
        told_of_softmax = "the mean over the gold events of a mention, then over the mentions"
        return Reading("Section 5.1, reduction of the loss", "not stated", told_of_softmax)
    told = {
        1: "the mean over all pairs",
        "balanced": "the mean over all pairs, gold ones weighed up to the number of the others",
    }
    return Reading(
        "Section 5.1, reduction of the loss",
        "not stated",
        told.get(weight, f"the mean over all pairs, gold ones times {setting(weight)}"),  # type: ignore[call-overload]
    )


def summary(config: Settings) -> str:
    """What the model is and what goes in and comes out."""
    return (
        "This model maps a **mention** of an event in its context, and an **event** of a knowledge base with "
        f"title and description, to vectors of {config.get('projection_dim')} numbers. The dot product of "
        "both is their score: a mention scores high with the event that it names and with the events that "
        "this one is part of. It serves to retrieve the candidate events of a mention, to link mentions to a "
        "whole path of events, and to find which events are part of which."
    )


def text_read(config: Settings) -> str:
    """The form of a text."""
    return f"{_READ_MENTION}{heading_read(config)}"


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
            if learned_by_softmax(config)
            else "binary cross-entropy of the dot products of the mentions and events of a batch;"
        )
        terms.append(
            f"- **Linking** (section 5.1): {pairs} every gold event of a mention is positive, whichever "
            f"mention brought it. Weight {setting(weights['linking'])}."
            f"{f' {calibrated}' if calibrated else ''}"
        )
    if stage != "linking":
        scorer = "whole of ComplEx" if config.get("full_complex") else "antisymmetric part of ComplEx"
        terms.append(
            f"- **Hierarchy** (Eq. 1 to 4): binary cross-entropy of the parents and children of a batch, "
            f"scored by the {scorer} on the vectors of the events. Weight {setting(weights['hierarchy'])}."
        )
    return f"The last stage of training read {_TRAINED_STAGES[str(stage)]}.\n\n" + "\n".join(terms)


def readings(config: Settings, training: Settings) -> list[Reading]:
    """What was taken where the paper leaves a choice, for the terms that were switched on."""
    taken = [
        positive_weight_reading(config),
        Reading(
            "Section 5.1, gold events within a batch",
            "the events of other mentions of a batch are its negatives",
            "an event of another mention that is gold for this one, too, is positive",
        ),
        Reading(
            "Section 5.2, first epoch",
            "the hierarchy is learned in the first epoch; what an epoch of it is, is not stated",
            "a stage of its own, whose epoch is one pass over all pairs of a parent and a child, in every "
            "language that describes both",
        ),
    ]
    if config.get("stage") != "linking":
        taken += [
            Reading(
                "Eq. 4, negatives",
                "as printed the loss has no lower bound",
                "the cross-entropy of both answers: of a pair that is no edge -log σ(-s)",
            ),
            Reading(
                "Eq. 1, symmetric part of ComplEx",
                "left out",
                "kept" if config.get("full_complex") else "as in the paper",
            ),
        ]
    if beyond := _beyond_the_paper(config, training):
        taken.append(Reading("Beyond the paper", "none of it", "; ".join(beyond)))
    return taken


def usage(config: Settings) -> list[Snippet]:
    """Vectors of mentions with this package and with transformers alone, and scores of events."""
    mentions, events = ([json.dumps(text) for text in texts] for texts in (MENTIONS, EVENTS))
    compared = "embeddings @ embeddings.T"
    listed = {
        name: "\n".join([f"{name} = [", *(f"    {text}," for text in texts), "]"])
        for name, texts in (("mentions", mentions), ("events", events))
    }
    return [
        encode_snippet("mentions", mentions, compared),
        transformers_snippet(mentions, compared, note="mentions"),
        Snippet(
            "Scores of mentions and events, with transformers alone",
            f"""\
import torch
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(MODEL_ID, trust_remote_code=True)
model = AutoModel.from_pretrained(MODEL_ID, trust_remote_code=True)

{listed["mentions"]}
{listed["events"]}

def encode(texts, side):
    inputs = tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids=False)
    with torch.inference_mode():
        return model(**inputs, side=side).embeddings

print((encode(mentions, "mention") @ encode(events, "event").T).round(decimals=2))""",
        ),
        Snippet(
            "The same scores with sentence-transformers (`pip install sentence-transformers`), which runs no "
            "code of this model; a tower alone is in the folder `mention` or `event`",
            f"""\
from sentence_transformers import SentenceTransformer

model = SentenceTransformer(MODEL_ID)

{listed["mentions"]}
{listed["events"]}
scores = model.similarity(model.encode_query(mentions), model.encode_document(events))""",
            is_run=False,
        ),
    ]


def limits(config: Settings) -> list[str]:
    """What the model cannot do."""
    told = [
        "It ranks the events of a knowledge base for mentions that are given; it does not find the mentions "
        "of a text, and links to nothing outside the knowledge base.",
        "Scores order the candidates of one mention. How high a score must be for a link is for a threshold "
        "to say, which is lower or higher for mentions of another kind and for a knowledge base of another "
        "size; a cross-encoder that reads both texts at once decides better.",
        "Wikidata's part-of facts are what its editors entered: branches are missing, and depth differs from "
        "field to field. The hierarchy that the model learned is as uneven.",
        "Encyclopaedias and news tell of wars, sports and elections more than of anything else, and of some "
        "parts of the world more than of others; so do the vectors. Do not judge people by them.",
    ]
    if config.get("stage") == "hierarchy":
        told.append("It was trained on the hierarchy alone: its mention tower never saw a mention.")
    return told


def _calibration(config: Settings) -> str:
    """What is done to the scores in the loss of linking."""
    said = []
    if config.get("learnable_score_scale"):
        said.append(f"times a learned number, from {setting(config.get('score_scale'))}")
    elif config.get("score_scale") not in (1, None):
        said.append(f"times {setting(config.get('score_scale'))}")
    if config.get("score_bias") is not None:
        said.append(f"plus a learned number, from {setting(config.get('score_bias'))}")
    return f"Dot products are taken {' and '.join(said)}." if said else ""


def _beyond_the_paper(config: Settings, training: Settings) -> list[str]:
    said = []
    if config.get("pooling") == "mean":
        said.append("the vector of a text is the mean over its tokens, not that of the first")
    if config.get("share_towers"):
        said.append("mentions and events have one encoder")
    if learned_by_softmax(config):
        said.append("each gold event is learned against the others together, not each pair by itself")
    if _calibration(config):
        said.append("the scores are scaled or shifted in the loss, which changes no order of candidates")
    if negatives := number(training, "hard_negatives"):
        said.append(
            f"each mention comes with {setting(int(negatives))} wrong events that an earlier model found for "
            "it"
        )
    return said


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
    "in 42 languages: no score on other mentions and events compares with them.",
)
