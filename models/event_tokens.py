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


def shown(value: object) -> str:
    """A received value as an error repeats it: its `repr`, truncated to 200 characters."""
    try:
        text = repr(value).encode("utf-8", "backslashreplace").decode("utf-8")
    except (RecursionError, ValueError):
        return f"a {type(value).__name__} that cannot be printed"
    return text if len(text) <= 200 else f"{text[:200]}… ({len(text):,} characters)"


def checked_text(value: object, name: str, *, may_be_empty: bool = False) -> str:
    """Return a text as it is.

    Args:
        value: the text.
        name: what it is, for an error.
        may_be_empty: accept a text without a word, and None as the empty one.

    Raises:
        ValueError: it is no text, or has no word, or half of a surrogate pair.
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
    """Return a list or tuple of at least one as a list.

    Args:
        value: the list.
        name: what it is, for an error.
        of: what it holds, for an error.

    Raises:
        ValueError: it is of another type, such as a text, or empty.
    """
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)) or not len(value):
        raise ValueError(f"found {shown(value)} as {name}; accepted: a list of at least one {of}")
    return list(value)


def checked_mapping(value: object, accepted: str) -> Mapping[str, Any]:
    """Return a mapping as it is.

    Args:
        value: the mapping.
        accepted: what it holds, for an error.

    Raises:
        ValueError: it is of another type.
    """
    if not isinstance(value, Mapping):
        raise ValueError(f"found {shown(value)}, a {type(value).__name__}; accepted: {accepted}")
    return value


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
