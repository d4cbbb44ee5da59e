"""Data preparation shared by the bi-encoder and the cross-encoder of event grounding."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from datasets import Dataset, DatasetDict, IterableDataset
from transformers import PreTrainedTokenizerBase

from eventformers.datasets_scripts.known_pairs import codes_of, text_column
from eventformers.datasets_scripts.loading import built_report, load_built
from eventformers.errors import EventformersError
from eventformers.inference.grounding.encoding import GroundingTokeniser
from eventformers.models.grounding_tokens import TAGS, MentionText
from eventformers.models.modeling_base import EventPreTrainedModel
from eventformers.models.text_prompts import prompt_of, prompt_tokens
from eventformers.strict import Count
from eventformers.trainers.data_reports import report_with, with_counts
from eventformers.trainers.grounding_rows import CandidateRows, EventTexts, LinkingPairs
from eventformers.trainers.method import add_marker_tokens, check_train_split, indexed_stream, is_streamed
from eventformers.trainers.recipes import Recipe

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
