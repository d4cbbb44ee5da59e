"""What event type induction by batch attention (Edwards and Ji, 2023) adds to a model card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

from eventformers.model_cards.common import (
    encode_snippet,
    number,
    sentence_transformers_snippet,
    transformers_snippet,
)
from eventformers.model_cards.markdown import code, setting
from eventformers.model_cards.method import MethodCard, Reading, Settings, Snippet
from eventformers.models.mention_tokens import TRIGGER_MARKERS, Mention, mark_trigger

CITATION = """\
@inproceedings{edwards-ji-2023-semi,
  title = {Semi-supervised New Event Type Induction and Description via Contrastive Loss-Enforced Batch Attention},
  author = {Edwards, Carl and Ji, Heng},
  booktitle = {Proceedings of the 17th Conference of the European Chapter of the Association for Computational Linguistics},
  year = {2023},
  publisher = {Association for Computational Linguistics},
  doi = {10.48550/arXiv.2202.05943}
}"""  # noqa: E501 - a title is one line

PAPER_SETTINGS: dict[str, object] = {
    "pooling": "mean",
    "margin": 0.5,
    "map_dropout": 0.1,
    "trigger_input": "none",
    "type_name_weight": 0.0,
    "frame_weight": 0.0,
    "per_device_train_batch_size": 10,
    "learning_rate": 1e-4,
    "module_learning_rates": {"encoder": 2e-5},
    "num_train_epochs": 10,
    "warmup_steps": 1000,
    "augmentation": "back_translation",
    "silhouette_window": 5,
}
"""Section 4 of the paper for its main runs; warm-up and dropout are the released code's."""

EXAMPLES = (
    Mention("The court sentenced him to two years in prison.", 10, 19),
    Mention("A judge gave the former mayor a suspended term.", 8, 12),
    Mention("The company opened a second plant near the port.", 12, 18),
)
"""The first two are of one type in other words."""

_TRIGGERS = {
    "none": "the sentence of an event mention, without being told which of its events is meant",
    "marked": "the sentence of an event mention, with its trigger between "
    f"{' and '.join(code(token) for token in TRIGGER_MARKERS)}",
    "span": "the sentence of an event mention, and which of its tokens are the trigger (`trigger_mask`)",
    "marked_span": "the sentence of an event mention, with its trigger between "
    f"{' and '.join(code(token) for token in TRIGGER_MARKERS)}, and which of its tokens are the trigger "
    "(`trigger_mask`)",
    "found": "the sentence of an event mention; the model itself finds the token that carries the event, one "
    "of a type that had no labels, and gives its vector (`found_triggers` tells which token)",
}


def summary(config: Settings) -> str:
    """What the model is and what goes in and comes out."""
    return (
        "This model maps an **event mention**, that is a sentence in which something happens, such as "
        f"{code(EXAMPLES[0].text)}, to a vector of {config.get('projection_dim')} numbers and to a query and "
        "a key of the same size. It was trained on mentions of which only a few types were labelled, so that "
        "mentions of one type come close, those of types that it has never seen a label of too. Compare "
        "vectors by their cosine, or a query with a key by their product. It serves to group the mentions of "
        "a corpus into new event types, to name these, and to link them to frames of FrameNet."
    )


def text_read(config: Settings) -> str:
    """The form of a text."""
    return _TRIGGERS[_trigger(config)]


def objective(config: Settings) -> str:
    """The loss terms that were switched on, with their weights."""
    terms = [
        "- **Masked contrast of pairs** (section 3.4): the product of query and key over √d says whether two "
        "mentions are of one type. Pairs of one seen type, and a mention with its other view, are positive; "
        "pairs of two unseen mentions are left out; a negative pair costs nothing where the sigmoid of its "
        f"score is below {setting(config.get('margin'))}. Summed over the four pairs of a mention and its "
        "augmented view. Weight `1`."
    ]
    for name, target in (
        ("type_name_weight", "the name of its type"),
        ("frame_weight", "the definition of the frame that its type maps to"),
    ):
        if number(config, name):
            terms.append(
                f"- **Auxiliary alignment** (section 3.5): the clustered features of a seen mention, behind "
                f"a head, are drawn to the pretrained encoder's vector of {target}. Weight "
                f"{setting(config.get(name))}."
            )
    if _trigger(config) == "found":
        terms.append(
            "- **Noisy-or over tokens** (beyond the paper): each token carries an event of one seen type, an "
            "event of another, or none; a sentence tells of a type unless no token does. Learned from which "
            "sentences tell of which seen types, without triggers. Weight "
            f"{setting(config.get('trigger_weight'))}."
        )
    return "\n".join(terms)


def readings(config: Settings, training: Settings) -> list[Reading]:
    """What was taken where the paper leaves a choice, for the terms that were switched on."""
    taken = [
        Reading(
            "Section 3.4, mask",
            "the bar stands over the margin alone, so that pairs of two unseen mentions would be kept, "
            "against the text",
            "these pairs are left out, as the text says and the released code does",
        ),
        Reading(
            "Section 3.4, diagonal",
            "by the formula of the mask an unseen mention's pair with itself is left out; the released code "
            "keeps it as positive",
            "kept, as in the released code" if config.get("unseen_diagonal", True) else "left out",
        ),
        Reading(
            "Section 3.4, reduction",
            "how the matrix of losses is reduced is not stated",
            "the mean over the pairs that are kept"
            if config.get("pair_mean") == "kept"
            else "the mean over all pairs, those left out with 0, as in the released code",
        ),
        Reading(
            "Section 3.3, dropout",
            "drawn in Figure 1, without a probability",
            f"{setting(config.get('map_dropout'))}, as in the released code"
            if config.get("map_dropout") == PAPER_SETTINGS["map_dropout"]
            else setting(config.get("map_dropout")),
        ),
    ]
    taken += [
        Reading(
            "Section 3.2, other view",
            "back-translation through German, French, Spanish and Chinese, one of them drawn for each "
            "mention and epoch",
            _other_view(config, training),
        ),
        Reading(
            "Section 3.6, end of training",
            "the epoch with the highest silhouette within the best window; the released code takes the "
            "middle of the window",
            "the weights after the last step"
            if training.get("silhouette_window") is None
            else "the best checkpoint within the best window, of windows that lie wholly within the "
            "training; the silhouettes are those of the unseen mentions, without their labels",
        ),
    ]
    if number(config, "type_name_weight") or number(config, "frame_weight"):
        taken += [
            Reading(
                "Section 3.5, loss",
                "as printed an unseen mention adds the constant 1",
                "an unseen mention adds 0",
            ),
            Reading(
                "Section 3.5, vector of a type",
                "“language model embedding”, without its pooling",
                "as in the released code: the mean over the tokens without the special ones, of the encoder "
                "before training, not normalised",
            ),
            Reading(
                "Section 4.5, head",
                "a “1-layer neural network”; the released code has a hidden layer",
                "one hidden layer" if config.get("auxiliary_hidden_layer", True) else "one linear layer",
            ),
        ]
    if beyond := _beyond_the_paper(config):
        taken.append(Reading("Beyond the paper", "none of it", "; ".join(beyond)))
    return taken


def usage(config: Settings) -> list[Snippet]:
    """Vectors with this package, with transformers alone and, of texts alone, with sentence-transformers; and
    scores of queries and keys."""
    marks = _trigger(config) in ("marked", "marked_span")
    texts = [json.dumps((mark_trigger(example) if marks else example).text) for example in EXAMPLES]
    listed = "\n".join(f"    {text}," for text in texts)
    compared = "embeddings @ embeddings.T"
    reads_text_alone = _trigger(config) in ("none", "found")
    return [
        encode_snippet("texts", texts, compared),
        transformers_snippet(texts, compared),
        *([sentence_transformers_snippet(texts)] if reads_text_alone else []),
        Snippet(
            "How likely two mentions are of one type, by the learned attention, with transformers alone",
            f"""\
import torch
from transformers import AutoModel, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(MODEL_ID, trust_remote_code=True)
model = AutoModel.from_pretrained(MODEL_ID, trust_remote_code=True)

texts = [
{listed}
]
inputs = tokenizer(texts, padding=True, return_tensors="pt")
with torch.inference_mode():
    output = model(**inputs)
scores = output.query @ output.key.T / output.query.shape[1] ** 0.5
print(scores.sigmoid().round(decimals=2))""",
        ),
    ]


def limits(config: Settings) -> list[str]:
    """What the model cannot do."""
    told = [
        "It finds groups and gives them no meaning of their own: whether a group is one type is for a reader "
        "to judge, and the number of groups is a choice. A cosine is no probability, and its scale differs "
        "between models.",
        "It draws mentions apart by the labels of the seen types. Where these divide the world finely or "
        "coarsely, so will the new groups.",
        "Queries and keys were learned within batches; clustered features depend on the mentions that a "
        "batch happens to hold, and are no vectors of a mention.",
        "The corpora are small and close to news. What they leave out or take for granted about people lives "
        "on in the vectors. Do not judge people by them.",
    ]
    if _trigger(config) == "none":
        told.append(
            "A sentence with several events has one vector: mentions of different events in one sentence "
            "cannot be told apart."
        )
    elif _trigger(config) == "found":
        told.append(
            "A sentence has one vector, that of the token most likely to carry an event of a type without "
            "labels: two such events in one sentence cannot be told apart, and an event of a labelled type "
            "is passed over."
        )
    elif _trigger(config) != "marked":
        told.append(
            "Without `trigger_mask`, as in the examples of this card, the vector is pooled over the whole "
            "sentence; it was trained on the tokens of triggers."
        )
    return told


def _trigger(config: Settings) -> str:
    return str(config.get("trigger_input", "none"))


def _other_view(config: Settings, training: Settings) -> str:
    """What the augmented view of a mention is."""
    dropout, mask = (
        float(cast(float, training.get(name, default)))
        for name, default in (("word_dropout", 0.1), ("word_mask", 0.0))
    )
    spared = "" if _trigger(config) == "none" else ", but never those of the trigger,"
    noise = (
        f"the mention under another dropout of the encoder, {dropout:.0%} of its words left out and "
        f"{mask:.0%} masked{spared} drawn again in each epoch"
    )
    if training.get("augmentation") != "back_translation":
        return f"no translation model: {noise}"
    models = cast(Mapping[str, object], training.get("translation_models") or {})
    translated = f"back-translation through {', '.join(sorted(models))}, one drawn again in each epoch"
    return translated if _trigger(config) == "none" else f"{translated}; of a mention with a trigger, {noise}"


def _beyond_the_paper(config: Settings) -> list[str]:
    said = []
    if _trigger(config) in ("marked", "marked_span"):
        said.append("the trigger stands between two learned tokens")
    if _trigger(config) in ("span", "marked_span"):
        said.append("the vector of a mention is the mean over the tokens of its trigger")
    if _trigger(config) == "found":
        said.append(
            "the vector of a mention is that of the token which was found to carry its event, by the hidden "
            f"states {setting(config.get('finder_layers'))}"
        )
    if config.get("pooled_layer", -1) != -1:
        said.append(
            f"vectors are pooled from hidden state {setting(config.get('pooled_layer'))}, not the last"
        )
    if config.get("freeze_encoder"):
        said.append("the pretrained encoder is not changed")
    if config.get("map_skip"):
        said.append(
            "queries and keys are the encoder's vector plus a learned map of it, so that scores start near "
            f"{setting(config.get('score_scale'))} times the cosine"
        )
    if config.get("score_bias") is not None:
        said.append(
            f"a learned number, from {setting(config.get('score_bias'))}, is added to every score in the loss"
        )
    return said


METHOD_CARD = MethodCard(
    method="event_type_induction",
    title="Event type induction",
    paper="Semi-supervised New Event Type Induction and Description via Contrastive Loss-Enforced Batch "
    "Attention (Edwards and Ji, EACL 2023)",
    url="https://doi.org/10.48550/arXiv.2202.05943",
    tags=("event-type-induction", "clustering", "contrastive-learning", "framenet"),
    summary=summary,
    text_read=text_read,
    objective=objective,
    readings=readings,
    usage=usage,
    limits=limits,
    paper_settings=PAPER_SETTINGS,
    citation=CITATION,
    published_note="Published scores are of paraphrase-MiniLM-L12 (33 million parameters) on ACE 2005: no "
    "score on other mentions and types compares with them.",
    normalises=True,
)
