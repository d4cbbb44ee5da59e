"""Training of SimCSE: from the events of documents to pairs of dropout views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from datasets import Dataset
from transformers import PreTrainedTokenizerBase

from eventformers.datasets_scripts.events import EventOrder, event_text
from eventformers.datasets_scripts.loading import built_report, load_built
from eventformers.methods import load_method
from eventformers.models.processing_events import EventProcessor
from eventformers.models.text_prompts import prompt_of
from eventformers.strict import TextLength
from eventformers.trainers.method import EventCollator, IndexedRows, MethodTraining, TrainingData
from eventformers.trainers.recipes import Recipe
from simcse_events.modeling_simcse import SimCseForPreTraining


@dataclass
class SimCseCollator(EventCollator):
    """Turns events into the inputs of `SimCseForPreTraining`: each event twice.

    Args:
        tokenizer: the encoder's tokenizer.
        event_order: order of the roles in an event's text.
        max_seq_length: tokens of an event beyond this are truncated, and counted in `truncated`.
        prompt: text before each event.
    """

    tokenizer: PreTrainedTokenizerBase
    event_order: EventOrder
    max_seq_length: int = 32
    prompt: str = ""

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Collate rows with the column `event`."""
        texts = [event_text(row["event"], self.event_order) for row in rows]
        processor = EventProcessor(self.tokenizer, prompts={"event": self.prompt})
        encoded = self.counted(processor.tokenise(texts, max_length=self.longest(self.prompt)))
        names = ("input_ids", "attention_mask")
        return {prefix + name: encoded[name] for prefix in ("", "positive_") for name in names}


def _prepare(
    recipe: Recipe,
    data: str | None,
    tokenizer: PreTrainedTokenizerBase,
    head: SimCseForPreTraining,
    seed: int,
) -> TrainingData:
    """Load the distinct events of documents. Nothing is drawn, so `seed` has no effect."""
    builder, [config], settings = load_method(recipe.method).training_dataset(recipe)
    documents = load_built(data, config, builder=builder, **settings)["train"]
    events = {event_text(event): event for document in documents["events"] for event in document}
    rows = Dataset.from_list([{"event": event} for event in events.values()])
    report = {**built_report(data, config, builder=builder, **settings), "rows": len(rows)}
    prompt = prompt_of(head.config.prompts)
    collator = SimCseCollator(tokenizer, head.config.event_order, prompt=prompt, **recipe.views)
    return TrainingData(IndexedRows(rows), None, collator, report)


TRAINING = MethodTraining(
    prepare=_prepare,
    view_types={"max_seq_length": TextLength},
)
