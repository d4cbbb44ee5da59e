"""Tokenisation of mentions and events for event grounding."""

from __future__ import annotations

from eventformers.errors import EventformersError
from eventformers.models.grounding_tokens import GroundingTokens


class GroundingTokeniser(GroundingTokens):
    """Tokeniser of mentions and events that raises `EventformersError`."""

    error_class = EventformersError
