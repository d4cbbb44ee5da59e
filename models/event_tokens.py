"""Tokenised events: the model's maximum length, and the roles and words of their tokens."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from .event_items import ORDERS, ROLES

NO_LIMIT = 1_000_000
"""A tokenizer without a limit has a `model_max_length` far above this one."""


def longest_input(tokenizer, config, further_limit: int | None = None) -> int:
    """Maximum number of tokens of a text: the lowest limit of tokenizer, configuration and caller."""
    limits = [limit for limit in (further_limit, tokenizer.model_max_length) if limit]
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        # RoBERTa's family counts positions from after the padding id; its tokenizers have the correct limit.
        limits.append(positions)
    known = [limit for limit in limits if limit < NO_LIMIT]
    return int(min(known)) if known else 512


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
