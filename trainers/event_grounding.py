"""Training of event grounding: from mentions, events and their hierarchy to the inputs of both encoders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import torch
from datasets import IterableDataset
from transformers import PreTrainedTokenizerBase

from eventformers.built_in import EVENT_GROUNDING as METHOD
from eventformers.built_in import EVENT_GROUNDING_CROSS as CROSS_ENCODER
from eventformers.datasets_scripts.known_pairs import padded
from eventformers.errors import EventformersError
from eventformers.files import packaged_yaml
from eventformers.inference.grounding.encoding import GroundingTokeniser
from eventformers.models.modeling_event_grounding import EventGroundingForPreTraining
from eventformers.models.modeling_event_grounding_cross import EventGroundingForSequenceClassification
from eventformers.models.processing_event_grounding import EventText, TokenisedTexts, TokenRow
from eventformers.strict import Count, Number, Range
from eventformers.trainers.grounding_candidates import (
    EventPools,
    as_retriever,
    calibrate_bi_encoder,
    calibrate_cross_encoder,
    candidate_rows,
    load_retriever,
    retrieve_candidates,
)
from eventformers.trainers.grounding_data import (
    DRAW_SETTING_TYPES,
    CandidateRows,
    EventTexts,
    HierarchyPairs,
    LinkingPairs,
    MentionStream,
    MissedGold,
    Row,
    WrongCandidates,
    check_rows,
    describe_data,
    draw_mentions,
    load_training_splits,
    make_linking_pairs,
    make_tokeniser,
    mentions_too_long,
    streams_mentions,
    validation_pairs,
)
from eventformers.trainers.method import (
    Calibration,
    EventCollator,
    MethodTraining,
    TrainingData,
    check_columns,
)
from eventformers.trainers.recipes import Recipe

_STAGE_DATA = {
    "linking": ("mentions", "events"),
    "hierarchy": ("hierarchy", "events"),
    "joint": ("mentions", "events", "hierarchy"),
}
"""The builder's configs that each stage reads."""

Batch = dict[str, torch.Tensor]


@dataclass
class EventGroundingCollator(EventCollator):
    """Collator of `LinkingPairs` or `HierarchyPairs` into the inputs of `EventGroundingForPreTraining`.

    Args:
        tokeniser: tokenises mentions and events.
        seed: seed of all draws.
        num_gold: maximum number of gold events of a mention, the width in every batch.
        num_parents: maximum number of parents of an event, the width in every batch.
        hierarchy: pairs of parents and children to add to mentions; None adds none.
        hierarchy_pairs: number of these pairs for each mention, drawn uniformly with replacement.
        wrong: wrong candidates of each mention from a retriever; None without hard negatives.
        hard_negatives: number of wrong candidates for each mention.
        epoch: the current epoch.
    """

    tokeniser: GroundingTokeniser
    seed: int
    num_gold: int = 1
    num_parents: int = 1
    hierarchy: HierarchyPairs | None = None
    hierarchy_pairs: int = 2
    wrong: WrongCandidates | None = None
    hard_negatives: int = 0
    epoch: int = 0

    def __call__(self, rows: Sequence[Row]) -> Batch:
        """Collate rows of `LinkingPairs`, or of `HierarchyPairs`."""
        check_columns(rows, "mention", "child")
        if "child" in rows[0]:
            return self._hierarchy([[row] for row in rows])
        groups: list[list[tuple[EventText, int]]] = []
        for row in rows:
            group = [(row["event"], row["event_id"])]
            if self.wrong is not None:
                # A separate generator, so that hard negatives do not change the draws of the hierarchy.
                generator = np.random.default_rng((self.seed, self.epoch, row["row"], 1))
                # Without a wrong candidate, the mention's own event pads the row to the width of the batch.
                drawn = self.wrong.draw(row["row"], self.hard_negatives, generator)
                group += drawn or group * self.hard_negatives
            groups.append(group)
        batch = {
            **self._counted(self.tokeniser.mentions([row["mention"] for row in rows])),
            **self._events("event", [[text for text, _ in group] for group in groups]),
            "event_ids": torch.tensor([[number for _, number in group] for group in groups]),
            "gold_event_ids": torch.from_numpy(
                padded([row["gold_event_ids"] for row in rows], self.num_gold)
            ),
        }
        if self.hierarchy is not None:
            of_rows = []
            for row in rows:
                generator = np.random.default_rng((self.seed, self.epoch, row["row"]))
                places = generator.integers(len(self.hierarchy), size=self.hierarchy_pairs)
                of_rows.append([self.hierarchy[int(place)] for place in places])
            batch |= self._hierarchy(of_rows)
        return batch

    def _hierarchy(self, groups: Sequence[Sequence[Row]]) -> Batch:
        """Collate pairs of a parent and a child; all groups have the same size."""
        known = [padded([pair["known_parent_ids"] for pair in group], self.num_parents) for group in groups]
        return {
            **self._events("parent", [[pair["parent"] for pair in group] for group in groups]),
            **self._events("child", [[pair["child"] for pair in group] for group in groups]),
            "parent_ids": torch.tensor([[pair["parent_id"] for pair in group] for group in groups]),
            "known_parent_ids": torch.from_numpy(np.stack(known)),
        }

    def _events(self, name: str, groups: Sequence[Sequence[EventText]]) -> Batch:
        """Tokenise events to tensors `(groups, events, length)`; all groups have the same size."""
        tensors = self._counted(self.tokeniser.events([event for group in groups for event in group]))
        return {
            f"{name}_{key}": value.unflatten(0, (len(groups), len(groups[0])))
            for key, value in tensors.items()
        }

    def _counted(self, texts: TokenisedTexts) -> Batch:
        """Pad texts to tensors of equal width, counting truncated ones."""
        self.truncated += len(set().union(*texts.cut.values()))
        return self.tokeniser.pad(texts.rows)


@dataclass
class EventGroundingCrossCollator(EventCollator):
    """Collator of rows of `CandidateRows` into the inputs of `EventGroundingForSequenceClassification`.

    Args:
        tokeniser: tokenises mentions and events.
        candidates: number of candidates of a mention; missing ones are rows without tokens.
        epoch: the current epoch, unused since nothing is drawn.
    """

    tokeniser: GroundingTokeniser
    candidates: int
    epoch: int = 0

    def __call__(self, rows: Sequence[Row]) -> dict[str, torch.Tensor]:
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
    head: EventGroundingForPreTraining,
    seed: int,
) -> TrainingData:
    """Load the data of the head's stage and make its collator."""
    views = {"hierarchy_pairs": 2, "hard_negatives": 0, "candidates": 8, **recipe.views}
    if views["hard_negatives"] > views["candidates"]:
        raise EventformersError(
            f"setting hard_negatives: found {views['hard_negatives']}; accepted: {views['candidates']} or "
            "less, the value of candidates"
        )
    builder, _, settings = METHOD.training_dataset(recipe)
    names = _STAGE_DATA[head.config.stage]
    streaming = streams_mentions(recipe, views, {"hard_negatives": (views["hard_negatives"], 0)})
    held = [name for name in names if not (streaming and name == "mentions")]
    loaded = load_training_splits(data, held, builder, settings)
    tokeniser = make_tokeniser(tokenizer, head)
    events = EventTexts(loaded["events"])
    collator = EventGroundingCollator(tokeniser, seed, hierarchy_pairs=views["hierarchy_pairs"])
    skipped: dict[str, int] = {}
    told: dict[str, int] = {}
    rows: LinkingPairs | HierarchyPairs | IterableDataset
    if "hierarchy" in loaded:
        rows = hierarchy = HierarchyPairs(loaded["hierarchy"], events)
        check_rows(hierarchy, "edges between events that are described in one language")
        collator.num_parents = hierarchy.num_parents
        skipped |= hierarchy.skipped
        told["pairs_of_parent_and_child"] = len(hierarchy)
        if "mentions" in names:
            collator.hierarchy = hierarchy
    if streaming and "mentions" in names:
        streamed = MentionStream(data, builder, settings, events)
        rows = streamed.pairs(seed)
        collator.num_gold = streamed.num_gold
        skipped |= streamed.skipped
        told["pairs_of_mention_and_event"] = len(streamed)
    elif "mentions" in names:
        mentions, drawn = draw_mentions(loaded["mentions"], views, seed)
        told |= drawn
        rows = make_linking_pairs(mentions, events, settings)
        collator.num_gold = rows.num_gold
        skipped |= rows.skipped
        told["pairs_of_mention_and_event"] = len(rows)
        told["mentions_cut_themselves"] = mentions_too_long(rows, tokeniser)
        if views["hard_negatives"]:
            name = views.get("retriever")
            retriever = load_retriever(name) if name else as_retriever(head.event_grounding, tokenizer)
            retrieved = retrieve_candidates(retriever, rows, events, views["candidates"])
            collator.wrong = WrongCandidates(rows, events, retrieved)
            collator.hard_negatives = views["hard_negatives"]
            told["pairs_without_wrong_candidate"] = collator.wrong.without

    def calibrate(trained: EventGroundingForPreTraining) -> Calibration:
        held_out = validation_pairs(data, builder, settings, events, seed)
        return calibrate_bi_encoder(held_out, events, trained, tokenizer)

    description = describe_data(data, names, builder, settings, skipped=skipped, told=told)
    # Without hard negatives, only the events of other rows are negatives of a mention.
    least_rows = 2 if "mentions" in names and collator.wrong is None else 1
    return TrainingData(
        rows,
        None,
        collator,
        description,
        calibrate=calibrate if "mentions" in names else None,
        least_rows=least_rows,
    )


TRAINING = MethodTraining(
    prepare=_prepare,
    streams=True,
    view_types={
        "hierarchy_pairs": Count,
        "hard_negatives": Number,
        "retriever": str | None,
        "candidates": Count,
        **DRAW_SETTING_TYPES,
    },
    meanings=packaged_yaml(__file__, "meanings.yaml")["event_grounding"],
)


def _prepare_cross_encoder(
    recipe: Recipe,
    data: str | None,
    tokenizer: PreTrainedTokenizerBase,
    head: EventGroundingForSequenceClassification,
    seed: int,
) -> TrainingData:
    """Load mentions and events, retrieve the candidates, and make the collator."""
    views = {"candidates": 8, "missed_gold": "add", **recipe.views}
    builder, _, settings = CROSS_ENCODER.training_dataset(recipe)
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
    names = ("mentions", "events")
    loaded = load_training_splits(data, names[streaming:], builder, settings)
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
        held_out = validation_pairs(data, builder, settings, events, seed)
        return calibrate_cross_encoder(held_out, events, name, trained, tokeniser)

    description = describe_data(data, names, builder, settings, skipped=skipped, told=told)
    collator = EventGroundingCrossCollator(tokeniser, number)
    # A mention's negatives are its own candidates.
    return TrainingData(rows, None, collator, description, calibrate=calibrate, least_rows=1)


CROSS_TRAINING = MethodTraining(
    prepare=_prepare_cross_encoder,
    streams=True,
    view_types={
        "retriever": str | None,
        "candidates": Annotated[int, Range(least=2)],
        "missed_gold": MissedGold,
        **DRAW_SETTING_TYPES,
    },
    meanings=packaged_yaml(__file__, "meanings.yaml")["event_grounding_cross"],
)
