"""The processor of event grounding: mentions in their context, events, and pairs of both."""

import re
from collections.abc import Mapping
from typing import Any

from transformers import BatchEncoding

from .event_items import checked_list, checked_mapping, checked_text, shown
from .grounding_tokens import EventText, GroundingTokens, MentionText
from .processing_events import EventProcessor, returns_tensors

ACCEPTED_MENTION = (
    "a text with its mention between [[ and ]], or an object with context_left, mention and context_right, "
    "or with text, start_char and end_char"
)
_MARKED = re.compile(r"\[\[(.+?)\]\]", re.DOTALL)


class EventGroundingProcessor(EventProcessor):
    """Converts mentions, events, and pairs of both to the inputs of event grounding.

    Example:
        processor = AutoProcessor.from_pretrained(name)
        mentions = processor("The city was hit by [[the flood]].")
        events = processor(events=[{"title": "2014 flood", "description": "in the south"}])
        model(**mentions, side="mention").embeddings @ model(**events, side="event").embeddings.T

    Args:
        tokenizer: the tokenizer of the model, with `TAGS`.
        mention_tokens: maximum number of tokens of a mention with its context.
        event_tokens: maximum number of tokens of an event.
        read_heading: put title and date of a mention's document first, if known.
        reads_pairs: True for the cross-encoder, which reads a mention and an event as one text.
    """

    def __init__(
        self,
        tokenizer,
        event_order="subject_predicate_object",
        max_length=None,
        mention_tokens=128,
        event_tokens=128,
        read_heading=True,
        reads_pairs=False,
        prompts=None,
    ):
        super().__init__(tokenizer, event_order, max_length, prompts)
        self.mention_tokens, self.event_tokens = mention_tokens, event_tokens
        self.read_heading, self.reads_pairs = read_heading, reads_pairs

    @classmethod
    def settings_of(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """Read the settings of the processor from a model's configuration as a mapping."""
        return {**super().settings_of(config), "reads_pairs": "head_dropout" in config}

    @property
    def tokens(self) -> GroundingTokens:
        """The tokeniser of mentions and events."""
        # A pair is as long as both of its parts.
        return GroundingTokens.of(self.tokenizer, self, None if self.reads_pairs else self.longest)

    @returns_tensors
    def __call__(self, inputs=None, events=None, *, text=None, **settings) -> BatchEncoding:
        """Convert mentions, events, or pairs of both to tensors.

        Args:
            inputs: mentions: a text with one between `[[` and `]]`; or an object with `context_left`,
                `mention` and `context_right`, or with `text`, `start_char` and `end_char`, optionally also
                with `title` and `date` of its document; or a list of such.
            events: a title, an object with `title` and `description`, or a list of such. With mentions, too,
                there is one event for each mention, and each row is the text of both, for the cross-encoder.
            text: see `EventProcessor`. For the cross-encoder, a list of pairs is mentions with their events,
                as `CrossEncoder` of sentence-transformers passes them: a text with its mention between `[[`
                and `]]`, or the mention alone, and the title of an event or its whole text.
            **settings: arguments of the tokenizer, with `text`; a pair has the lengths of the processor.

        Returns:
            `input_ids` and `attention_mask`, `(rows, length)`.

        Raises:
            ValueError: both are missing, their numbers differ, or one has no text.
        """
        if text is not None and not (self.reads_pairs and is_pairs(text)):
            return super().__call__(text=text, **settings)
        if text is not None:
            inputs = [
                mention
                if _MARKED.search(mention)
                else {"context_left": "", "mention": mention, "context_right": ""}
                for mention, _ in text
            ]
            events = [event for _, event in text]
        if inputs is None and events is None:
            raise ValueError(f"found neither mentions nor events; accepted: {ACCEPTED_MENTION}; or events")
        tokens = self.tokens
        columns = []
        if inputs is not None:
            columns.append(tokens.mentions([mention_of(mention) for mention in _listed(inputs)]).rows)
        if events is not None:
            columns.append(tokens.events([event_of(event) for event in _listed(events)]).rows)
        if len({len(rows) for rows in columns}) > 1:
            raise ValueError(
                f"found {len(columns[0])} mentions and {len(columns[1])} events; accepted: one event for "
                "each mention"
            )
        rows = columns[0] if len(columns) == 1 else list(map(tokens.pair, *columns))
        return BatchEncoding(tokens.pad(rows))


def is_pairs(text: object) -> bool:
    """True for a list of pairs of two texts."""
    return isinstance(text, (list, tuple)) and all(
        isinstance(pair, (list, tuple)) and len(pair) == 2 and all(isinstance(part, str) for part in pair)
        for pair in text
    )


def _listed(inputs: object) -> list[Any]:
    return [inputs] if isinstance(inputs, (str, Mapping)) else checked_list(inputs, "input", "item")


def mention_of(mention: object) -> MentionText:
    """Read a mention in its context; see `EventGroundingProcessor`.

    Raises:
        ValueError: its place in the text is unknown, or it has no text.
    """
    if isinstance(mention, str):
        marked = _MARKED.findall(mention)
        if len(marked) != 1:
            raise ValueError(
                f"found {len(marked)} mentions in {shown(mention)}; accepted: one between [[ and ]]"
            )
        checked_text(mention, "a mention in its context")
        left, _, right = mention.partition(f"[[{marked[0]}]]")
        return MentionText(left, marked[0], right)
    row = checked_mapping(mention, ACCEPTED_MENTION)
    if "text" in row:
        text, start, end = checked_text(row["text"], "text"), row.get("start_char"), row.get("end_char")
        if type(start) is not int or type(end) is not int or not 0 <= start < end <= len(text):
            raise ValueError(
                f"found a mention from {shown(start)} to {shown(end)} in a text of {len(text)} characters; "
                "accepted: start_char and end_char within it, end exclusive"
            )
        row = {**row, "context_left": text[:start], "mention": text[start:end], "context_right": text[end:]}
    if not {"context_left", "mention", "context_right"} <= row.keys():
        raise ValueError(f"found the keys {shown(list(row))}; accepted: {ACCEPTED_MENTION}")
    checked_text(row["mention"], "mention")
    names = ("context_left", "mention", "context_right", "title", "date")
    return MentionText(*(checked_text(row.get(name), name, may_be_empty=True) for name in names))


def event_of(event: object) -> EventText:
    """Read an event: a title, or an object with at least one of `title` and `description`."""
    if isinstance(event, str):
        return EventText(checked_text(event, "an event"))
    row = checked_mapping(event, "a title, or an object with title and description")
    names = ("title", "description")
    title, description = (checked_text(row.get(name), name, may_be_empty=True) for name in names)
    checked_text(f"{title} {description}", "the title and description of an event")
    return EventText(title, description)
