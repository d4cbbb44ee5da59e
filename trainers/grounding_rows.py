"""Training rows of event grounding: mentions with gold events, and events with parents."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from datasets import Dataset
from torch.utils.data import Dataset as TorchDataset

from eventformers.datasets_scripts.known_pairs import PADDING, Codes, grouped, padded, text_column
from eventformers.inference.grounding.knowledge_base import EventTexts
from eventformers.models.grounding_tokens import EventText, MentionText

_MENTION_COLUMNS = ["context_left", "mention", "context_right", "title", "date"]


Row: TypeAlias = dict[str, Any]
"""A training row, by the names that the collators read."""

MissedGold: TypeAlias = Literal["add", "skip"]
"""The handling of gold events that were not retrieved."""


class LinkingPairs(TorchDataset):
    """Pairs of a mention and one of its gold events (Ou et al., 2023, section 5.1).

    A gold event without a text in the language of the candidates makes no pair. It is still gold if another
    mention brings it into the batch.

    Args:
        mentions: rows of `EventHierarchies`, config `mentions`.
        language: the language of all candidates; None takes that of the mention.

    Attributes:
        mentions: the columns of the mentions that make their texts.
        spoken: the code of the language of each mention's candidates, `(mentions,)`; -1 for a language
            without events.
        mention_of: the mention of each pair, in ascending order, `(pairs,)`.
        event_row: the row of each pair's event, `(pairs,)`.
        num_gold: maximum number of gold events of a mention.
        skipped: number of skipped mentions and gold events, by reason.
    """

    def __init__(self, mentions: Dataset, events: EventTexts, language: str | None = None) -> None:
        self.mentions = mentions.select_columns(_MENTION_COLUMNS)
        self._events = events
        table = mentions.select_columns(["language", "event_ids"]).with_format("arrow")[:]
        gold = table.column("event_ids").combine_chunks()
        lengths = gold.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
        mention, numbers = np.repeat(np.arange(len(lengths)), lengths), events.numbers(gold.flatten())
        spoken = text_column(table, "language")
        if language is not None:
            spoken = pa.array([language] * len(spoken), type=pa.large_string())
        self.spoken = events.language_codes(spoken)
        rows = events.rows(numbers, self.spoken[mention])
        described = rows != PADDING
        self.mention_of, self.event_row = mention[described], rows[described]
        known = numbers != PADDING
        self._starts, self._gold = grouped(mention[known], numbers[known], len(lengths), events.num_events)
        self.num_gold = int(np.diff(self._starts).max(initial=1))
        self.skipped = {
            "gold_event_without_text_in_the_language": int((~described).sum()),
            "mention_without_gold_event_in_the_language": len(lengths) - len(np.unique(self.mention_of)),
        }

    def __len__(self) -> int:
        return len(self.mention_of)

    def languages(self) -> Codes:
        """Return the codes of the languages in which mentions have candidates, in ascending order."""
        return np.unique(self.spoken[self.mention_of])

    def gold_numbers(self) -> Codes:
        """Return the numbers of all gold events of each mention, `(mentions, num_gold)`, padded with -1."""
        starts = self._starts
        return padded([self._gold[start:end] for start, end in pairwise(starts)], self.num_gold)

    def __getitem__(self, index: int) -> Row:
        """Return a mention with one of its gold events and its number, and the numbers of all of them."""
        mention, event_row = int(self.mention_of[index]), int(self.event_row[index])
        start, end = self._starts[mention : mention + 2]
        return {
            "row": index,
            "mention": MentionText.from_row(self.mentions[mention]),
            "event": self._events[event_row],
            "event_id": int(self._events.number_of[event_row]),
            "gold_event_ids": self._gold[start:end],
        }


class CandidateRows(TorchDataset):
    """Mentions with their candidates, including gold events (Ou et al., 2023, section 5.1).

    Gold events that were not retrieved replace the wrong candidates with the lowest scores, or their mentions
    are left out.

    Args:
        retrieved: rows of `events` retrieved for each mention, best first, `(mentions, candidates)`, padded
            with -1.
        missed_gold: `add` adds missed gold events, as in the paper; `skip` leaves out their mentions.

    Attributes:
        gold: number of gold events of all mentions, and of the retrieved ones.
        skipped: number of skipped mentions and gold events, by reason.
    """

    def __init__(
        self, pairs: LinkingPairs, events: EventTexts, retrieved: Codes, missed_gold: MissedGold = "add"
    ) -> None:
        self._pairs, self._events, self._retrieved = pairs, events, retrieved
        self._mention, starts, gold = np.unique(pairs.mention_of, return_index=True, return_counts=True)
        found = (retrieved[pairs.mention_of] == pairs.event_row[:, None]).any(axis=1)
        self.gold = {"gold_events": len(pairs), "gold_events_retrieved": int(found.sum())}
        missed = np.zeros(len(gold), dtype=bool)
        if missed_gold == "skip":
            missed = np.add.reduceat(found, starts, dtype=np.int64) < gold
        beyond = np.maximum(gold - retrieved.shape[1], 0)
        self.skipped = pairs.skipped | {
            "gold_event_beyond_the_candidates": int(beyond[~missed].sum()),
            "mention_with_missed_gold_event": int(missed.sum()),
        }
        self._mention = self._mention[~missed]
        self._gold = np.stack([starts, starts + gold], axis=-1)[~missed]

    def __len__(self) -> int:
        return len(self._mention)

    def __getitem__(self, index: int) -> Row:
        """Return a mention with its candidates, and which of them are gold.

        The gold events are first, atomic first, then the wrong candidates, best first.
        """
        mention = int(self._mention[index])
        retrieved = self._retrieved[mention]
        start, end = self._gold[index]
        gold = self._pairs.event_row[start:end]
        others = retrieved[(retrieved != PADDING) & ~np.isin(retrieved, gold)]
        gold = gold[: len(retrieved)]
        others = others[: len(retrieved) - len(gold)]
        return {
            "row": index,
            "mention": MentionText.from_row(self._pairs.mentions[mention]),
            "candidates": [self._events[row] for row in (*gold.tolist(), *others.tolist())],
            "is_gold": [True] * len(gold) + [False] * len(others),
        }


class WrongCandidates:
    """Wrong candidates of each mention, used as hard negatives.

    Attributes:
        without: number of pairs whose mention has no wrong candidate.
    """

    def __init__(self, pairs: LinkingPairs, events: EventTexts, retrieved: Codes) -> None:
        self._pairs, self._events = pairs, events
        numbers = np.where(retrieved == PADDING, PADDING, events.number_of[retrieved])
        gold = pairs.gold_numbers()
        is_gold = (numbers[:, :, None] == gold[:, None, :]).any(axis=-1)
        self._wrong = np.where(is_gold, PADDING, retrieved)
        self.without = int((self._wrong[pairs.mention_of] == PADDING).all(axis=1).sum())

    def draw(self, pair: int, number: int, generator: np.random.Generator) -> list[tuple[EventText, int]]:
        """Draw wrong candidates of a pair's mention, with replacement only if there are too few.

        Args:
            pair: the row of `pairs`.

        Returns:
            The text and the number of each; empty if the mention has none.
        """
        found = self._wrong[self._pairs.mention_of[pair]]
        wrong = found[found != PADDING]
        if not len(wrong):
            return []
        drawn = generator.choice(wrong, number, replace=len(wrong) < number).tolist()
        return [(self._events[row], int(self._events.number_of[row])) for row in drawn]


class HierarchyPairs(TorchDataset):
    """Pairs of a parent and its child, one for each language that describes both.

    Args:
        edges: rows of `EventHierarchies`, config `hierarchy`.

    Attributes:
        num_parents: maximum number of parents of an event.
        skipped: number of skipped edges, by reason.
    """

    def __init__(self, edges: Dataset, events: EventTexts) -> None:
        self._events = events
        table = edges.select_columns(["child_id", "parent_id"]).with_format("arrow")[:]
        child, parent = (events.numbers(text_column(table, name)) for name in ("child_id", "parent_id"))
        pairs = []
        for language in range(len(events.languages)):
            codes = np.full(len(child), language, dtype=np.int64)
            pairs.append(np.stack([events.rows(parent, codes), events.rows(child, codes)], axis=-1))
        # All languages of an edge are adjacent.
        rows = np.stack(pairs, axis=1)
        described = (rows != PADDING).all(axis=-1)
        self._rows = rows[described]
        known = (child != PADDING) & (parent != PADDING)
        self._starts, self._parents = grouped(
            child[known], parent[known], events.num_events, events.num_events
        )
        self.num_parents = int(np.diff(self._starts).max(initial=1))
        self.skipped = {"edge_without_text_in_a_common_language": int((~described.any(axis=1)).sum())}

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Row:
        """Return an event with one of its parents and its number, and the numbers of all of them."""
        parent, child = (int(row) for row in self._rows[index])
        number = self._events.number_of[child]
        start, end = self._starts[number : number + 2]
        return {
            "row": index,
            "parent": self._events[parent],
            "child": self._events[child],
            "parent_id": int(self._events.number_of[parent]),
            "known_parent_ids": self._parents[start:end],
        }
