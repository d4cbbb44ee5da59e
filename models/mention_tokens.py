"""The text of an event mention: the sentence, and the position of its trigger."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

TRIGGER_MARKERS = {"[TRIGGER_START]": "“", "[TRIGGER_END]": "”"}
"""The tokens around a trigger, and the quotation marks that initialise their embeddings."""

NO_TRIGGER = -1
"""Both offsets of a mention without a trigger."""


class Mention(NamedTuple):
    """A sentence and the offsets of its trigger, end exclusive; -1 if there is no trigger."""

    text: str
    trigger_start: int = NO_TRIGGER
    trigger_end: int = NO_TRIGGER

    @property
    def has_trigger(self) -> bool:
        """True if the position of the trigger is known."""
        return 0 <= self.trigger_start < self.trigger_end


def mark_trigger(mention: Mention) -> Mention:
    """Put a trigger between `TRIGGER_MARKERS`; a mention without a trigger is unchanged."""
    if not mention.has_trigger:
        return mention
    text, start, end = mention
    opening, closing = TRIGGER_MARKERS
    before = f"{text[:start]}{opening} "
    return Mention(f"{before}{text[start:end]} {closing}{text[end:]}", len(before), len(before) + end - start)


def check_trigger_markers(tokenizer: Any) -> None:
    """Raise a `ValueError` if a tokenizer lacks one of `TRIGGER_MARKERS`."""
    if missing := sorted(set(TRIGGER_MARKERS) - set(tokenizer.get_vocab()), reverse=True):
        raise ValueError(
            f"the tokenizer lacks {' and '.join(missing)}, which mark the trigger; accepted: the tokenizer "
            "saved with the model"
        )


def trigger_mask(mentions: Sequence[Mention], offsets: torch.Tensor) -> torch.Tensor:
    """Mark the tokens that share a character with their mention's trigger, `(mentions, length)`.

    Marked texts need mentions after `mark_trigger`. `offsets` are first character and end of each token,
    `(mentions, length, 2)`.
    """
    first, last = offsets.unbind(dim=-1)
    starts, ends = (torch.tensor([mention[place] for mention in mentions]).unsqueeze(1) for place in (1, 2))
    # Special tokens have empty offsets.
    return (first < ends) & (last > starts) & (first < last)


def trigger_span(mention: Mention, offsets: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the first token of a trigger and the one after its last, as `trigger_mask` finds them; equal if
    it has none."""
    inside = [
        place
        for place, (first, last) in enumerate(offsets)
        if first < mention.trigger_end and last > mention.trigger_start and first < last
    ]
    return (inside[0], inside[-1] + 1) if inside else (0, 0)
