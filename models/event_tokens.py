"""Tokenised events: their text within the model's maximum length, and the roles and words of their tokens."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

Role = Literal["subject", "predicate", "object"]

ROLES: tuple[Role, ...] = ("subject", "predicate", "object")
"""The order of the roles in `role_masks`, independent of their order in the text."""

ORDERS: dict[str, tuple[Role, ...]] = {
    "subject_predicate_object": ROLES,
    "predicate_first": ("predicate", "subject", "object"),
}
"""The order of the roles in the text, by the configuration's `event_order`."""

NO_LIMIT = 1_000_000
"""A tokenizer without a limit has a `model_max_length` far above this one."""


def shown(value: object) -> str:
    """Format a received value for an error message: its `repr`, truncated to 200 characters."""
    try:
        text = repr(value).encode("utf-8", "backslashreplace").decode("utf-8")
    except (RecursionError, ValueError):
        return f"a {type(value).__name__} that cannot be printed"
    return text if len(text) <= 200 else f"{text[:200]}… ({len(text):,} characters)"


def checked_text(value: object, name: str, *, may_be_empty: bool = False) -> str:
    """Check a text and return it.

    Args:
        value: the text.
        name: its name in the error message.
        may_be_empty: accept a text without a word, and None as the empty text.

    Raises:
        ValueError: it is not a text, has no word, or has half of a surrogate pair.
    """
    if may_be_empty and value is None:
        return ""
    if not isinstance(value, str) or not (may_be_empty or value.strip()):
        accepted = "a text" if may_be_empty else "a text with at least one word"
        raise ValueError(f"found {shown(value)} as {name}; accepted: {accepted}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"found half of a surrogate pair in {name} {shown(value)}; accepted: whole characters"
        ) from error
    return value


def checked_list(value: object, name: str, of: str) -> list[Any]:
    """Check a non-empty list or tuple and return it as a list.

    Args:
        value: the list.
        name: its name in the error message.
        of: what it contains, for the error message.

    Raises:
        ValueError: it has another type, such as a text, or is empty.
    """
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)) or not len(value):
        raise ValueError(f"found {shown(value)} as {name}; accepted: a list of at least one {of}")
    return list(value)


def checked_mapping(value: object, accepted: str) -> Mapping[str, Any]:
    """Check a mapping and return it.

    Args:
        value: the mapping.
        accepted: what it contains, for the error message.

    Raises:
        ValueError: it has another type.
    """
    if not isinstance(value, Mapping):
        raise ValueError(f"found {shown(value)}, a {type(value).__name__}; accepted: {accepted}")
    return value


def text_of(item: str | Mapping[str, str], order: str) -> str:
    """The text of an item: a string as it is, or an event's roles joined by one blank, without absent ones.

    Args:
        item: a text, or an event with the strings `subject`, `predicate` and `object`, "" for an absent one.
        order: a key of `ORDERS`.

    Raises:
        ValueError: it is neither, lacks a role or has no word.
    """
    accepted = "a text, or an event with the strings subject, predicate and object, '' for an absent one"
    if isinstance(item, Mapping):
        if any(not isinstance(item.get(role), str) for role in ROLES):
            raise ValueError(f"found {shown(dict(item))}; accepted: {accepted}")
        text = " ".join(item[role] for role in ORDERS[order] if item[role])
    elif isinstance(item, str):
        text = item
    else:
        raise ValueError(f"found {shown(item)}, a {type(item).__name__}; accepted: {accepted}")
    if not text.strip():
        raise ValueError(f"found {shown(item)}, which has no word; accepted: {accepted}")
    return checked_text(text, "the event")


def longest_input(tokenizer, config, further_limit: int | None = None) -> int:
    """Maximum number of tokens of a text: the lowest limit of tokenizer, configuration and caller.

    Args:
        tokenizer: the tokenizer.
        config: the configuration of the encoder.
        further_limit: limit of the caller; None if there is none.
    """
    limits = [limit for limit in (further_limit, tokenizer.model_max_length) if limit]
    positions = getattr(config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        # RoBERTa's family counts positions from after the padding id; its tokenizers have the correct limit.
        limits.append(positions)
    known = [limit for limit in limits if limit < NO_LIMIT]
    return int(min(known)) if known else 512


def role_masks(events: Sequence[Any], order: str, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Assign tokens to roles: a token belongs to a role if it shares a character with it.

    Args:
        events: E events.
        order: a key of `ORDERS`.
        starts: first character of each token in its event's text, `(E, L)`.
        ends: end of each token, `(E, L)`; the end of a special token is its start.

    Returns:
        `(E, 3, L)`, bool, in the order of `ROLES`.
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
    """Assign each token the number of its word.

    Args:
        texts: E texts.
        starts: first character of each token in its text, `(E, L)`.
        ends: end of each token, `(E, L)`; the end of a special token is its start.
        ids: the number of each known word; new words are added.

    Returns:
        `(E, L)`; -1 for special tokens, padding and blanks.
    """
    words = np.full(starts.shape, -1, dtype=np.int64)
    for row, text in enumerate(texts):
        names = np.array([ids.setdefault(word, len(ids)) for word in words_of(text)])
        blanks_before = np.cumsum([0, *(character == " " for character in text)])
        filled = np.flatnonzero(ends[row] > starts[row])
        # By the end of the token, since a token may begin with the blank before its word.
        words[row, filled] = names[blanks_before[ends[row, filled]]]
    return words
