"""What SWCC (Gao et al., 2022) adds to a model card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from eventformers.datasets_scripts.events import Event, EventOrder, event_text
from eventformers.model_cards.common import (
    encode_snippet,
    number,
    pooling_reading,
    sentence_transformers_snippet,
    transformers_snippet,
)
from eventformers.model_cards.markdown import code, setting
from eventformers.model_cards.method import MethodCard, Reading, Settings, Snippet

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

EXAMPLES: tuple[Event, ...] = (
    {"subject": "company", "predicate": "fired", "object": "worker"},
    {"subject": "firm", "predicate": "dismissed", "object": "employee"},
    {"subject": "soldier", "predicate": "fired", "object": "gun"},
)
"""The first two mean much the same in other words; the third shares the first one's verb alone."""

_OBJECTIVES = {
    "weakly_supervised": "**Weakly supervised contrast** (Eq. 6): an event is drawn to two other dropout "
    "views of itself and to an event of the same document, away from the other events of the batch.",
    "dropout_views": "**Contrast of dropout views**: an event is drawn to two other dropout views of itself, "
    "away from the other events of the batch. Co-occurrence is not used (the paper's “w/o Weakly Supervised "
    "CL”).",
    "info_nce": "**InfoNCE** (Eq. 3): an event is drawn to an event of the same document, away from those of "
    "the other rows.",
    "margin": "**Margin loss**: an event has to be closer to an event of the same document than to a random "
    "one, by a margin.",
}

_NORMALIZATIONS = {
    "min_max": "its frequency, min-max over the training data, so that a pair at the lowest frequency counts "
    "for nothing",
    "log_min_max": "the logarithm of its frequency, min-max over the training data",
    "constant": "1 for every pair, so that frequency plays no part",
}


def summary(config: Settings) -> str:
    """What the model is and what goes in and comes out."""
    example = event_text(EXAMPLES[0], _order(config))
    return (
        "This model maps an **event**, that is who did what to whom, to a vector of "
        f"{config.get('projection_dim')} numbers. It reads a short text such as `{example}`. It was trained "
        "with SWCC so that events of the same scene come close to each other even where they share no word, "
        "and so that shared words alone bring no two events together. Compare vectors by their cosine. It "
        "serves to find similar events, to group events into scenes, and as a start for models of event "
        "chains."
    )


def objective(config: Settings) -> str:
    """The loss terms that were switched on, with their weights."""
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
            f"- **Clustering** (Eq. 7): of two dropout views each predicts the prototype that the other is "
            f"assigned to, among {setting(config.get('num_prototypes'))} learned prototypes; the "
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
            "- **Entropy of the prototypes**, from the released code, not in the paper: each event is to "
            f"choose one prototype. Weight {setting(config.get('prototype_entropy_weight'))}."
        )
    if number(config, "shared_word_weight"):
        terms.append(
            "- **Contrast with shared words**, beyond the paper: an event is drawn to a paraphrase of "
            "itself, in which near words stand for its own, away from events that keep its words but for "
            "one far word, and from the other events of the batch. Near and far are cosines of single "
            "words under the encoder before training. "
            f"Weight {setting(config.get('shared_word_weight'))}, "
            f"temperature {setting(config.get('shared_word_temperature'))}{_second_positive(config)}."
        )
    return "The loss is a weighted sum; vectors are compared by their cosine.\n\n" + "\n".join(terms)


def readings(config: Settings, training: Settings) -> list[Reading]:
    """What was taken where the paper leaves a choice, for the terms that were switched on."""
    kind = config.get("contrastive_objective")
    taken = [
        Reading(
            "Eq. 1, event text",
            "predicate, subject, object",
            "subject, predicate, object, the order in which an English encoder met them in its own training"
            if _order(config) == "subject_predicate_object"
            else "predicate, subject, object",
        ),
        pooling_reading(config, "event"),
    ]
    if kind == "weakly_supervised":
        normalization = str(config.get("frequency_normalization"))
        taken += [
            Reading(
                "Eq. 6, weight of a positive",
                "stands inside the logarithm, where it adds a constant and has no gradient",
                "outside the logarithm, as in the released code",
            ),
            Reading(
                "Eq. 6, weight of the co-event",
                "min-max over the co-occurrence matrix; the released code fixes the ends at 3 and 38,354",
                _NORMALIZATIONS[normalization],
            ),
            Reading(
                "Eq. 6, negatives",
                "other events of the batch, without saying which of their views",
                "as in the released code: the first view of the other rows, for the second positive their "
                "second view; co-events of other rows are no negatives",
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
                "sum over the prototypes; the released code takes their mean, halves it, and weighs it by "
                "0.3",
                "sum over prototypes, mean over the batch (the code's 0.3 is 0.015 in this unit with ten "
                "prototypes)",
            ),
            Reading("Eq. 8, denominator", "exp of exp, a misprint", "a plain softmax"),
            Reading(
                "Section 3.2, optimal transport",
                "number of iterations and regularisation are not stated; the released code takes 3 and 0.05",
                f"{setting(config.get('sinkhorn_iterations'))} iterations and "
                f"{setting(config.get('sinkhorn_epsilon'))}, on cosine divided by temperature",
            ),
            Reading(
                "Section 4.1, learning rate of the prototypes",
                "2e-5; the released code takes 5e-4",
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
                "and a fresh linear layer as head",
            )
        )
    if number(config, "shared_word_weight"):
        taken.append(
            Reading(
                "Beyond the paper",
                "the only positives are dropout views and co-events; negatives are the rows of the batch",
                "also paraphrases and one-word changes of an event, made by exchanging words",
            )
        )
    return taken


def text_read(config: Settings) -> str:
    """The form of a text."""
    return f"an event as {code(' '.join(_roles(_order(config))))}, absent roles skipped"


def usage(config: Settings) -> list[Snippet]:
    """Examples with this package, with transformers alone and with sentence-transformers."""
    order = _order(config)
    compared = "embeddings @ embeddings.T"
    texts = [f'"{event_text(event, order)}"' for event in EXAMPLES]
    return [
        encode_snippet("events", [_literal(event) for event in EXAMPLES], compared),
        transformers_snippet(texts, compared, note=f"the text of an event is `{' '.join(_roles(order))}`"),
        sentence_transformers_snippet(texts),
    ]


def limits(config: Settings) -> list[str]:
    """What the model cannot do."""
    told = [
        "It reads one event with at most a subject, a predicate and an object. Time, place, negation, hope "
        "and doubt count only where they stand in the words of the event.",
        "It is no sentence encoder: on whole sentences or documents it has been neither trained nor "
        "measured.",
        "“Close” means that events belong to one scene, so a cause and its effect, or an event and its "
        "opposite, may lie close together. A cosine is no probability, and its scale differs between models.",
        "Events were taken from text by programs, and documents are the only evidence that events belong "
        "together: errors, gaps and prejudices of the extractor and of the texts live on in the vectors. Do "
        "not judge people by them.",
        "The hard-similarity tests are small, English and close to news. They have no development part, so a "
        "recipe that was chosen by them has a development score there.",
    ]
    if number(config, "cluster_weight"):
        told.append(
            "The prototypes come with the training head alone (`AutoModelForPreTraining`). Training balances "
            "them over each batch, so they are groups of about equal size, not event types."
        )
    if number(config, "shared_word_weight"):
        told.append(
            "Paraphrases for training were made with the nearest words of an encoder, which may be opposites "
            "(“rise” and “fall”), so opposites may lie closer together than they should."
        )
    return told


def _order(config: Settings) -> EventOrder:
    return cast(EventOrder, config.get("event_order", "subject_predicate_object"))


def _roles(order: EventOrder) -> list[str]:
    marked: Event = {"subject": "subject", "predicate": "predicate", "object": "object"}
    return event_text(marked, order).split()


def _literal(event: Event) -> str:
    return "{" + ", ".join(f'"{role}": "{text}"' for role, text in event.items()) + "}"


def _second_positive(config: Settings) -> str:
    name = "shared_word_co_event_weight"
    if not number(config, name):
        return ""
    return f"; the co-event is a second positive, with the weight {setting(config.get(name))}"


def _prototype_rate(training: Settings) -> str:
    rates = training.get("module_learning_rates")
    if isinstance(rates, Mapping) and "prototypes" in rates:
        return setting(rates["prototypes"])
    if "learning_rate" in training:
        return f"{setting(training['learning_rate'])}, as the encoder"
    return "not recorded"


METHOD_CARD = MethodCard(
    method="swcc",
    title="SWCC",
    paper="Improving Event Representation via Simultaneous Weakly Supervised Contrastive Learning and "
    "Clustering (Gao et al., ACL 2022)",
    url="https://aclanthology.org/2022.acl-long.216",
    tags=("event-representation", "event-similarity", "contrastive-learning", "clustering"),
    summary=summary,
    text_read=text_read,
    objective=objective,
    readings=readings,
    usage=usage,
    limits=limits,
    paper_settings=PAPER_SETTINGS,
    citation=CITATION,
    published_note="Published scores are on the whole published sets. Those of Gao et al. are of BERT-base "
    "(110 million parameters), trained on 4,029,877 events of the New York Times part of Gigaword.",
)
