"""The pipeline `event-type-induction`, which clusters event mentions into event types."""

import numpy as np
import torch
from transformers.pipelines.base import Pipeline

from .event_items import checked_list, shown
from .pipeline_event_embedding import ProcessorPipeline, given
from .processing_event_type_induction import mention_of

try:
    from sklearn.cluster import AgglomerativeClustering
except ImportError:
    # Optional at import: this file is saved with every model of this type.
    AgglomerativeClustering = None


class EventTypeInductionPipeline(ProcessorPipeline, Pipeline):
    """Clusters mentions into event types, by average linkage on the cosine distances of their vectors.

    They are clustered once, without the `weighting_rounds` of the configuration.

    Example:
        pipe = pipeline("event-type-induction", model=name)
        pipe(["Police arrested him.", "She was jailed.", "The storm hit."], num_clusters=2)
    """

    needed_field = "trigger_input"
    accepted_types = "event_type_induction"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        if AgglomerativeClustering is None:
            raise ImportError(
                "the pipeline event-type-induction needs scikit-learn: pip install scikit-learn"
            )

    def _sanitize_parameters(self, looks_for_trigger: bool | None = None, **kwargs):
        return given(looks_for_trigger=looks_for_trigger), {}, {}

    def preprocess(self, mention, looks_for_trigger: bool = False):
        encoded = self.processor.mentions([mention])
        if looks_for_trigger:
            encoded.pop("trigger_mask", None)
        return encoded

    def _forward(self, rows):
        return {"embeddings": self.model.base_model(**rows, return_dict=True).embeddings.float()}

    def postprocess(self, output):
        return output["embeddings"][0]

    def __call__(self, inputs, *, num_clusters: int, **kwargs):
        """Cluster mentions.

        Args:
            inputs: a list of mentions: sentences, or objects with `text` and, if the trigger is known,
                `trigger_start` and `trigger_end`, like rows of the config `mentions`.
            num_clusters: number of event types.
            **kwargs: `batch_size`.

        Returns:
            For each mention its `cluster`, 0 for the largest, and its `embedding`, a list of numbers.

        Raises:
            ValueError: a mention has no text, or there are fewer mentions than clusters.
        """
        mentions = [mention_of(item) for item in checked_list(inputs, "mentions", "sentence or object")]
        if type(num_clusters) is not int or not 1 <= num_clusters <= len(mentions):
            raise ValueError(
                f"{shown(num_clusters)} clusters of {len(mentions)} mentions; accepted: 1 to {len(mentions)}"
            )
        finds = self.model.config.trigger_input == "found"
        looks = finds and not all(mention.has_trigger for mention in mentions)
        vectors = torch.stack(super().__call__(mentions, looks_for_trigger=looks, **kwargs))
        clusters = clusters_of(vectors.double().numpy(), num_clusters)
        return [
            {"cluster": cluster, "embedding": vector}
            for cluster, vector in zip(clusters, vectors.tolist(), strict=True)
        ]


def clusters_of(vectors: np.ndarray, num_clusters: int) -> list[int]:
    """Cluster vectors, `(mentions, d)`, by average linkage; 0 is the largest cluster, ties go by their first
    mention."""
    if len(vectors) == 1:
        return [0]
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    tree = AgglomerativeClustering(num_clusters, metric="precomputed", linkage="average")
    labels = tree.fit_predict(np.clip(1 - units @ units.T, 0, 2)).tolist()
    order = sorted(set(labels), key=lambda label: (-labels.count(label), labels.index(label)))
    return [order.index(label) for label in labels]
