"""Tokenisation of mentions and events for event grounding."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedTokenizerBase

from eventformers.errors import EventformersError
from eventformers.models.grounding_tokens import GroundingTokens
from eventformers.models.text_prompts import prompt_of, prompt_tokens


class GroundingTokeniser(GroundingTokens):
    """Tokeniser of mentions and events that raises `EventformersError`."""

    error_class = EventformersError

    @classmethod
    def of(
        cls, tokenizer: PreTrainedTokenizerBase, config: Any, limit: int | None = None
    ) -> GroundingTokeniser:
        """Make the tokeniser of a model.

        Args:
            tokenizer: the tokenizer of the model.
            config: its configuration.
            limit: maximum number of tokens of a text with its prompt; None leaves those of the configuration.
        """
        lengths = {"query": config.mention_tokens, "document": config.event_tokens}
        if limit is not None:
            for kind in lengths:
                of_prompt = len(prompt_tokens(tokenizer, prompt_of(config.prompts, kind)))
                lengths[kind] = min(lengths[kind], limit - of_prompt)
        return cls(tokenizer, *lengths.values(), read_heading=config.read_heading, prompts=config.prompts)
