"""Training of the cross-encoder of event grounding, on candidates from a trained bi-encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import torch
from datasets import IterableDataset
from transformers import PreTrainedTokenizerBase

from eventformers.built_in.event_grounding import CROSS_ENCODER as METHOD
from eventformers.datasets_scripts.base import setting_names
from eventformers.datasets_scripts.event_hierarchies import EventHierarchiesConfig
from eventformers.errors import EventformersError
from eventformers.inference.grounding.encoding import GroundingTokeniser
from eventformers.models.grounding_tokens import TokenRow
from eventformers.models.modeling_event_grounding_cross import EventGroundingForSequenceClassification
from eventformers.strict import Range
from eventformers.trainers.grounding_data import (
    DRAW_MEANINGS,
    DRAW_SETTING_TYPES,
    MentionStream,
    ValidationMentions,
    check_rows,
    describe_data,
    draw_mentions,
    load_training_splits,
    make_linking_pairs,
    make_tokeniser,
    mentions_too_long,
    streams_mentions,
)
from eventformers.trainers.grounding_rows import CandidateRow, CandidateRows, EventTexts, MissedGold
from eventformers.trainers.method import Calibration, MethodTraining, TrainingData, check_columns
from eventformers.trainers.null_threshold import calibrate_cross_encoder
from eventformers.trainers.recipes import Recipe
from eventformers.trainers.retrieved_candidates import (
    EventPools,
    candidate_rows,
    load_retriever,
    retrieve_candidates,
)
from eventformers.trainers.streaming import STREAMING_MEANINGS, STREAMING_TYPES

_DATA = ("mentions", "events")


@dataclass
class EventGroundingCrossCollator:
    """Collator of rows of `CandidateRows` into the inputs of `EventGroundingForSequenceClassification`.

    Args:
        tokeniser: tokenises mentions and events.
        candidates: number of candidates of a mention; missing ones are rows without tokens.
        epoch: the current epoch, unused since nothing is drawn.
        truncated: number of texts truncated so far.
    """

    tokeniser: GroundingTokeniser
    candidates: int
    epoch: int = 0
    truncated: int = field(default=0, init=False)

    def __call__(self, rows: Sequence[CandidateRow]) -> dict[str, torch.Tensor]:
        """Collate rows of `CandidateRows`."""
        check_columns(rows, "mention")
        mentions = self.tokeniser.mentions([row["mention"] for row in rows])
        events = self.tokeniser.events([event for row in rows for event in row["candidates"]])
        for texts in (mentions, events):
            self.truncated += len(set().union(*texts.cut.values()))
        remaining = iter(events.rows)
        pairs: list[TokenRow] = []
        for row, mention in zip(rows, mentions.rows, strict=True):
            own = [self.tokeniser.pair(mention, next(remaining)) for _ in row["candidates"]]
            pairs += [*own, *([[]] * (self.candidates - len(own)))]
        labels = torch.zeros(len(rows), self.candidates)
        for place, row in enumerate(rows):
            labels[place, : len(row["is_gold"])] = torch.tensor(row["is_gold"], dtype=labels.dtype)
        tensors = self.tokeniser.pad(pairs)
        return {
            **{name: value.unflatten(0, (len(rows), self.candidates)) for name, value in tensors.items()},
            "labels": labels,
        }


def _prepare(
    recipe: Recipe,
    data: str | None,
    tokenizer: PreTrainedTokenizerBase,
    head: EventGroundingForSequenceClassification,
    seed: int,
) -> TrainingData:
    """Load mentions and events, retrieve the candidates, and make the collator."""
    views = {"candidates": 8, "missed_gold": "add", **recipe.views}
    builder, _, settings = METHOD.training_dataset(recipe)
    streaming = streams_mentions(recipe, views, {"missed_gold": (views["missed_gold"], "add")})
    if streaming and recipe.training.get("dataloader_num_workers"):
        raise EventformersError(
            f"dataloader_num_workers: found {recipe.training['dataloader_num_workers']} with streaming; "
            "accepted: 0, since the retriever finds the candidates while the stream is read"
        )
    name, number = views.get("retriever"), views["candidates"]
    if not name:
        raise EventformersError(
            "setting retriever: found none; accepted: the folder or Hub id of a bi-encoder from "
            "`eventformers train event_grounding`"
        )
    loaded = load_training_splits(data, ("events",) if streaming else _DATA, builder, settings)
    tokeniser = make_tokeniser(tokenizer, head, reads_pairs=True)
    events = EventTexts(loaded["events"])
    retriever = load_retriever(name)
    rows: CandidateRows | IterableDataset
    if streaming:
        streamed = MentionStream(data, builder, settings, events)
        pools = EventPools(retriever, events, streamed.languages)
        rows = streamed.candidates(
            lambda pairs: CandidateRows(pairs, events, candidate_rows(pools, pairs, events, number)), seed
        )
        skipped, told = streamed.skipped, {"gold_events": len(streamed)}
    else:
        mentions, drawn = draw_mentions(loaded["mentions"], views, seed)
        pairs = make_linking_pairs(mentions, events, settings)
        retrieved = retrieve_candidates(retriever, pairs, events, number)
        rows = held = CandidateRows(pairs, events, retrieved, views["missed_gold"])
        check_rows(held, "a retriever that finds gold events, or missed_gold: add")
        skipped = held.skipped
        told = {**held.gold, **drawn, "mentions_cut_themselves": mentions_too_long(pairs, tokeniser)}

    def calibrate(trained: EventGroundingForSequenceClassification) -> Calibration:
        held_out = ValidationMentions.load(data, builder, settings, events, seed)
        return calibrate_cross_encoder(held_out, name, trained, tokeniser)

    description = describe_data(data, _DATA, builder, settings, skipped=skipped, told=told)
    collator = EventGroundingCrossCollator(tokeniser, number)
    # A mention's negatives are its own candidates.
    return TrainingData(rows, None, collator, description, calibrate=calibrate, least_rows=1)


TRAINING = MethodTraining(
    prepare=_prepare,
    data_types={**STREAMING_TYPES, **dict.fromkeys(setting_names(EventHierarchiesConfig), object)},
    view_types={
        "retriever": str | None,
        "candidates": Annotated[int, Range(least=2)],
        "missed_gold": MissedGold,
        **DRAW_SETTING_TYPES,
    },
    meanings={
        **STREAMING_MEANINGS,
        "retriever": (None, "folder or Hub id of a bi-encoder that retrieves candidates; required."),
        **DRAW_MEANINGS,
    },
)
