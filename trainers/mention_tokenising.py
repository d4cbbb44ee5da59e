"""Event mentions to tensors: the sentence, and where in it the trigger stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from transformers import PreTrainedTokenizerBase

from eventformers.models.mention_tokens import TRIGGER_MARKERS, Mention, mark_trigger
from eventformers.trainers.marker_tokens import check_marker_tokens
from eventformers.trainers.tokenising import tokenise


class TokenisedMentions(NamedTuple):
    """What a model reads of mentions.

    Args:
        input_ids: `(mentions, length)`.
        attention_mask: `(mentions, length)`.
        trigger_mask: true for a token of the trigger, `(mentions, length)`.
        truncated: number of sentences that were cut.
        lost_triggers: number of mentions whose trigger was cut off.
    """

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    trigger_mask: torch.Tensor
    truncated: int
    lost_triggers: int


def check_markers(tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a tokenizer that would split the tokens around a trigger.

    Raises:
        EventformersError: it lacks one of them.
    """
    check_marker_tokens(tokenizer, TRIGGER_MARKERS, "the trigger")


def tokenise_mentions(
    tokenizer: PreTrainedTokenizerBase,
    mentions: Sequence[Mention],
    max_seq_length: int,
    *,
    marks_trigger: bool = False,
) -> TokenisedMentions:
    """Tokenise mentions to tensors of equal width.

    Args:
        tokenizer: a fast tokenizer.
        mentions: the mentions.
        max_seq_length: tokens of a sentence beyond this are cut.
        marks_trigger: set every trigger between `TRIGGER_MARKERS`.

    Returns:
        The tensors, and the counts of what was cut.

    Raises:
        EventformersError: triggers are to be marked, and the tokenizer has no tokens for it.
    """
    if marks_trigger:
        check_markers(tokenizer)
        mentions = [mark_trigger(mention) for mention in mentions]
    encoded, truncated = tokenise(
        tokenizer, [mention.text for mention in mentions], max_seq_length, return_offsets_mapping=True
    )
    first, last = encoded["offset_mapping"].unbind(dim=-1)
    starts, ends = (torch.tensor([mention[place] for mention in mentions]).unsqueeze(1) for place in (1, 2))
    # A special token stands nowhere: its start is its end.
    trigger_mask = (first < ends) & (last > starts) & (first < last)
    lost = sum(
        mention.has_trigger and not found
        for mention, found in zip(mentions, trigger_mask.any(dim=1).tolist(), strict=True)
    )
    return TokenisedMentions(encoded["input_ids"], encoded["attention_mask"], trigger_mask, truncated, lost)
