"""Texts to tensors, with a count of what was cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers import BatchEncoding, PreTrainedTokenizerBase


def tokenise(
    tokenizer: PreTrainedTokenizerBase, texts: Sequence[str], max_seq_length: int, **options: Any
) -> tuple[BatchEncoding, int]:
    """Tokenise texts to tensors of equal width.

    Args:
        tokenizer: a fast tokenizer.
        texts: the texts.
        max_seq_length: tokens of a text beyond this are cut.
        **options: passed on to the tokenizer.

    Returns:
        Token ids and attention mask, `(texts, length)`, and the number of texts that were cut.
    """
    encoded = tokenizer(
        list(texts), padding=True, truncation=True, max_length=max_seq_length, return_tensors="pt", **options
    )
    return encoded, sum(bool(encoding.overflowing) for encoding in encoded.encodings or ())
