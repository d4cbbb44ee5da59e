"""Tokenisation of event mentions, with the position of the trigger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from transformers import PreTrainedTokenizerBase

from eventformers.models.mention_tokens import TRIGGER_MARKERS, Mention, mark_trigger, trigger_mask
from eventformers.trainers.marker_tokens import check_marker_tokens
from eventformers.trainers.tokenising import tokenise


class TokenisedMentions(NamedTuple):
    """Tokenised mentions.

    Args:
        input_ids: `(mentions, length)`.
        attention_mask: `(mentions, length)`.
        trigger_mask: true for a token of the trigger, `(mentions, length)`.
        truncated: number of truncated sentences.
        lost_triggers: number of mentions whose trigger was truncated.
    """

    input_ids: torch.Tensor
    attention_mask: torch.Tensor
    trigger_mask: torch.Tensor
    truncated: int
    lost_triggers: int


def check_markers(tokenizer: PreTrainedTokenizerBase) -> None:
    """Check that a tokenizer has the marker tokens of triggers.

    Raises:
        EventformersError: a token is missing.
    """
    check_marker_tokens(tokenizer, TRIGGER_MARKERS, "the trigger")


def tokenise_mentions(
    tokenizer: PreTrainedTokenizerBase,
    mentions: Sequence[Mention],
    max_seq_length: int,
    *,
    marks_trigger: bool = False,
    prompt: str = "",
) -> TokenisedMentions:
    """Tokenise mentions to tensors of equal width.

    Args:
        tokenizer: a fast tokenizer.
        mentions: the mentions.
        max_seq_length: maximum number of tokens of a sentence.
        marks_trigger: put `TRIGGER_MARKERS` around every trigger.
        prompt: text before each sentence.

    Returns:
        The tensors, and the counts of truncated sentences and triggers.

    Raises:
        EventformersError: `marks_trigger` is true, and the tokenizer lacks the marker tokens.
    """
    if marks_trigger:
        check_markers(tokenizer)
        mentions = [mark_trigger(mention) for mention in mentions]
    encoded, truncated = tokenise(
        tokenizer,
        [mention.text for mention in mentions],
        max_seq_length,
        prompt,
        return_offsets_mapping=True,
    )
    found = trigger_mask(mentions, encoded["offset_mapping"])
    lost = sum(
        mention.has_trigger and not is_found
        for mention, is_found in zip(mentions, found.any(dim=1).tolist(), strict=True)
    )
    return TokenisedMentions(encoded["input_ids"], encoded["attention_mask"], found, truncated, lost)
