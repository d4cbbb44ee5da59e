"""Model card of MICO (Su et al., 2022)."""

from __future__ import annotations

import json
from typing import cast

from eventformers.markdown import code, setting
from eventformers.model_cards.method import (
    MethodCard,
    Reading,
    Settings,
    Snippet,
    encode_snippet,
    loading,
    number,
    pooling_reading,
    sentence_transformers_snippet,
    transformers_snippet,
)

CITATION = """\
@inproceedings{su-etal-2022-mico,
  title = {{MICO}: A Multi-alternative Contrastive Learning Framework for Commonsense Knowledge Representation},
  author = {Su, Ying and Wang, Zihao and Fang, Tianqing and Zhang, Hongming and Song, Yangqiu and Zhang, Tong},
  booktitle = {Findings of the Association for Computational Linguistics: EMNLP 2022},
  year = {2022},
  pages = {1339--1351},
  address = {Abu Dhabi, United Arab Emirates},
  publisher = {Association for Computational Linguistics},
  doi = {10.18653/v1/2022.findings-emnlp.96}
}"""  # noqa: E501 - a title is one line

PAPER_SETTINGS: dict[str, object] = {
    "pooling": "cls",
    "contrastive_temperature": 0.07,
    "positive": "hard",
    "num_alternatives": 2,
    "max_seq_length": 32,
    "per_device_train_batch_size": 196,
    "learning_rate": 1e-5,
    "num_train_epochs": 10,
    "stop_at_relative_change": 0.01,
}
"""Section 4.4 of the paper, for its base models; RoBERTa-large has the learning rate 5e-6."""

TRAINING_ROWS = {"conceptnet_inductive_pairs": 163_840, "atomic_inductive_pairs": 1_221_072}
"""Table 1."""

PREMISES = ("umbrella used for", "John misses the bus. as a result, John wants")
ALTERNATIVES = ("keep dry in the rain", "to take a taxi", "read at night", "to sing a song")
"""The first alternative answers the first premise, the second the second; the others answer neither."""

QUESTIONS = {
    "The man forgot his umbrella. As a result,": ["He got wet.", "He bought a dog."],
    "The glass broke. The cause for it was that": ["It was on the table.", "It fell on the floor."],
}


def summary(config: Settings) -> str:
    """Describe the model, its input and its output."""
    return (
        "This model maps a **premise**, that is a thing or an event with an open relation in words such as "
        f"{code(PREMISES[0])}, and an **alternative** that may complete it, such as {code(ALTERNATIVES[0])}, "
        f"to vectors of {config.get('projection_dim')} numbers. It was trained with MICO on a graph of "
        "commonsense knowledge so that a premise is close to its alternatives in the graph. Compare vectors "
        "by their cosine. Use it to complete such a graph, also for entities that the graph lacks, and to "
        "choose among the answers of a question without training on questions."
    )


def text_read(config: Settings) -> str:
    """Describe the forms of the texts."""
    return f"a premise, such as {code(PREMISES[1])}, or an alternative, such as {code(ALTERNATIVES[1])}"


def objective(config: Settings) -> str:
    """Describe the contrast, with the enabled options."""
    which = (
        "its least similar alternative of k"
        if config.get("positive") == "hard"
        else "a random one of its k alternatives"
    )
    kind = "learned, from" if config.get("learnable_temperature") else "fixed,"
    terms = [
        f"- **Contrast of alternatives** (Eq. 6): the positive of a premise is {which}; its negatives are "
        f"all alternatives of the other premises of the batch. Temperature {kind} "
        f"{setting(config.get('contrastive_temperature'))}."
    ]
    if number(config, "additive_margin"):
        terms.append(
            f"- **Margin**, beyond the paper: {setting(config.get('additive_margin'))} is subtracted from "
            "the cosine of the positive."
        )
    if corrected := config.get("frequency_correction"):
        graphs = f" of {' and '.join(map(str, corrected))}" if isinstance(corrected, list) else ""
        terms.append(
            f"- **Frequency correction**{graphs}, beyond the paper: the logarithm of an alternative's "
            "frequency in the training graph is subtracted from its logit, so that common alternatives, "
            "which occur in more batches, are not pushed away more."
        )
    if config.get("self_negatives"):
        terms.append("- **Own entity**, beyond the paper: the entity of a premise is one of its negatives.")
    if number(config, "pre_batch_negatives"):
        terms.append(
            f"- **Earlier batches**, beyond the paper: {setting(config.get('pre_batch_negatives'))} "
            "alternatives of earlier batches are negatives, without gradient."
        )
    if number(config, "distillation_weight"):
        terms.append(
            f"- **Distillation**, weight {setting(config.get('distillation_weight'))}, beyond the paper: the "
            "squared distance between the unit vectors of texts outside the graph and those of the untrained "
            "encoder."
        )
    return (
        "Every triple gives two premises, one for each direction; vectors are compared by their cosine.\n\n"
        + ("\n".join(terms))
    )


def readings(config: Settings, training: Settings) -> list[Reading]:
    """List the choices made where the paper is open."""
    taken = [
        Reading(
            "Section 3.1 and Table 10, templates",
            "the table omits five relations of the graph (HasSubevent, NotHasProperty, NotIsA, NotHasA, "
            "NotMadeOf), which the released code has; HasPainCharacter is in neither",
            "those of the released code; HasPainCharacter has a template of ours, after HasPainIntensity",
        ),
        Reading(
            "Section 3.1, data with gaps",
            "rows without a tail are not mentioned; the counts of Table 1 exclude them",
            "skipped and counted",
        ),
        pooling_reading(config, "text"),
        Reading("Eq. 3, similarity", "cosine or dot product", "cosine, as in the released code"),
        Reading(
            "Section 3.2, alternatives of a premise",
            "how the k are drawn is not stated",
            "as in the released code: the row's own, and k - 1 drawn uniformly with replacement from those "
            "that the training graph has for exactly the text of the premise",
        ),
        _positive_reading(config),
        Reading(
            "Eq. 6, own other alternatives",
            "δ is before the sums that bind its index; the released code multiplies what δ excludes by "
            "0, so that each of the k - 1 stays in the denominator with a logit of 0",
            "excluded, as the equation intends"
            if config.get("own_alternatives") == "excluded"
            else "a logit of 0 each, as in the released code",
        ),
        Reading(
            "Eq. 6, alternatives of other rows",
            "all are negatives, including those that the graph has for the premise",
            "those that the training graph has for the premise are left out"
            if config.get("mask_known_positives")
            else "as in the paper",
        ),
        Reading(
            "Section 4.4, early stopping",
            "“when the change of validation loss is within 1%”, and the best model by that loss; the "
            "released code scores COPA with the model of epoch 6",
            _stopping(training),
        ),
        Reading(
            "Section 4.2.2, ranks",
            "ties are not mentioned; the released code sorts equal scores in no fixed order, and sets the "
            "score of other known answers to 0",
            "equal scores share their mean rank; other known answers are left out",
        ),
    ]
    if number(config, "feature_dropout"):
        taken.append(
            Reading(
                "Released code, dropout of the vectors",
                "0.05 for RoBERTa-large in training, which the paper does not mention",
                setting(config.get("feature_dropout")),
            )
        )
    if beyond := _beyond_the_paper(config):
        taken.append(Reading("Beyond the paper", "not used", "; ".join(beyond)))
    return taken


def usage(config: Settings) -> list[Snippet]:
    """Examples: premises and alternatives with three libraries, questions, and completion."""
    texts = [json.dumps(text) for text in (*PREMISES, *ALTERNATIVES)]
    questions = "\n".join(
        f"    {json.dumps(premise)}: {json.dumps(answers)}," for premise, answers in QUESTIONS.items()
    )
    compared = f"embeddings[:{len(PREMISES)}] @ embeddings[{len(PREMISES)}:].T"
    return [
        transformers_snippet(texts, compared, note="premises before alternatives"),
        encode_snippet("texts", texts, compared),
        sentence_transformers_snippet(texts),
        Snippet(
            "A choice for each question, with transformers alone",
            f"""\
{loading("AutoModelForMultipleChoice")}
questions = {{
{questions}
}}
premises = tokenizer(list(questions), padding=True, return_tensors="pt")
answers = tokenizer(sum(questions.values(), []), padding=True, return_tensors="pt")
with torch.inference_mode():
    logits = model(
        premises["input_ids"],
        premises["attention_mask"],
        answers["input_ids"].unflatten(0, (len(questions), -1)),
        answers["attention_mask"].unflatten(0, (len(questions), -1)),
    ).logits
print(logits.round(decimals=2))
for (premise, choices), index in zip(questions.items(), logits.argmax(dim=-1).tolist()):
    print(premise, choices[index])""",
        ),
        Snippet(
            "Completion with eventformers, here from the graph of the bundled samples; `data=` accepts the "
            "folder of a graph, and `eventformers complete` does the same on the command line",
            f"""\
import eventformers

found = eventformers.complete(MODEL_ID, {json.dumps("umbrella, UsedFor")}, top=5)
print(found.query.text)
for alternative in found.alternatives:
    print(f"{{alternative.score:.2f}} {{alternative.text}}")""",
        ),
    ]


def limits(config: Settings) -> list[str]:
    """List what the model cannot do."""
    own = cast("dict[str, dict[str, str]]", config.get("relation_templates") or {})
    words = [f"{name} (“{one['forward']}”, “{one['reverse']}”)" for name, one in own.items()]
    known = [f"It knows these relations in the words of its own training: {'; '.join(words)}."] if own else []
    return [
        *known,
        "It generates nothing: it chooses among given alternatives, and one of them is always nearest, even "
        "for a premise without sense or answer. A cosine is not a probability, and its scale differs between "
        "models.",
        "It was trained on premises in the words of the templates. Other wordings of a relation may give "
        "other answers. It was neither trained nor measured on documents.",
        "A relation and its negation differ by one word (“is or are capable of”, “is not or are not capable "
        "of”), so true and false statements may be close together.",
        "The persons of ATOMIC are John and Tom in training; with other names answers may be worse.",
        "The graphs were written by many people, in English: their gaps, errors and assumptions about groups "
        "of people persist in the vectors. Do not judge people by them.",
        "Published scores on questions come from sets that were made from the graphs themselves (SIQA from "
        "ATOMIC, CSQA from ConceptNet), so expect lower scores elsewhere.",
    ]


def _positive_reading(config: Settings) -> Reading:
    if config.get("positive") == "random":
        return Reading(
            "Eq. 5, positive",
            "the least similar alternative; Table 7 also has a random one",
            "a random one",
        )
    return Reading(
        "Eq. 5, positive",
        "“min” gives a similarity where an alternative is needed, and the text describes minimising the "
        "similarity",
        "the alternative with the lowest similarity, whose similarity is then maximised",
    )


def _stopping(training: Settings) -> str:
    change = training.get("stop_at_relative_change")
    if change is None:
        return "no early stopping"
    return (
        f"training stops when the validation loss, with one alternative per row, changes by less than "
        f"{setting(change)} of the previous one; the model with the lowest loss is used for every task"
    )


def _beyond_the_paper(config: Settings) -> list[str]:
    facts = []
    if config.get("learnable_temperature"):
        facts.append("the temperature is learned")
    if number(config, "additive_margin"):
        facts.append("the cosine of the positive has a margin")
    if config.get("frequency_correction"):
        facts.append("logits are corrected for the frequency of alternatives")
    if config.get("self_negatives"):
        facts.append("the premise's own entity is a negative")
    if number(config, "pre_batch_negatives"):
        facts.append("alternatives of earlier batches are negatives")
    if number(config, "distillation_weight"):
        facts.append("texts outside the graph are held near their initial vectors")
    return facts


METHOD_CARD = MethodCard(
    method="mico",
    title="MICO",
    paper="MICO: A Multi-alternative Contrastive Learning Framework for Commonsense Knowledge Representation "
    "(Su et al., Findings of EMNLP 2022)",
    url="https://aclanthology.org/2022.findings-emnlp.96",
    tags=("commonsense", "knowledge-graph-completion", "multiple-choice", "contrastive-learning"),
    summary=summary,
    text_read=text_read,
    objective=objective,
    readings=readings,
    usage=usage,
    limits=limits,
    paper_settings=PAPER_SETTINGS,
    citation=CITATION,
    training_rows=TRAINING_ROWS,
    published_note="Published scores of completion are on the test splits. Those of Su et al. are of "
    "encoders with 110 to 355 million parameters, trained on all of ConceptNet (CN-82K, 163,840 pairs) or "
    "ATOMIC (1,221,072 pairs).",
)
