"""What the suite publishes and the ways in which it loads: docs/loading.md shows them, a test runs each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from eventformers.publishing.sentence_transformers_files import loads_as_sentence_transformer
from eventformers.registration import configuration_classes

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
    configurations: Iterator[Any] = configuration_classes()
    models = [
        Published(
            "model",
            configuration.model_type,
            (
                "AutoTokenizer",
                *configuration.full_auto_map,
                "PeftModel",
                "pipeline",
                *configuration.pipeline_tasks,
                *(
                    ["SentenceTransformer"]
                    if loads_as_sentence_transformer(configuration().to_dict())
                    else []
                ),
            ),
        )
        for configuration in configurations
    ]
    return [
        *models,
        Published("dataset", DATASET, ("load_dataset", "load_dataset(streaming=True)")),
        Published("metric", METRIC, ("evaluate.load",)),
    ]
