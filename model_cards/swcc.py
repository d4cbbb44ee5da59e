"""Model card of SWCC (Gao et al., 2022)."""

from __future__ import annotations

from collections.abc import Mapping

from eventformers.markdown import setting
from eventformers.model_cards.method import (
    EXAMPLES,
    MethodCard,
    Reading,
    Settings,
    number,
    pooling_reading,
    text_of_event,
)

CITATION = """\
@inproceedings{gao-etal-2022-improving,
  title = {Improving Event Representation via Simultaneous Weakly Supervised Contrastive Learning and Clustering},
  author = {Gao, Jun and Wang, Wei and Yu, Changlong and Zhao, Huan and Ng, Wilfred and Xu, Ruifeng},
  booktitle = {Proceedings of the 60th Annual Meeting of the Association for Computational Linguistics (Volume 1: Long Papers)},
  year = {2022},
  pages = {3036--3049},
  address = {Dublin, Ireland},
  publisher = {Association for Computational Linguistics},
  doi = {10.18653/v1/2022.acl-long.216}
}"""  # noqa: E501 - a title is one line

PAPER_SETTINGS: dict[str, object] = {
    "event_order": "predicate_first",
    "pooling": "cls",
    "contrastive_objective": "weakly_supervised",
    "contrastive_temperature": 0.3,
    "cluster_temperature": 0.3,
    "num_prototypes": 10,
    "cluster_weight": 0.1,
    "mlm_weight": 1.0,
    "frequency_normalization": "min_max",
    "per_device_train_batch_size": 256,
    "learning_rate": 2e-7,
    "module_learning_rates": {"prototypes": 2e-5},
}
"""Section 4.1 and Tables 6 and 7 of the paper; batch size and learning rates under the names of training
arguments."""

_OBJECTIVES = {
    "weakly_supervised": "**Weakly supervised contrast** (Eq. 6): the positives of an event are two other "
    "dropout views of itself and an event of the same document; its negatives are the other events of the "
    "batch.",
    "dropout_views": "**Contrast of dropout views**: the positives of an event are two other dropout views "
    "of itself; its negatives are the other events of the batch. Co-occurrence is not used (the paper's “w/o "
    "Weakly Supervised CL”).",
    "info_nce": "**InfoNCE** (Eq. 3): the positive of an event is an event of the same document; its "
    "negatives are those of the other rows.",
    "margin": "**Margin loss**: the cosine of an event with an event of the same document should exceed that "
    "with a random event by a margin.",
}

_NORMALIZATIONS = {
    "min_max": "its frequency, min-max over the training data, so that a pair with the lowest frequency has "
    "weight 0",
    "log_min_max": "the logarithm of its frequency, min-max over the training data",
    "constant": "1 for every pair, whatever its frequency",
}


def summary(config: Settings) -> str:
    """Describe the model, its input and its output."""
    example = text_of_event(config, EXAMPLES[0])
    return (
        "This model maps an **event**, that is who did what to whom, to a vector of "
        f"{config.get('projection_dim')} numbers. It reads a short text such as `{example}`. It was trained "
        "with SWCC so that events of the same scene are close to each other even if they share no word, and "
        "events that only share words are not. Compare vectors by their cosine. Use it to find similar "
        "events, to group events into scenes, and as the start encoder for models of event chains."
    )


def objective(config: Settings) -> str:
    """List the enabled loss terms, with their weights."""
    kind = str(config.get("contrastive_objective"))
    scale = (
        f"margin {setting(config.get('margin'))}"
        if kind == "margin"
        else f"temperature {setting(config.get('contrastive_temperature'))}"
    )
    if kind == "weakly_supervised":
        scale += f"; weight of the co-event: {_NORMALIZATIONS[str(config.get('frequency_normalization'))]}"
    terms = [f"- {_OBJECTIVES[kind]} Weight `1`, {scale}."]
    if number(config, "cluster_weight"):
        terms.append(
            f"- **Clustering** (Eq. 7): each of two dropout views predicts the prototype to which the other "
            f"is assigned, among {setting(config.get('num_prototypes'))} learned prototypes; the "
            f"assignment is balanced over the batch by {setting(config.get('sinkhorn_iterations'))} Sinkhorn "
            f"iterations. Weight β {setting(config.get('cluster_weight'))}, temperature "
            f"{setting(config.get('cluster_temperature'))}."
        )
    if number(config, "mlm_weight"):
        terms.append(
            "- **Masked token**: one token of the event is masked and predicted, which keeps the encoder's "
            f"knowledge of words. Weight γ {setting(config.get('mlm_weight'))}."
        )
    if number(config, "prototype_entropy_weight"):
        terms.append(
            "- **Entropy of the prototypes**, from the released code, not in the paper: it trains each event "
            f"to choose one prototype. Weight {setting(config.get('prototype_entropy_weight'))}."
        )
    if number(config, "shared_word_weight"):
        terms.append(
            "- **Contrast with shared words**, beyond the paper: the positive of an event is a paraphrase in "
            "which similar words replace its own; its negatives are events that keep all of its words except "
            "one, which a dissimilar word replaces, and the other events of the batch. Similarity is the "
            "cosine of single words under the encoder before training. "
            f"Weight {setting(config.get('shared_word_weight'))}, "
            f"temperature {setting(config.get('shared_word_temperature'))}{_second_positive(config)}."
        )
    if number(config, "predicate_weight"):
        terms.append(
            "- **Similarity of predicates**, beyond the paper: events that differ only in the predicate get "
            "similarities that correlate with those of their predicates in a sentence, under the encoder "
            f"before training. Weight {setting(config.get('predicate_weight'))}."
        )
    return "The loss is a weighted sum; vectors are compared by their cosine.\n\n" + "\n".join(terms)


def readings(config: Settings, training: Settings) -> list[Reading]:
    """List the choices made where the paper is open, for the enabled terms."""
    kind = config.get("contrastive_objective")
    taken = [
        Reading(
            "Eq. 1, event text",
            "predicate, subject, object",
            "subject, predicate, object, the usual order of English, which the encoder was pretrained on"
            if text_of_event(config) == "subject predicate object"
            else "predicate, subject, object",
        ),
        pooling_reading(config, "event"),
    ]
    if kind == "weakly_supervised":
        normalization = str(config.get("frequency_normalization"))
        taken += [
            Reading(
                "Eq. 6, weight of a positive",
                "is inside the logarithm, where it adds a constant and has no gradient",
                "outside the logarithm, as in the released code",
            ),
            Reading(
                "Eq. 6, weight of the co-event",
                "min-max over the co-occurrence matrix; the released code fixes the ends at 3 and 38,354",
                _NORMALIZATIONS[normalization],
            ),
            Reading(
                "Eq. 6, negatives",
                "other events of the batch; which of their views is not stated",
                "as in the released code: the first view of the other rows, for the second positive their "
                "second view; co-events of other rows are not negatives",
            ),
        ]
    if kind == "margin":
        taken.append(
            Reading(
                "Table 2, margin loss",
                "no margin is stated",
                f"margin {setting(config.get('margin'))} on the cosine, against the co-event of another row",
            )
        )
    if number(config, "cluster_weight"):
        taken += [
            Reading(
                "Eq. 7, reduction",
                "sum over the prototypes; the released code takes their mean, halves it, and weights it with "
                "0.3",
                "sum over prototypes, mean over the batch (the code's 0.3 is 0.015 in this unit with ten "
                "prototypes)",
            ),
            Reading("Eq. 8, denominator", "exp of exp, a misprint", "a plain softmax"),
            Reading(
                "Section 3.2, optimal transport",
                "number of iterations and regularisation are not stated; the released code uses 3 and 0.05",
                f"{setting(config.get('sinkhorn_iterations'))} iterations and "
                f"{setting(config.get('sinkhorn_epsilon'))}, on cosine divided by temperature",
            ),
            Reading(
                "Section 4.1, learning rate of the prototypes",
                "2e-5; the released code uses 5e-4",
                _prototype_rate(training),
            ),
            Reading(
                "Released code, entropy term",
                "adds 0.05 times the entropy of the prototype distribution, which the paper does not have",
                f"weight {setting(config.get('prototype_entropy_weight'))}"
                if number(config, "prototype_entropy_weight")
                else "left out",
            ),
        ]
    if number(config, "mlm_weight"):
        taken.append(
            Reading(
                "Section 3.3, masked token",
                "share of masked tokens and form of the head are not stated",
                "as in the released code: exactly one token of each event, always replaced by the mask, "
                "and a newly initialised linear layer as head",
            )
        )
    if number(config, "shared_word_weight"):
        taken.append(
            Reading(
                "Beyond the paper",
                "the only positives are dropout views and co-events; negatives are the rows of the batch",
                "also paraphrases and one-word changes of an event, made by replacing words",
            )
        )
    return taken


def limits(config: Settings) -> list[str]:
    """List what the model cannot do."""
    sentences = [
        "It reads one event with at most a subject, a predicate and an object. Time, place, negation, hope "
        "and doubt only count if they are words of the event.",
        "It is not a sentence encoder: it was neither trained nor measured on whole sentences or documents.",
        "“Close” means that events belong to one scene, so a cause and its effect, or an event and its "
        "opposite, may be close together. A cosine is not a probability, and its scale differs between "
        "models.",
        "Programs extracted the events from text, and documents are the only evidence that events belong "
        "together: errors, gaps and prejudices of the extractor and of the texts persist in the vectors. Do "
        "not judge people by them.",
        "The hard-similarity tests are small, English and close to news. They have no development split, so "
        "the score of a recipe that was chosen by them is a development score.",
    ]
    if number(config, "cluster_weight"):
        sentences.append(
            "Only the training head has the prototypes (`AutoModelForPreTraining`). Training balances them "
            "over each batch, so they are groups of about equal size, not event types."
        )
    if number(config, "shared_word_weight"):
        sentences.append(
            "Paraphrases for training were made with the nearest words of an encoder, which may be opposites "
            "(“rise” and “fall”), so opposites may be closer together than they should be."
        )
    return sentences


def _second_positive(config: Settings) -> str:
    name = "shared_word_co_event_weight"
    if not number(config, name):
        return ""
    return f"; the co-event is a second positive, with weight {setting(config.get(name))}"


def _prototype_rate(training: Settings) -> str:
    rates = training.get("module_learning_rates")
    if isinstance(rates, Mapping) and "prototypes" in rates:
        return setting(rates["prototypes"])
    if "learning_rate" in training:
        return f"{setting(training['learning_rate'])}, as for the encoder"
    return "not recorded"


METHOD_CARD = MethodCard(
    method="swcc",
    title="SWCC",
    paper="Improving Event Representation via Simultaneous Weakly Supervised Contrastive Learning and "
    "Clustering (Gao et al., ACL 2022)",
    url="https://aclanthology.org/2022.acl-long.216",
    tags=("event-representation", "event-similarity", "contrastive-learning", "clustering"),
    summary=summary,
    objective=objective,
    readings=readings,
    limits=limits,
    paper_settings=PAPER_SETTINGS,
    citation=CITATION,
    published_note="Published scores are on the complete published sets. Those of Gao et al. are of BERT-"
    "base (110 million parameters), trained on 4,029,877 events of the New York Times part of Gigaword.",
)
