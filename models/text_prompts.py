"""The limit of a text in tokens, and prompts: instructions before a text, one for each kind of text."""

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import torch

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


TEXT_KINDS = ("event", "query", "document")
"""Kinds of texts: `event`, a text or an event by itself; `query`, a text that asks for others, such as a
premise or a mention; `document`, a text that is looked for, such as an alternative or the description of an
event."""

_TOKENISING = threading.Lock()
if hasattr(os, "register_at_fork"):
    # A forked process has only the forking thread, which does not hold the lock.
    os.register_at_fork(before=_TOKENISING.acquire, after_in_parent=_TOKENISING.release)
    os.register_at_fork(after_in_child=_TOKENISING.release)


def prompt_of(prompts: Mapping[str, str] | None, kind: str | None = "event") -> str:
    """Return the prompt of a kind of text, of `TEXT_KINDS`; without one of its own, it has that of `event`.

    `prompts` are those of a model by kind; a text of the kind None takes none.
    """
    if kind is None:
        return ""
    if kind not in TEXT_KINDS:
        raise ValueError(f"found the prompt name {kind!r}; accepted: {', '.join(TEXT_KINDS)}")
    prompts = prompts or {}
    return prompts.get(kind, prompts.get("event", ""))


def prompt_tokens(tokenizer: Any, prompt: str) -> list[int]:
    """Token ids of a prompt, without special tokens."""
    return tokenizer(prompt, add_special_tokens=False)["input_ids"] if prompt else []


def clear_call_settings(tokenizer: Any) -> None:
    """Remove truncation and padding from a tokenizer, which would be saved with those of its last call.

    Not after every call: in another thread, a call could be between setting and using them. Other libraries
    apply what they find in `tokenizer.json`, and a processor takes `init_kwargs`, which a tokenizer fills
    from that file, as defaults of its calls.

    Args:
        tokenizer: the tokenizer; a slow one has nothing to remove.
    """
    if tokenizer.is_fast:
        tokenizer.backend_tokenizer.no_truncation()
        tokenizer.backend_tokenizer.no_padding()
    for name in ("max_length", "stride", "truncation_strategy", "pad_to_multiple_of"):
        tokenizer.init_kwargs.pop(name, None)


def tokenise_after(prompt: str, tokenizer: Any, texts: Sequence[str], **settings: Any) -> Any:
    """Tokenise texts after a prompt; the offsets of tokens are those in the text alone."""
    # Truncation and padding are state of the tokenizer, which another thread would change in between.
    with _TOKENISING:
        encoded = tokenizer([prompt + text for text in texts], **settings)
    if prompt and "offset_mapping" in encoded:
        # The tokens of the prompt get empty offsets, as special tokens have.
        offsets, before = encoded["offset_mapping"], len(prompt)
        encoded["offset_mapping"] = (
            (offsets - before).clamp(min=0)
            if isinstance(offsets, torch.Tensor)
            else [[(max(0, start - before), max(0, end - before)) for start, end in row] for row in offsets]
        )
    return encoded
