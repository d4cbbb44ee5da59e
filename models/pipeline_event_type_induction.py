"""The pipeline `event-type-induction`, which clusters event mentions into event types."""

from collections.abc import Mapping

import numpy as np
import torch
from transformers.pipelines.base import Pipeline

from .event_tokens import checked_list, checked_text, longest_input, shown
from .loaded_files import check_loaded
from .mention_tokens import NO_TRIGGER, TRIGGER_MARKERS, Mention, mark_trigger

try:
    from sklearn.cluster import AgglomerativeClustering
except ImportError:
    # Optional at import: this file is saved with every model of this type.
    AgglomerativeClustering = None


class EventTypeInductionPipeline(Pipeline):
    """Clusters mentions into event types, by average linkage on the cosine distances of their vectors.

    Example:
        pipe = pipeline("event-type-induction", model=name)
        pipe(["Police arrested him.", "She was jailed.", "The storm hit."], num_clusters=2)
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        check_loaded(self.model, self.tokenizer)
        config = self.model.config
        if not hasattr(config, "trigger_input"):
            raise ValueError(f"found a model of the type {config.model_type}; accepted: event_type_induction")
        if AgglomerativeClustering is None:
            raise ImportError(
                "the pipeline event-type-induction needs scikit-learn: pip install scikit-learn"
            )
        self.marks_trigger = config.trigger_input in ("marked", "marked_span")
        missing = set(TRIGGER_MARKERS) - set(self.tokenizer.get_vocab())
        if self.marks_trigger and missing:
            raise ValueError(
                f"the tokenizer lacks {' and '.join(sorted(missing))}; accepted: the tokenizer saved "
                "with the model"
            )

    def _sanitize_parameters(self, looks_for_trigger: bool | None = None, **kwargs):
        return {}, {} if looks_for_trigger is None else {"looks_for_trigger": looks_for_trigger}, {}

    def preprocess(self, mention):
        if self.marks_trigger:
            mention = mark_trigger(mention)
        longest = longest_input(self.tokenizer, self.model.config.encoder_config)
        encoded = self.tokenizer(
            mention.text,
            truncation=True,
            max_length=longest,
            return_offsets_mapping=True,
            return_token_type_ids=False,
            return_tensors="pt",
        )
        first, last = encoded.pop("offset_mapping").unbind(dim=-1)
        # A special token has no place in the text: its start is its end.
        of_trigger = (first < mention.trigger_end) & (last > mention.trigger_start) & (first < last)
        return {**encoded, "trigger_mask": of_trigger}

    def _forward(self, rows, looks_for_trigger: bool = False):
        arguments = {name: rows[name] for name in ("input_ids", "attention_mask")}
        if not looks_for_trigger:
            arguments["trigger_mask"] = rows["trigger_mask"]
        return {"embeddings": self.model.base_model(**arguments).embeddings.float()}

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
        mentions = [_mention_of(item) for item in checked_list(inputs, "mentions", "sentence or object")]
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
    """Cluster vectors by average linkage.

    Args:
        vectors: `(mentions, d)`.
        num_clusters: number of clusters.

    Returns:
        The cluster of each vector, 0 for the largest; clusters of equal size are ordered by their first
        mention.
    """
    if len(vectors) == 1:
        return [0]
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    tree = AgglomerativeClustering(num_clusters, metric="precomputed", linkage="average")
    labels = tree.fit_predict(np.clip(1 - units @ units.T, 0, 2)).tolist()
    order = sorted(set(labels), key=lambda label: (-labels.count(label), labels.index(label)))
    return [order.index(label) for label in labels]


def _mention_of(item) -> Mention:
    row = item if isinstance(item, Mapping) else {"text": item}
    text = checked_text(row.get("text"), "a sentence")
    start, end = row.get("trigger_start", NO_TRIGGER), row.get("trigger_end", NO_TRIGGER)
    if (start, end) != (NO_TRIGGER, NO_TRIGGER) and (
        type(start) is not int or type(end) is not int or not 0 <= start < end <= len(text)
    ):
        raise ValueError(
            f"found a trigger from {shown(start)} to {shown(end)} in a text of {len(text)} characters; "
            "accepted: offsets within it, end exclusive, or -1 for both"
        )
    return Mention(text, start, end)
