"""Model card of event type induction by batch attention (Edwards and Ji, 2023)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

from eventformers.markdown import code, setting
from eventformers.model_cards.method import (
    MethodCard,
    Reading,
    Settings,
    Snippet,
    assignment,
    encode_snippet,
    loading,
    number,
    sentence_transformers_snippet,
    transformers_snippet,
)
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
"""Section 4 of the paper for its main runs; warm-up and dropout are those of the released code."""

EXAMPLES = (
    Mention("The court sentenced him to two years in prison.", 10, 19),
    Mention("A judge gave the former mayor a suspended term.", 8, 12),
    Mention("The company opened a second plant near the port.", 12, 18),
)
"""The first two have one type, in different words."""

_TRIGGERS = {
    "none": "the sentence of an event mention, without a mark of which of its events is meant",
    "marked": "the sentence of an event mention, with its trigger between "
    f"{' and '.join(code(token) for token in TRIGGER_MARKERS)}",
    "span": "the sentence of an event mention, and which of its tokens are the trigger (`trigger_mask`)",
    "marked_span": "the sentence of an event mention, with its trigger between "
    f"{' and '.join(code(token) for token in TRIGGER_MARKERS)}, and which of its tokens are the trigger "
    "(`trigger_mask`)",
    "found": "the sentence of an event mention; the model itself finds the token that most likely expresses "
    "an event of a type without labels, and returns its vector (`found_triggers` marks the token)",
}


def summary(config: Settings) -> str:
    """Describe the model, its input and its output."""
    return (
        "This model maps an **event mention**, that is a sentence that reports an event, such as "
        f"{code(EXAMPLES[0].text)}, to a vector of {config.get('projection_dim')} numbers and to a query and "
        "a key of the same size. It was trained on mentions of which only a few types were labelled, so that "
        "mentions of one type are close to each other, also for types without any label in training. "
        "Compare vectors by their cosine, or a query with a key by their product. Use it to group the "
        "mentions of a corpus into new event types, to name these, and to link them to frames of FrameNet."
    )


def text_read(config: Settings) -> str:
    """Describe the form of a text."""
    return _TRIGGERS[_trigger(config)]


def objective(config: Settings) -> str:
    """List the enabled loss terms, with their weights."""
    terms = [
        "- **Masked contrast of pairs** (section 3.4): the product of query and key over √d is the score for "
        "two mentions of one type. Pairs of one seen type, and a mention with its other view, are positive; "
        "pairs of two unseen mentions are left out; a negative pair has no loss if the sigmoid of its score "
        f"is below {setting(config.get('margin'))}. The loss is summed over the four pairs of a mention and "
        "its augmented view. Weight `1`."
    ]
    for name, target in (
        ("type_name_weight", "the name of its type"),
        ("frame_weight", "the definition of the frame that its type maps to"),
    ):
        if number(config, name):
            terms.append(
                f"- **Auxiliary alignment** (section 3.5): the clustered features of a seen mention, after "
                f"a head, are trained towards the pretrained encoder's vector of {target}. Weight "
                f"{setting(config.get(name))}."
            )
    if number(config, "frame_example_weight"):
        terms.append(
            "- **Contrast of frames** (beyond the paper): a sentence that evokes a frame and the definition "
            "of that frame are trained towards each other, and away from those of other frames, by InfoNCE "
            "at temperature 0.05. The sentences are the "
            "examples of the frames that no unseen type has and that inherit from none. Weight "
            f"{setting(config.get('frame_example_weight'))}."
        )
    if _trigger(config) == "found":
        terms.append(
            "- **Noisy-or over tokens** (beyond the paper): each token expresses an event of one seen type, "
            "an event of another type, or none; a sentence has a type unless no token expresses it. Learned "
            "from the seen types of whole sentences, without triggers."
        )
    return "\n".join(terms)


def readings(config: Settings, training: Settings) -> list[Reading]:
    """List the choices made where the paper is open, for the enabled terms."""
    taken = [
        Reading(
            "Section 3.4, mask",
            "the bar covers only the margin, so that pairs of two unseen mentions would be kept, contrary to "
            "the text",
            "these pairs are left out, as in the text and in the released code",
        ),
        Reading(
            "Section 3.4, diagonal",
            "in the formula of the mask, an unseen mention's pair with itself is left out; the released code "
            "keeps it as positive",
            "kept, as in the released code" if config.get("unseen_diagonal", True) else "left out",
        ),
        Reading(
            "Section 3.4, reduction",
            "the reduction of the matrix of losses is not stated",
            "the mean over the kept pairs"
            if config.get("pair_mean") == "kept"
            else "the mean over all pairs, with 0 for those left out, as in the released code",
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
            else "the best checkpoint within the best window, of windows that lie completely within the "
            "training run; the silhouettes are those of the unseen mentions, without their labels",
        ),
    ]
    if number(config, "type_name_weight") or number(config, "frame_weight"):
        taken += [
            Reading(
                "Section 3.5, loss",
                "as printed, an unseen mention adds the constant 1",
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
        taken.append(Reading("Beyond the paper", "not used", "; ".join(beyond)))
    return taken


def usage(config: Settings) -> list[Snippet]:
    """Examples: vectors with transformers alone, with this package and, for texts, with
    sentence-transformers; scores of queries and keys."""
    marks = _trigger(config) in ("marked", "marked_span")
    texts = [json.dumps((mark_trigger(example) if marks else example).text) for example in EXAMPLES]
    reads_text_alone = _trigger(config) in ("none", "found")
    return [
        transformers_snippet(texts),
        encode_snippet("texts", texts),
        *([sentence_transformers_snippet(texts)] if reads_text_alone else []),
        Snippet(
            "How likely two mentions are of one type, by the learned attention, with transformers alone",
            f"""\
{loading("AutoModel")}
{assignment("texts", texts)}
inputs = tokenizer(texts, padding=True, return_tensors="pt")
with torch.inference_mode():
    output = model(**inputs)
scores = output.query @ output.key.T / output.query.shape[1] ** 0.5
print(scores.sigmoid().round(decimals=2))""",
        ),
    ]


def limits(config: Settings) -> list[str]:
    """List what the model cannot do."""
    sentences = [
        "It finds groups but does not name them. A reader must judge whether a group is one type, and the "
        "number of groups is a choice. A cosine is not a probability, and its scale differs between models.",
        "It separates mentions as the labels of the seen types do. The new groups are as fine or as coarse "
        "as these.",
        "Queries and keys were learned within batches. Clustered features depend on the other mentions of a "
        "batch, so they are not vectors of a mention.",
        "The corpora are small and close to news. Their gaps and their assumptions about people persist in "
        "the vectors. Do not judge people by them.",
    ]
    if _trigger(config) == "none":
        sentences.append(
            "A sentence with several events has one vector: mentions of different events in one sentence "
            "cannot be told apart."
        )
    elif _trigger(config) == "found":
        sentences.append(
            "A sentence has one vector, that of the token most likely to express an event of a type without "
            "labels: two such events in one sentence cannot be told apart, and an event of a labelled type "
            "is ignored."
        )
    elif _trigger(config) != "marked":
        sentences.append(
            "Without `trigger_mask`, as in the examples of this card, the vector is pooled over the whole "
            "sentence; training pooled over the tokens of triggers."
        )
    return sentences


def _trigger(config: Settings) -> str:
    return str(config.get("trigger_input", "none"))


def _other_view(config: Settings, training: Settings) -> str:
    dropout, mask = (
        float(cast(float, training.get(name, default)))
        for name, default in (("word_dropout", 0.1), ("word_mask", 0.0))
    )
    spared = "" if _trigger(config) == "none" else ", but never those of the trigger,"
    noise = (
        f"the mention under another dropout mask of the encoder, {dropout:.0%} of its words removed and "
        f"{mask:.0%} masked{spared} drawn again in each epoch"
    )
    if training.get("augmentation") != "back_translation":
        return f"no translation model: {noise}"
    models = cast(Mapping[str, object], training.get("translation_models") or {})
    translated = f"back-translation through {', '.join(sorted(models))}, one drawn again in each epoch"
    if _trigger(config) == "none":
        return translated
    return f"{translated}; for a mention with a trigger, {noise}"


def _beyond_the_paper(config: Settings) -> list[str]:
    facts = []
    if _trigger(config) in ("marked", "marked_span"):
        facts.append("the trigger is between two learned tokens")
    if _trigger(config) in ("span", "marked_span"):
        facts.append("the vector of a mention is the mean over the tokens of its trigger")
    if _trigger(config) == "found":
        facts.append(
            "the vector of a mention is that of the token found to express its event, from the first and the "
            "last hidden state"
        )
    if config.get("pooled_layer", -1) != -1:
        facts.append(
            f"vectors are pooled from hidden state {setting(config.get('pooled_layer'))}, not the last"
        )
    if config.get("freeze_encoder"):
        facts.append("the pretrained encoder is frozen")
    if config.get("map_skip"):
        facts.append(
            "queries and keys are the encoder's vector plus a learned map of it, so that scores start near "
            f"{setting(config.get('score_scale'))} times the cosine"
        )
    if config.get("score_bias") is not None:
        facts.append(
            f"every score in the loss gets a learned bias that starts at {setting(config.get('score_bias'))}"
        )
    if number(config, "frame_example_weight"):
        facts.append("examples of frames are contrasted with the definitions of their frames")
    return facts


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
    published_note="Published scores are of paraphrase-MiniLM-L12 (33 million parameters) on ACE 2005. They "
    "are not comparable with scores on other mentions and types.",
    normalises=True,
)
