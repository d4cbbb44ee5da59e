"""Tokenisation of texts, with a count of truncated ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import BatchEncoding, PreTrainedTokenizerBase

from eventformers.errors import EventformersError
from eventformers.models.configuration_base import EventConfig
from eventformers.models.text_prompts import (
    TEXT_KINDS,
    clear_call_settings,
    prompt_of,
    prompt_tokens,
    tokenise_after,
)


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
    # Any trainer may save the tokenizer of its collator at any time.
    clear_call_settings(tokenizer)
    # `return_tensors` copies every list of tokens once more before the conversion.
    for name, rows in encoded.items():
        encoded[name] = torch.tensor(rows, dtype=torch.long)
    return encoded, sum(bool(encoding.overflowing) for encoding in encoded.encodings or ())


def check_text_length(config: EventConfig, tokenizer: PreTrainedTokenizerBase, max_seq_length: int) -> None:
    """Check that `max_seq_length` and the prompt before it are within the encoder's positions.

    Raises:
        EventformersError: the encoder has fewer positions.
    """
    encoder = config.encoder_config
    positions = getattr(encoder, "max_position_embeddings", None) or tokenizer.model_max_length
    # RoBERTa's family counts positions from after the padding id.
    if positions - (getattr(encoder, "pad_token_id", None) or 0) - 1 == tokenizer.model_max_length:
        positions = tokenizer.model_max_length
    prompts = [prompt_of(config.prompts, kind) for kind in TEXT_KINDS]
    of_prompt = max(len(prompt_tokens(tokenizer, prompt)) for prompt in prompts)
    if max_seq_length + of_prompt > positions:
        raise EventformersError(
            f"setting max_seq_length: found {max_seq_length}; accepted: {positions - of_prompt} or less, the "
            f"maximum of the encoder{' after the prompt' if of_prompt else ''}"
        )
