"""Tokenisation of texts, with a count of truncated ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import BatchEncoding, PreTrainedTokenizerBase

from eventformers.models.text_prompts import prompt_tokens, tokenise_after


def tokenise(
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    max_seq_length: int,
    prompt: str = "",
    **options: Any,
) -> tuple[BatchEncoding, int]:
    """Tokenise texts to tensors of equal width.

    Args:
        tokenizer: a fast tokenizer.
        texts: the texts.
        max_seq_length: maximum number of tokens of a text, without its prompt.
        prompt: text before each text; the offsets of tokens are those in the text alone.
        **options: further arguments of the tokenizer.

    Returns:
        Token ids and attention mask, `(texts, length)`, and the number of truncated texts.
    """
    encoded = tokenise_after(
        prompt,
        tokenizer,
        texts,
        padding=True,
        truncation=True,
        max_length=max_seq_length + len(prompt_tokens(tokenizer, prompt)),
        **options,
    )
    # `return_tensors` copies every list of tokens once more before the conversion.
    for name, rows in encoded.items():
        encoded[name] = torch.tensor(rows, dtype=torch.long)
    return encoded, sum(bool(encoding.overflowing) for encoding in encoded.encodings or ())
