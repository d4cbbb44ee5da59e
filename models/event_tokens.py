"""What a model reads of an event: its text within the length that it takes, and the roles and words in it."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

Role = Literal["subject", "predicate", "object"]

ROLES: tuple[Role, ...] = ("subject", "predicate", "object")
"""The order of the roles in `role_masks`, whatever their order in the text."""

ORDERS: dict[str, tuple[Role, ...]] = {
    "subject_predicate_object": ROLES,
    "predicate_first": ("predicate", "subject", "object"),
}
"""The order in which the roles become text, by the configuration's `event_order`."""

NO_LIMIT = 1_000_000
"""A tokenizer that knows no limit says a number far above this one."""


def text_of(item: str | Mapping[str, str], order: str) -> str:
    """The text of an item: a string as it is, an event's roles joined by one blank, absent ones skipped.

    Args:
        item: a text, or an event with the strings `subject`, `predicate` and `object`, "" for an absent one.
        order: a key of `ORDERS`.

    Raises:
        ValueError: it is neither, lacks a role or has no word.
    """
    accepted = "a text, or an event with the strings subject, predicate and object, '' for an absent one"
    if isinstance(item, Mapping):
        if any(not isinstance(item.get(role), str) for role in ROLES):
            raise ValueError(f"found {dict(item)!r}; accepted: {accepted}")
        text = " ".join(item[role] for role in ORDERS[order] if item[role])
    elif isinstance(item, str):
        text = item
    else:
        raise ValueError(f"found {item!r}; accepted: {accepted}")
    if not text.strip():
        raise ValueError(f"found {item!r}, which has no word; accepted: {accepted}")
    return text


def longest_input(tokenizer, config, further_limit: int | None = None) -> int:
    """Tokens that a text may have at most: the least of what tokenizer, configuration and others say.

    Args:
        tokenizer: the tokenizer.
        config: the configuration of the encoder.
        further_limit: what others say; None where they say nothing.
    """
    limits = [limit for limit in (further_limit, tokenizer.model_max_length) if limit]
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        # RoBERTa's family counts positions from behind the padding id, and its tokenizers say the limit.
        limits.append(positions)
    known = [limit for limit in limits if limit < NO_LIMIT]
    return int(min(known)) if known else 512


def role_masks(events: Sequence[Any], order: str, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Which tokens belong to each role: those that share a character with it.

    Args:
        events: E events.
        order: a key of `ORDERS`.
        starts: first character of each token in its event's text, `(E, L)`.
        ends: the end of each, `(E, L)`; that of a special token is its start.

    Returns:
        `(E, 3, L)`, bool, in the order of `ROLES`.
    """
    roles = ORDERS[order]
    lengths = np.array([[len(event[role]) for role in roles] for event in events], dtype=np.int64)
    # One blank after every role that is there.
    role_ends = np.cumsum(lengths + (lengths > 0), axis=1) - (lengths > 0)
    columns = [roles.index(role) for role in ROLES]
    first, last = ((role_ends - lengths)[:, columns], role_ends[:, columns])
    shared = np.minimum(ends[:, None], last[..., None]) > np.maximum(starts[:, None], first[..., None])
    return shared & (ends > starts)[:, None]


def words_of(text: str) -> list[str]:
    """The words of a text: what stands between blanks, whatever its case."""
    return text.casefold().split(" ")


def word_index(texts: Sequence[str], starts: np.ndarray, ends: np.ndarray, ids: dict[str, int]) -> np.ndarray:
    """The word of each token.

    Args:
        texts: E texts.
        starts: first character of each token in its text, `(E, L)`.
        ends: the end of each, `(E, L)`; that of a special token is its start.
        ids: the number of each word that is known; new words are added.

    Returns:
        `(E, L)`; -1 for special tokens, padding and blanks.
    """
    words = np.full(starts.shape, -1, dtype=np.int64)
    for row, text in enumerate(texts):
        names = np.array([ids.setdefault(word, len(ids)) for word in words_of(text)])
        blanks_before = np.cumsum([0, *(character == " " for character in text)])
        filled = np.flatnonzero(ends[row] > starts[row])
        # By its end, since a token may begin with the blank before its word.
        words[row, filled] = names[blanks_before[ends[row, filled]]]
    return words
