"""Tokenisation of events, with the role and the word of each token."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from transformers import PreTrainedTokenizerBase

from eventformers.datasets_scripts.document_splits import text_id
from eventformers.datasets_scripts.events import Event, EventOrder, event_text
from eventformers.errors import EventformersError, shown
from eventformers.models.event_items import ROLES
from eventformers.models.event_tokens import words_of
from eventformers.models.processing_heterevent import roles_and_words
from eventformers.trainers.tokenising import tokenise


def tokenise_events(
    tokenizer: PreTrainedTokenizerBase,
    events: Sequence[Event],
    max_seq_length: int,
    event_order: EventOrder = "subject_predicate_object",
    *,
    words: dict[str, int] | None = None,
    prompt: str = "",
) -> tuple[dict[str, torch.Tensor], int]:
    """Tokenise each event as a text of its own, with the role and the word of every token.

    A token belongs to each role that it shares a character with: this covers roles of several words, tokens
    with a leading blank and words of several pieces. Words are separated by blanks and ignore case; equal
    words have the same id in all events of the call.

    Args:
        tokenizer: a fast tokenizer.
        events: E events; each has a word in at least one role.
        max_seq_length: maximum number of tokens of an event.
        event_order: order of the roles in the text, a key of `EVENT_ORDERS`.
        words: ids of words from earlier calls, extended by new words; None starts from 0.
        prompt: text before each event; its tokens have no role and no word.

    Returns:
        `input_ids` and `attention_mask` `(E, L)`; `role_masks` `(E, 3, L)` bool, in the order of `ROLES`, all
        false for an absent or truncated role; `word_index` `(E, L)`, the word of each token, numbered by
        first occurrence, -1 for a token without a word. Then the number of truncated events.

    Raises:
        EventformersError: the tokenizer is not a fast one, or an event has no word.
    """
    if not tokenizer.is_fast:
        raise EventformersError(
            f"{type(tokenizer).__name__} does not return the offsets of tokens; accepted: a fast tokenizer, "
            "with a tokenizer.json"
        )
    texts = [event_text(event, event_order) for event in events]
    for place, text in enumerate(texts):
        if not text.strip():
            raise EventformersError(
                f"event {place}: found {shown(dict(events[place]))}; accepted: an event with a word in "
                "some role"
            )
    encoded, cut = tokenise(tokenizer, texts, max_seq_length, prompt, return_offsets_mapping=True)
    offsets = encoded["offset_mapping"].numpy()
    return {
        "input_ids": encoded["input_ids"],
        "attention_mask": encoded["attention_mask"],
        **roles_and_words(events, event_order, offsets, {} if words is None else words),
    }, cut


def event_keys(
    events: Sequence[Event], event_order: EventOrder = "subject_predicate_object"
) -> dict[str, torch.Tensor]:
    """Hash events and words, so that several processes recognise equal ones.

    Args:
        events: E events.
        event_order: order of the roles in the text, a key of `EVENT_ORDERS`.

    Returns:
        `event_keys` `(E,)`, and `word_keys` `(W,)` in the order of `tokenise_events`, each of 63 bits.
    """
    texts = [event_text(event, event_order) for event in events]
    words = dict.fromkeys(word for text in texts for word in words_of(text))
    return {
        "event_keys": torch.tensor([text_id(*(event[role] for role in ROLES)) for event in events]),
        "word_keys": torch.tensor([text_id(word) for word in words]),
    }
