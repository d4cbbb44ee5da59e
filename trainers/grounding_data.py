"""Data and training rows of event grounding: mentions with gold events, and events with parents."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Sized
from itertools import pairwise
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset, DatasetDict, IterableDataset
from torch.utils.data import Dataset as TorchDataset
from transformers import PreTrainedTokenizerBase

from eventformers.datasets_scripts.known_pairs import PADDING, Codes, codes_of, grouped, padded, text_column
from eventformers.datasets_scripts.loading import built_report, load_built
from eventformers.errors import EventformersError
from eventformers.inference.grounding.encoding import GroundingTokeniser
from eventformers.inference.grounding.knowledge_base import EventTexts
from eventformers.models.modeling_base import EventPreTrainedModel
from eventformers.models.processing_event_grounding import TAGS, EventText, MentionText
from eventformers.models.text_prompts import prompt_of, prompt_tokens
from eventformers.strict import Count
from eventformers.trainers.data_reports import report_with, with_counts
from eventformers.trainers.method import add_marker_tokens, check_train_split, indexed_stream, is_streamed
from eventformers.trainers.recipes import Recipe

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


DRAW_SETTING_TYPES = {"mentions_per_event": Count | None, "max_mentions": Count | None}
"""The settings of `draw_mentions`."""

VALIDATION_MENTIONS = 1_000
"""Maximum number of validation mentions: more take minutes. Samples of so many choose thresholds of a
cross-encoder between 0.80 and 0.93 (docs/event_grounding.md)."""

_BLOCK_MENTIONS = 1_000
_SEARCHED_MENTIONS = 64
_LINKED = "mentions whose events are described in the language of the task"

logger = logging.getLogger(__name__)


def load_training_splits(
    data: str | None, names: Sequence[str], builder: str, settings: Mapping[str, Any]
) -> dict[str, Dataset]:
    """Load the training splits of configs of a builder.

    Raises:
        EventformersError: a config has no split `train`, or cannot be built.
    """
    loaded = {}
    for name in names:
        splits = cast(DatasetDict, load_built(data, name, builder=builder, **settings))
        check_train_split(f"{data}, {name}", splits)
        loaded[name] = splits["train"]
    return loaded


def make_tokeniser(
    tokenizer: PreTrainedTokenizerBase, head: EventPreTrainedModel, *, reads_pairs: bool = False
) -> GroundingTokeniser:
    """Add the tags to an encoder and its tokenizer, and make a tokeniser of mentions and events.

    Args:
        reads_pairs: whether the encoder reads a mention and an event as one text.

    Raises:
        EventformersError: the tokenizer has no tokens for the start and end of a text, or the configuration
            allows longer texts than the encoder.
    """
    config = head.config
    of_mention, of_event = (
        len(prompt_tokens(tokenizer, prompt_of(config.prompts, kind))) for kind in ("query", "document")
    )
    longest = {
        "mention_tokens": config.mention_tokens + of_mention,
        "event_tokens": config.event_tokens + of_event,
    }
    if reads_pairs:
        longest = {
            "mention_tokens + event_tokens - 1": config.mention_tokens + of_mention + config.event_tokens - 1
        }
    positions = getattr(config.encoder_config, "max_position_embeddings", None) or tokenizer.model_max_length
    limit = min(tokenizer.model_max_length, positions)
    for name, tokens in longest.items():
        if tokens > limit:
            raise EventformersError(
                f"setting {name}: found {tokens}, prompt included; accepted: {limit} or less, the maximum of "
                "the encoder"
            )
    add_marker_tokens(tokenizer, head, TAGS)
    return GroundingTokeniser.of(tokenizer, config)


def draw_mentions(mentions: Dataset, views: Mapping[str, Any], seed: int) -> tuple[Dataset, dict[str, int]]:
    """Draw training mentions without replacement, keeping their order.

    Args:
        mentions: rows of `EventHierarchies`, config `mentions`.
        views: views of the recipe. `mentions_per_event` limits the mentions of each atomic event, then
            `max_mentions` limits all mentions. None or absent means no limit.

    Returns:
        The mentions, and their number as `mentions_drawn`, which is 0 if all are taken.
    """
    generator = np.random.default_rng(seed)
    drawn = np.arange(len(mentions))
    if (per_event := views.get("mentions_per_event")) is not None:
        gold = mentions.select_columns(["event_ids"]).with_format("arrow")[:].column("event_ids")
        lengths = pc.list_value_length(gold).to_numpy()
        # The first event is the atomic one; a mention without any has a number of its own.
        numbers = -1 - np.arange(len(lengths))
        ids = pc.list_element(gold.filter(pa.array(lengths > 0)), 0).combine_chunks().cast(pa.large_string())
        numbers[lengths > 0] = codes_of(ids, ids.unique())
        order = generator.permutation(drawn)
        events = pd.Series(numbers[order])
        drawn = np.sort(order[events.groupby(events).cumcount().to_numpy() < per_event])
    if (most := views.get("max_mentions")) is not None and most < len(drawn):
        drawn = np.sort(generator.choice(drawn, most, replace=False))
    if len(drawn) == len(mentions):
        return mentions, {"mentions_drawn": 0}
    return mentions.select(drawn), {"mentions_drawn": len(drawn)}


def make_linking_pairs(mentions: Dataset, events: EventTexts, settings: Mapping[str, Any]) -> LinkingPairs:
    """Pair mentions with gold events in the languages of the task.

    Raises:
        EventformersError: there is no pair.
    """
    pairs = LinkingPairs(mentions, events, linking_language(settings))
    check_rows(pairs, _LINKED)
    return pairs


class MentionStream(Sized):
    """A stream of mentions, counted in one pass.

    Attributes:
        num_gold: as in `LinkingPairs`.
        languages: as `LinkingPairs.languages`.
        skipped: as in `LinkingPairs`.

    Raises:
        EventformersError: there is no split `train`, or no pair.
    """

    def __init__(
        self, data: str | None, builder: str, settings: Mapping[str, Any], events: EventTexts
    ) -> None:
        splits = load_built(data, "mentions", builder=builder, streaming=True, **settings)
        check_train_split(f"{data}, mentions", splits)
        self._mentions = cast(IterableDataset, splits["train"])
        self._events, self._language = events, linking_language(settings)
        self._num_pairs, self.num_gold = 0, 1
        self.languages = np.zeros(0, dtype=np.int64)
        skipped: Counter[str] = Counter()
        for block in self._mentions.iter(_BLOCK_MENTIONS):
            pairs = self._pairs(block)
            self._num_pairs += len(pairs)
            self.num_gold = max(self.num_gold, pairs.num_gold)
            self.languages = np.union1d(self.languages, pairs.languages())
            skipped.update(pairs.skipped)
        self.skipped = dict(skipped)
        check_rows(self, _LINKED)

    def __len__(self) -> int:
        """Number of pairs."""
        return self._num_pairs

    def _pairs(self, block: Mapping[str, Any]) -> LinkingPairs:
        return LinkingPairs(Dataset.from_dict(dict(block)), self._events, self._language)

    def pairs(self, seed: int) -> IterableDataset:
        """Stream the rows of `LinkingPairs`, endlessly."""
        rows = self._map(self._mentions, lambda pairs: pairs, _BLOCK_MENTIONS)
        return indexed_stream(rows, seed)

    def candidates(
        self, candidates_of: Callable[[LinkingPairs], CandidateRows], seed: int
    ) -> IterableDataset:
        """Stream the rows of `CandidateRows`, endlessly."""
        # The shuffling buffer holds mentions without candidates, so that the first step does not wait for
        # the candidates of all of them.
        return indexed_stream(
            self._mentions, seed, lambda shuffled: self._map(shuffled, candidates_of, _SEARCHED_MENTIONS)
        )

    def _map(
        self,
        mentions: IterableDataset,
        rows_of: Callable[[LinkingPairs], LinkingPairs | CandidateRows],
        block_mentions: int,
    ) -> IterableDataset:
        def columns(block: Mapping[str, Any]) -> dict[str, list[Any]]:
            made = rows_of(self._pairs(block))
            rows = [dict(made[place]) for place in range(len(made))]
            names = [name for name in rows[0] if name != "row"] if rows else []
            return {name: [row[name] for row in rows] for name in names}

        names = self._mentions.column_names
        return mentions.map(columns, batched=True, batch_size=block_mentions, remove_columns=names)


def streams_mentions(
    recipe: Recipe, views: Mapping[str, Any], further: Mapping[str, tuple[object, object]]
) -> bool:
    """Return whether a recipe streams mentions, as `is_streamed` does.

    Args:
        further: settings that need all mentions, beside those of `draw_mentions`.
    """
    drawn = {name: (views.get(name), None) for name in DRAW_SETTING_TYPES}
    return is_streamed(
        recipe, "reads one mention after another, without the other mentions", {**further, **drawn}
    )


def linking_language(settings: Mapping[str, Any]) -> str | None:
    """Return the language of all candidates; None if candidates have the language of their mention."""
    return "en" if settings.get("task") == "crosslingual" else None


def check_rows(rows: Any, accepted: str) -> None:
    """Check that there are training rows; `accepted` describes data that make some, for the error.

    Args:
        rows: training rows with counts of skipped data by reason, `skipped`.

    Raises:
        EventformersError: there is no row.
    """
    if not len(rows):
        reasons = ", ".join(f"{count} {reason}" for reason, count in rows.skipped.items() if count)
        raise EventformersError(f"found no training rows ({reasons or 'no data'}); accepted: {accepted}")


def mentions_too_long(pairs: LinkingPairs, tokeniser: GroundingTokeniser) -> int:
    """Count the mentions that are truncated themselves, not only their context, and log a warning."""
    column = text_column(pairs.mentions.select_columns(["mention"]).with_format("arrow")[:], "mention")
    # Every token has at least one byte, so shorter texts fit.
    texts = column.filter(pc.greater(pc.binary_length(column), tokeniser.mention_tokens - 4)).to_pylist()
    cut = 0
    for start in range(0, len(texts), _BLOCK_MENTIONS):
        alone = [MentionText("", text, "") for text in texts[start : start + _BLOCK_MENTIONS]]
        cut += len(tokeniser.mentions(alone).cut.get("mention", ()))
    if cut:
        logger.warning(
            "%d of %d mentions are longer than mention_tokens=%d even without context and are truncated",
            *(cut, len(column), tokeniser.mention_tokens),
        )
    return cut


def describe_data(
    data: str | None,
    names: Sequence[str],
    builder: str,
    settings: Mapping[str, Any],
    *,
    skipped: Mapping[str, int],
    told: Mapping[str, int],
) -> dict[str, Any]:
    """Describe the data for the card: rows from the first config's report, sources and raw files from all.

    Args:
        names: the configs; the first is the config of the training rows.
        told: further counts; zeros are left out.
    """
    report = report_with(*(built_report(data, name, builder=builder, **settings) for name in names))
    return with_counts(report, skipped, {name: count or None for name, count in told.items()})


def validation_pairs(
    data: str | None, builder: str, settings: Mapping[str, Any], events: EventTexts, seed: int
) -> LinkingPairs | None:
    """Load the mentions of the validation split with their gold events, or a sample if there are many.

    Returns:
        The pairs; None if there is no split `validation`, or no mention in it has a gold event.
    """
    splits: DatasetDict = load_built(data, "mentions", builder=builder, **settings)  # type: ignore[assignment]
    if "validation" not in splits:
        return None
    mentions, _ = draw_mentions(splits["validation"], {"max_mentions": VALIDATION_MENTIONS}, seed)
    pairs = LinkingPairs(mentions, events, linking_language(settings))
    return pairs if len(pairs) else None
