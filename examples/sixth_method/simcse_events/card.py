"""What SimCSE adds to a model card."""

from __future__ import annotations

from eventformers.markdown import setting
from eventformers.model_cards import MethodCard, Reading
from eventformers.model_cards.method import (
    Settings,
)

CITATION = """\
@inproceedings{gao-etal-2021-simcse,
  title = {SimCSE: Simple Contrastive Learning of Sentence Embeddings},
  author = {Gao, Tianyu and Yao, Xingcheng and Chen, Danqi},
  booktitle = {Proceedings of the 2021 Conference on Empirical Methods in Natural Language Processing},
  year = {2021},
  pages = {6894--6910},
  doi = {10.18653/v1/2021.emnlp-main.552}
}"""


def objective(config: Settings) -> str:
    """The loss."""
    return (
        "**Contrast of dropout views** (Eq. 4): an event is drawn to itself under another dropout mask, away "
        f"from the other events of the batch. Temperature {setting(config.get('contrastive_temperature'))}."
    )


def readings(config: Settings, training: Settings) -> list[Reading]:
    """Where this model differs from the paper."""
    vector = "the mean over the tokens" if config.get("pooling") == "mean" else "[CLS]"
    return [
        Reading("Section 4", "sentences of Wikipedia", "events, whose texts have few words"),
        Reading("Section 6.3, pooling", "[CLS], with a layer in training alone", f"{vector}, the same layer"),
    ]


def limits(config: Settings) -> list[str]:
    """What the model cannot do."""
    return ["It learns from the words of an event alone: which events occur together plays no part."]


METHOD_CARD = MethodCard(
    method="simcse",
    title="SimCSE",
    paper="SimCSE: Simple Contrastive Learning of Sentence Embeddings (Gao et al., EMNLP 2021)",
    url="https://aclanthology.org/2021.emnlp-main.552",
    tags=("event-representation", "event-similarity", "contrastive-learning"),
    objective=objective,
    readings=readings,
    limits=limits,
    paper_settings={
        "pooling": "cls",
        "contrastive_temperature": 0.05,
        "per_device_train_batch_size": 64,
        "learning_rate": 3e-5,
    },
    citation=CITATION,
)
