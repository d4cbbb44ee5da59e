"""The processor of event type induction: mentions with the position of their trigger."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from transformers import BatchEncoding

from .event_items import checked_text, items_of, read_item, shown, text_of
from .processing_events import EventProcessor, returns_tensors

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


class EventTypeInductionProcessor(EventProcessor):
    """Converts mentions with their triggers to the inputs of event type induction.

    Example:
        processor = AutoProcessor.from_pretrained(name)
        model(**processor({"text": "Police arrested him.", "trigger_start": 7, "trigger_end": 15}))

    Args:
        tokenizer: the tokenizer of the model, a fast one.
        trigger_input: how the model reads the trigger; see `EventTypeInductionConfig`.
    """

    def __init__(
        self,
        tokenizer,
        event_order="subject_predicate_object",
        max_length=None,
        trigger_input="none",
        prompts=None,
    ):
        super().__init__(tokenizer, event_order, max_length, prompts)
        self.trigger_input = trigger_input

    @returns_tensors
    def __call__(self, inputs=None, *, text=None, **settings) -> BatchEncoding:
        """Convert mentions to tensors.

        Args:
            inputs: a sentence, or an object with `text` and, if the trigger is known, `trigger_start` and
                `trigger_end`, like a row of the config `mentions`; an event; or a list of these.
            text: see `EventProcessor`.
            **settings: arguments of the tokenizer, such as `max_length`.

        Returns:
            `input_ids` and `attention_mask`, `(mentions, length)`, and `trigger_mask` of the same shape, True
            for a token of the trigger. A model that finds triggers itself gets no `trigger_mask` if one
            mention has no trigger.

        Raises:
            ValueError: an item is none of these, has no word, or has a trigger outside its text; or the
                tokenizer lacks the markers that the model reads.
        """
        if text is not None:
            return super().__call__(text=text, **settings)
        mentions = [
            mention_of(item)
            if isinstance(item, str) or (isinstance(item, Mapping) and "text" in item)
            else Mention(text_of(read_item(item), self.event_order))
            for item in items_of(inputs)
        ]
        return self.mentions(mentions, **settings)

    def mentions(self, mentions: Sequence[Mention], **settings) -> BatchEncoding:
        """Convert mentions to tensors; see `__call__`."""
        if self.trigger_input in ("marked", "marked_span"):
            check_trigger_markers(self.tokenizer)
            mentions = [mark_trigger(mention) for mention in mentions]
        encoded = self.tokenise(
            [mention.text for mention in mentions], return_offsets_mapping=True, **settings
        )
        offsets = encoded.pop("offset_mapping")
        if self.trigger_input != "found" or all(mention.has_trigger for mention in mentions):
            encoded["trigger_mask"] = trigger_mask(mentions, offsets)
        return encoded


def mention_of(item: object) -> Mention:
    """Read a mention: a sentence, or an object with `text` and, if known, the offsets of the trigger.

    Raises:
        ValueError: it has no text, or the trigger is not within it.
    """
    row: Mapping[str, Any] = item if isinstance(item, Mapping) else {"text": item}
    text = checked_text(row.get("text"), "a sentence")
    start, end = row.get("trigger_start", NO_TRIGGER), row.get("trigger_end", NO_TRIGGER)
    if (start, end) != (NO_TRIGGER, NO_TRIGGER) and (
        type(start) is not int or type(end) is not int or not 0 <= start < end <= len(text)
    ):
        raise ValueError(
            f"found a trigger from {shown(start)} to {shown(end)} in a text of {len(text)} characters; "
            "accepted: offsets within it, end exclusive, or -1 for both"
        )
    return Mention(text, start, end)
