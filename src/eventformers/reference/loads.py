"""What the suite publishes and the ways in which it loads: docs/loading.md shows them, a test runs each."""

from __future__ import annotations

from dataclasses import dataclass

from eventformers.methods import all_methods

DATASET, METRIC = "event_similarity", "mcnc"
"""The dataset and the metric that stand for all of their kind."""


@dataclass(frozen=True)
class Published:
    """A repository of a kind.

    Attributes:
        kind: `model`, `dataset` or `metric`.
        name: the `model_type`, or the dataset's or the metric's name.
        ways: what loads it: an Auto class, `PeftModel` for adapters over it, `pipeline` for the model's own
            pipeline, the task of a pipeline, `SentenceTransformer`, or the function that loads a dataset or a
            metric.
    """

    kind: str
    name: str
    ways: tuple[str, ...]


def published() -> list[Published]:
    """Everything that is published, with every way to load it."""
    models = [
        Published(
            "model",
            name,
            (
                "AutoTokenizer",
                *method.classes,
                "PeftModel",
                "pipeline",
                *method.config_class.pipelines,
                *(
                    ["SentenceTransformer"]
                    if method.is_sentence_transformer(method.config_class().to_dict())
                    else []
                ),
            ),
        )
        for name, method in all_methods().items()
    ]
    return [
        *models,
        Published("dataset", DATASET, ("load_dataset", "load_dataset(streaming=True)")),
        Published("metric", METRIC, ("evaluate.load",)),
    ]
