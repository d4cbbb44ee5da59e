"""Training of SWCC: from co-occurring events to the views of its head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch
from datasets import Dataset, IterableDataset
from transformers import BatchEncoding, PreTrainedTokenizerBase

from eventformers.datasets_scripts.base import setting_names
from eventformers.datasets_scripts.building import built_report, load_built
from eventformers.datasets_scripts.cooccurrence import Normalisation, normalise_frequencies
from eventformers.datasets_scripts.event_chains import EventChainsConfig
from eventformers.datasets_scripts.events import Event, EventOrder, event_text
from eventformers.errors import EventformersError
from eventformers.models.configuration_swcc import SwccConfig
from eventformers.models.modeling_swcc import SwccForPreTraining
from eventformers.trainers.method import IndexedRows, Method, TrainingData, indexed_stream
from eventformers.trainers.recipes import Recipe


@dataclass
class SwccCollator:
    """Turns rows of co-occurring events into the views of `SwccForPreTraining`.

    What is drawn for a row depends on the seed, the epoch and the row alone, so that a resumed run and a run
    on another number of processes draw the same.

    Args:
        tokenizer: the encoder's tokenizer.
        event_order: order of the roles in an event's text.
        frequency_normalization: how frequencies become weights (`SwccConfig`).
        frequency_minimum: smallest pair frequency of the data.
        frequency_maximum: largest pair frequency of the data.
        seed: seed of every draw.
        max_seq_length: tokens of an event beyond this are cut, and counted in `truncated`.
        mask_tokens: also give the view with one masked token.
        epoch: the epoch that runs.
        truncated: number of texts cut so far.
    """

    tokenizer: PreTrainedTokenizerBase
    event_order: EventOrder
    frequency_normalization: Normalisation
    frequency_minimum: int
    frequency_maximum: int
    seed: int
    max_seq_length: int = 32
    mask_tokens: bool = True
    epoch: int = 0
    truncated: int = field(default=0, init=False)

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """Collate rows with the columns `row`, `event`, `co_events`, `frequencies`."""
        generators = [np.random.default_rng((self.seed, self.epoch, row["row"])) for row in rows]
        drawn = [
            int(generator.integers(len(row["co_events"])))
            for generator, row in zip(generators, rows, strict=True)
        ]
        anchors = self.encode([row["event"] for row in rows])
        co_events = self.encode([row["co_events"][index] for index, row in zip(drawn, rows, strict=True)])
        frequencies = np.array([row["frequencies"][index] for index, row in zip(drawn, rows, strict=True)])
        weights = normalise_frequencies(
            frequencies, self.frequency_minimum, self.frequency_maximum, self.frequency_normalization
        )
        batch = {
            "input_ids": anchors["input_ids"],
            "attention_mask": anchors["attention_mask"],
            "co_event_input_ids": co_events["input_ids"],
            "co_event_attention_mask": co_events["attention_mask"],
            "co_event_weight": torch.as_tensor(weights, dtype=torch.float32),
        }
        if self.mask_tokens:
            batch.update(self._mask(anchors, generators))
        return batch

    def encode(self, events: Sequence[Event]) -> BatchEncoding:
        """Tokenise events to tensors of equal width; what is cut is counted."""
        texts = [event_text(event, self.event_order) for event in events]
        encoded = self.tokenizer(
            texts,
            padding=True,
            truncation=True,
            max_length=self.max_seq_length,
            return_special_tokens_mask=True,
            return_tensors="pt",
        )
        self.truncated += sum(bool(encoding.overflowing) for encoding in encoded.encodings or ())
        return encoded

    def _mask(
        self, anchors: BatchEncoding, generators: Sequence[np.random.Generator]
    ) -> dict[str, torch.Tensor]:
        """Mask one token of each event, drawn uniformly from those that are not special (section 3.3)."""
        maskable = (anchors["special_tokens_mask"] == 0) & (anchors["attention_mask"] == 1)
        positions = torch.tensor(
            [
                int(generator.choice(np.flatnonzero(row)))
                for generator, row in zip(generators, maskable.numpy(), strict=True)
            ]
        )
        everywhere = torch.arange(len(positions))
        masked = anchors["input_ids"].clone()
        labels = masked[everywhere, positions]
        masked[everywhere, positions] = self.tokenizer.mask_token_id
        return {"masked_input_ids": masked, "masked_positions": positions, "masked_labels": labels}


def _prepare(
    recipe: Recipe,
    data: str | None,
    tokenizer: PreTrainedTokenizerBase,
    config: SwccConfig,
    seed: int,
) -> TrainingData:
    """Load co-occurring events and make the collator that draws their views."""
    if config.mlm_weight and tokenizer.mask_token_id is None:
        raise EventformersError("the tokenizer has no mask token; set mlm_weight=0 to train without MLM")
    settings = dict(recipe.data)
    streaming = settings.pop("streaming", False)
    validation_rows = settings.pop("validation_rows", 0)
    rows = load_built(data, "cooccurrence", builder="event_chains", streaming=streaming, **settings)["train"]
    report = built_report(data, "cooccurrence", builder="event_chains", **settings)
    minimum, maximum = _frequency_range(rows, report)
    collator = SwccCollator(
        tokenizer=tokenizer,
        event_order=config.event_order,
        frequency_normalization=config.frequency_normalization,
        frequency_minimum=minimum,
        frequency_maximum=maximum,
        seed=seed,
        mask_tokens=bool(config.mlm_weight),
        **recipe.views,
    )
    if streaming:
        return TrainingData(indexed_stream(rows, seed), None, collator, report)
    validation = None
    if validation_rows:
        split = rows.train_test_split(test_size=validation_rows, seed=seed)
        rows, validation = split["train"], IndexedRows(split["test"])
    return TrainingData(IndexedRows(rows), validation, collator, report)


def _frequency_range(rows: Dataset | IterableDataset, report: Mapping[str, Any]) -> tuple[int, int]:
    """Smallest and largest pair frequency, from the build report or from the rows."""
    statistics = report.get("statistics", {})
    if statistics.get("minimum_pair_frequency") is not None:
        return statistics["minimum_pair_frequency"], statistics["maximum_pair_frequency"]
    if isinstance(rows, IterableDataset):
        raise EventformersError(
            "the dataset has no build report, and a stream cannot be read for its frequencies first; "
            "accepted: a folder that `eventformers data build` wrote, or streaming=false"
        )
    extremes = [
        pc.min_max(pc.list_flatten(chunk)).as_py() for chunk in rows.data.column("frequencies").chunks
    ]
    return min(part["min"] for part in extremes), max(part["max"] for part in extremes)


METHOD = Method(
    name="swcc",
    title="SWCC",
    config_class=SwccConfig,
    head_class=SwccForPreTraining,
    default_recipe="minilm",
    dataset=("event_chains", "cooccurrence"),
    data_keys=frozenset({"streaming", "validation_rows", *setting_names(EventChainsConfig)}),
    view_keys=frozenset({"max_seq_length"}),
    trained_whole=("prototypes", "mlm_head"),
    tasks=("hard_similarity", "hard_similarity_extended", "transitive_similarity"),
    prepare=_prepare,
)
