"""The processor of HeterEvent: events with their roles and words, chains, and chains with choices."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import BatchEncoding

from .event_items import ORDERS, ROLES, checked_list, items_of, read_item, text_of
from .processing_events import EventProcessor, returns_tensors

Event = Mapping[str, str]
_PADDING = -1


class HeterEventProcessor(EventProcessor):
    """Converts events, chains and questions to the inputs of HeterEvent.

    Example:
        processor = AutoProcessor.from_pretrained(name)
        question = {"context": ["police chased thief"], "choices": ["thief ran", "rain fell"]}
        AutoModelForMultipleChoice.from_pretrained(name)(**processor(question)).logits

    Args:
        tokenizer: the tokenizer of the model, a fast one.
    """

    @returns_tensors
    def __call__(self, inputs=None, *, chains=None, text=None, **settings) -> BatchEncoding:
        """Convert events, chains or questions to tensors.

        Args:
            inputs: a text, an event, or a list of both; or a question with `context` and `choices` and, if
                known, `label`, like a row of the config `mcnc`, or a list of questions. A text is an event
                with only a predicate.
            chains: lists of events instead of `inputs`.
            text: see `EventProcessor`.
            **settings: arguments of the tokenizer, such as `max_length`.

        Returns:
            `input_ids` and `attention_mask` `(E, L)`, `role_masks` `(E, 3, L)` and `word_index` `(E, L)`, the
            inputs of `HeterEventModel`. Of chains also `chain_index`, `(E,)`. Of questions the distinct
            events, and `chains` `(C, n)`, `choices` `(C, k)` and, if every question has one, `labels` `(C,)`,
            the inputs of `HeterEventForMultipleChoice`.

        Raises:
            ValueError: an item is neither a text nor an event or has no word, or a list is empty.
        """
        if text is not None:
            return super().__call__(text=text, **settings)
        if chains is not None:
            listed = checked_list(chains, "chains", "chain")
            groups = [checked_list(chain, "a chain", "text or event") for chain in listed]
            encoded = self.encode([event for chain in groups for event in chain], **settings)
            lengths = torch.tensor([len(chain) for chain in groups])
            encoded["chain_index"] = torch.arange(len(groups)).repeat_interleave(lengths)
            return encoded
        items = items_of(inputs)
        if not all(isinstance(item, Mapping) and {"context", "choices"} <= item.keys() for item in items):
            return self.encode(items, **settings)
        numbers: dict[tuple[str, ...], int] = {}
        rows: dict[str, list[Any]] = {"chains": [], "choices": []}
        for question in items:
            for name, column in zip(("context", "choices"), rows.values(), strict=True):
                events = map(_event_of, checked_list(question[name], name, "text or event"))
                keys = [tuple(event.values()) for event in events]
                column.append(torch.tensor([numbers.setdefault(key, len(numbers)) for key in keys]))
        encoded = self.encode(list(numbers), **settings)
        for name, column in rows.items():
            encoded[name] = pad_sequence(column, batch_first=True, padding_value=_PADDING)
        if all(question.get("label") is not None for question in items):
            encoded["labels"] = torch.tensor([question["label"] for question in items])
        return encoded

    def encode(self, items: Sequence[object], **settings) -> BatchEncoding:
        """Convert a list of texts and events to tensors; see `__call__`."""
        return self.events([_event_of(item) for item in items], **settings)

    def events(self, events: Sequence[Any], words: dict[str, int] | None = None, **settings) -> BatchEncoding:
        """Convert events to tensors, with the roles and the word of each token.

        A token belongs to each role that it shares a character with: this covers roles of several words,
        tokens with a leading blank and words of several pieces. Words are separated by blanks and ignore
        case.

        Args:
            events: E events, each with all of its roles, "" for an absent one.
            words: numbers of words from earlier calls, extended by new words; None starts from 0.
            **settings: arguments of the tokenizer.

        Returns:
            `input_ids` and `attention_mask` `(E, L)`; `role_masks` `(E, 3, L)` bool, in the order of `ROLES`,
            all false for an absent or truncated role; `word_index` `(E, L)`, the word of each token, numbered
            by first occurrence, -1 for a token without a word.
        """
        texts = [text_of(event, self.event_order) for event in events]
        encoded = self.tokenise(texts, return_offsets_mapping=True, **settings)
        offsets = encoded.pop("offset_mapping").numpy()
        starts, ends = offsets[..., 0], offsets[..., 1]
        words = {} if words is None else words
        encoded["role_masks"] = torch.from_numpy(role_masks(events, self.event_order, starts, ends))
        encoded["word_index"] = torch.from_numpy(word_index(texts, starts, ends, words))
        return encoded


def _event_of(item: object) -> Event:
    """Read an event; a text is an event with only a predicate."""
    found = read_item(item)
    return {**dict.fromkeys(ROLES, ""), "predicate": found} if isinstance(found, str) else found


def role_masks(events: Sequence[Any], order: str, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Assign tokens to roles: a token belongs to a role if it shares a character with it, `(E, 3, L)`, bool,
    in the order of `ROLES`.

    Args:
        order: a key of `ORDERS`.
        starts: first character of each token in its event's text, `(E, L)`.
        ends: end of each token, `(E, L)`; the end of a special token is its start.
    """
    roles = ORDERS[order]
    lengths = np.array([[len(event[role]) for role in roles] for event in events], dtype=np.int64)
    # One blank follows every present role.
    role_ends = np.cumsum(lengths + (lengths > 0), axis=1) - (lengths > 0)
    columns = [roles.index(role) for role in ROLES]
    first, last = ((role_ends - lengths)[:, columns], role_ends[:, columns])
    shared = np.minimum(ends[:, None], last[..., None]) > np.maximum(starts[:, None], first[..., None])
    return shared & (ends > starts)[:, None]


def words_of(text: str) -> list[str]:
    """Case-fold a text and split it into words at blanks."""
    return text.casefold().split(" ")


def word_index(texts: Sequence[str], starts: np.ndarray, ends: np.ndarray, ids: dict[str, int]) -> np.ndarray:
    """Assign each token the number of its word, `(E, L)`; -1 for special tokens, padding and blanks.

    The places of tokens are those of `role_masks`. `ids` has the number of each known word; new words are
    added.
    """
    words = np.full(starts.shape, -1, dtype=np.int64)
    for row, text in enumerate(texts):
        names = np.array([ids.setdefault(word, len(ids)) for word in words_of(text)])
        blanks_before = np.cumsum([0, *(character == " " for character in text)])
        filled = np.flatnonzero(ends[row] > starts[row])
        # By the end of the token, since a token may begin with the blank before its word.
        words[row, filled] = names[blanks_before[ends[row, filled]]]
    return words
