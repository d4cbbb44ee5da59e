"""The pipeline `event-embedding`, and the reader of events that all pipelines share."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from transformers.pipelines.base import Pipeline

from .event_items import ROLES, as_list
from .loaded_files import check_loaded


class ProcessorPipeline:
    """A pipeline that checks its model and tokenizer, and has the model's processor."""

    model: Any
    tokenizer: Any
    processor: Any
    needed_field: ClassVar[str] = "model_type"
    """A field of the configurations of all accepted models."""
    accepted_types: ClassVar[str] = "any"
    """The accepted types of models, for the error message."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        check_loaded(self.model, self.tokenizer)
        if not hasattr(self.model.config, self.needed_field):
            found = self.model.config.model_type
            raise ValueError(f"found a model of the type {found}; accepted: {self.accepted_types}")
        self.processor = self.processor or self.model.make_processor(self.tokenizer)

    def __call__(self, inputs, *args, **kwargs):
        """Call the pipeline; a column of `datasets`, an array or a series of inputs counts as a list."""
        return super().__call__(as_list(inputs), *args, **kwargs)  # type: ignore[misc]


class EventReader(ProcessorPipeline):
    """Converts texts and events to the inputs of a pipeline's `model` with its `processor`.

    A graph model (HeterEvent) also needs the role and the word of every token. Their codes use 0 for none,
    because batches are padded with 0.
    """

    device: torch.device

    @property
    def reads_roles(self) -> bool:
        """True if the model reads an event by its roles."""
        return hasattr(self.model.base_model, "encode_chains")

    def read(self, items: Sequence[object]) -> list[dict[str, torch.Tensor]]:
        """Convert texts, events, tuples of three strings, or rows, as the processor reads them, to the
        model's inputs, `(1, length)`."""
        encoded = self.processor.encode(items)
        rows = []
        for place, is_token in enumerate(encoded["attention_mask"].bool()):
            row = {name: values[place : place + 1, ..., is_token] for name, values in encoded.items()}
            if "role_masks" in row:
                # A token may belong to two roles, so each role is one bit.
                bits = row.pop("role_masks").long() << torch.arange(len(ROLES)).unsqueeze(-1)
                row.update(role_bits=bits.sum(dim=1), word_numbers=row.pop("word_index") + 1)
            rows.append(row)
        return rows

    def model_arguments(self, rows: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Select the model's arguments from rows of `read`, one or a batch."""
        arguments = {name: rows[name] for name in ("input_ids", "attention_mask")}
        if "role_bits" in rows:
            bits = torch.arange(len(ROLES), device=self.device).unsqueeze(-1)
            arguments["role_masks"] = (rows["role_bits"].unsqueeze(1) >> bits & 1).bool()
            arguments["word_index"] = rows["word_numbers"] - 1
        return arguments

    def embed(self, rows: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The vectors of rows of `read`, `(rows, projection_dim)`."""
        return self.model.base_model(**self.model_arguments(rows), return_dict=True).embeddings.float()


def given(**settings) -> dict[str, Any]:
    """Keep the settings of a call that are not None."""
    return {name: value for name, value in settings.items() if value is not None}


def in_order(items: Sequence[object], scores: Sequence[float], name: str, top_k: int | None) -> list[dict]:
    """Rank items, called `name` in the result, by score, the `top_k` best first, None for all; ties keep
    their order; `index` is the position of each."""
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k: found {top_k}; accepted: 1 or more, or None for all")
    places = sorted(range(len(items)), key=lambda place: -scores[place])[:top_k]
    return [{name: items[place], "score": scores[place], "index": place} for place in places]


class EventEmbeddingPipeline(EventReader, Pipeline):
    """Vectors of texts and events.

    Example:
        pipe = pipeline("event-embedding", model=name)
        pipe({"subject": "police", "predicate": "arrested", "object": "thief"})
        pipe(["the storm flooded the city", "the river rose"], batch_size=8)
    """

    def _sanitize_parameters(self, return_tensors: bool | None = None, **kwargs):
        return {}, {}, given(return_tensors=return_tensors)

    def preprocess(self, item):
        return self.read([item])[0]

    def _forward(self, rows):
        return {"embeddings": self.embed(rows)}

    def postprocess(self, output, return_tensors: bool = False):
        vector = output["embeddings"][0]
        return vector if return_tensors else vector.tolist()

    def __call__(self, inputs, **kwargs):
        """Embed a text or an event, or a list of them.

        Args:
            inputs: a text, an event with `subject`, `predicate` and `object`, a tuple of these three
                strings, or a list of these.
            **kwargs: `return_tensors`, True for tensors instead of lists of numbers; `batch_size`.

        Returns:
            The vector of each, not normalised by the pipeline; a list of numbers.

        Raises:
            ValueError: an item is neither a text nor an event, or has no word.
        """
        return super().__call__(inputs, **kwargs)
