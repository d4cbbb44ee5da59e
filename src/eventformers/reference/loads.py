"""The kinds of repositories that the suite publishes, and the ways to load them, each run by a test."""

from __future__ import annotations

from dataclasses import dataclass

from eventformers.methods import all_methods

DATASET, METRIC = "event_similarity", "mcnc"
"""The dataset and the metric that represent all others."""


@dataclass(frozen=True)
class Published:
    """A kind of published repository.

    Attributes:
        kind: `model`, `dataset` or `metric`.
        name: the `model_type`, or the name of the dataset or metric.
        ways: the ways to load it: an Auto class, `PeftModel` for adapters, `pipeline` for the model's own
            pipeline, the task of a pipeline, `SentenceTransformer`, or the function for a dataset or metric.
    """

    kind: str
    name: str
    ways: tuple[str, ...]


def published() -> list[Published]:
    """List everything that is published, with every way to load it."""
    models = [
        Published(
            "model",
            name,
            (
                "AutoTokenizer",
                "AutoProcessor",
                *method.classes,
                "PeftModel",
                "pipeline",
                *method.config_class.pipelines,
                *(["SentenceTransformer"] if method.config_class().reads_text_alone else []),
            ),
        )
        for name, method in all_methods().items()
    ]
    return [
        *models,
        Published("dataset", DATASET, ("load_dataset", "load_dataset(streaming=True)")),
        Published("metric", METRIC, ("evaluate.load",)),
    ]
