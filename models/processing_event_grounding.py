"""The processor of event grounding and its tokeniser: mentions in their context, events, and their pairs."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import BatchEncoding, PreTrainedTokenizerBase

from .event_items import checked_list, checked_mapping, checked_text, shown
from .processing_events import EventProcessor, returns_tensors
from .text_prompts import prompt_of, prompt_tokens

TAGS = {"[ENT_START]": "“", "[ENT_END]": "”", "[ENT_TITLE]": ":"}
"""The tokens around a mention and after a title, and the punctuation that initialises their embeddings."""

TokenRow = list[int]


class MentionText(NamedTuple):
    """A mention in its context, with title and date of its document; empty if unknown."""

    context_left: str
    mention: str
    context_right: str
    title: str = ""
    date: str = ""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "MentionText":
        """Read a row of `EventHierarchies`, config `mentions`; `title` and `date` are optional."""
        return cls(
            row["context_left"],
            row["mention"],
            row["context_right"],
            row.get("title") or "",
            row.get("date") or "",
        )


class EventText(NamedTuple):
    """The title and the description, which may be empty, of an event in one language."""

    title: str
    description: str = ""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "EventText":
        """Read a row of `EventHierarchies`, config `events`; `description` is optional."""
        return cls(row["title"], row.get("description") or "")


class TokenisedTexts(NamedTuple):
    """Token ids of texts, special tokens included.

    Args:
        cut: positions of the truncated texts, by the truncated part: `mention`, `heading`, `context`, `title`
            or `description`.
    """

    rows: list[TokenRow]
    cut: dict[str, list[int]]


class GroundingTokens:
    """Converts mentions and events to token ids of limited length, as XLEL-WD (Pratapa et al., 2022) does.

    Args:
        tokenizer: the tokenizer of the encoder, with `TAGS`.
        mention_tokens: maximum number of tokens of a mention with its context, without its prompt.
        event_tokens: maximum number of tokens of an event, without its prompt.
        read_heading: put title and date of a mention's document first, if known.
        prompts: the prompts of the model: `query` before mentions, `document` before events.

    Raises:
        ValueError: the tokenizer lacks a tag or a token that separates texts, or a maximum leaves no room for
            a word.
    """

    error_class: ClassVar[type[Exception]] = ValueError
    """Class of the errors to raise; the commands use their own."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        mention_tokens: int = 128,
        event_tokens: int = 128,
        *,
        read_heading: bool = True,
        prompts: Mapping[str, str] | None = None,
    ) -> None:
        vocabulary = tokenizer.get_vocab()
        if missing := [tag for tag in TAGS if tag not in vocabulary]:
            raise self.error_class(
                f"the tokenizer lacks {' and '.join(missing)}, which mark mentions and titles; accepted: the "
                "tokenizer that was saved with the model"
            )
        encoded = tokenizer("a", return_special_tokens_mask=True)
        ids, is_special = encoded["input_ids"], encoded["special_tokens_mask"]
        own = [place for place, special in enumerate(is_special) if not special] or [0]
        # The special tokens that the tokenizer puts before and after a text.
        first, last = ids[: own[0]], ids[own[-1] + 1 :]
        separator = tokenizer.sep_token_id
        if separator is None:
            separator = tokenizer.eos_token_id
        if separator is None:
            raise self.error_class(
                f"{type(tokenizer).__name__} has no token that separates texts; accepted: the tokenizer of "
                "an encoder with a separating token, such as BERT or XLM-R, or with a token that ends a text"
            )
        for name, budget, smallest in (
            ("mention_tokens", mention_tokens, 5),
            ("event_tokens", event_tokens, 4),
        ):
            if budget < smallest:
                raise self.error_class(
                    f"setting {name}: found {budget}; accepted: {smallest} or more, with the special tokens"
                )
        self.tokenizer = tokenizer
        self.mention_tokens, self.event_tokens = mention_tokens, event_tokens
        self.read_heading = read_heading
        self._separator, self._last = int(separator), last
        self._before_mention, self._before_event = (
            [*first, *prompt_tokens(tokenizer, prompt_of(prompts, kind))] for kind in ("query", "document")
        )
        self._num_special = len(first) + len(last)
        self._start, self._end, self._title_end = (int(tokenizer.convert_tokens_to_ids(tag)) for tag in TAGS)

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, settings: Any, limit: int | None = None) -> Self:
        """Make the tokeniser of a model from its configuration or its processor.

        Args:
            limit: maximum number of tokens of a text with its prompt; None leaves those of the settings.
        """
        lengths = {"query": settings.mention_tokens, "document": settings.event_tokens}
        if limit is not None:
            for kind in lengths:
                of_prompt = len(prompt_tokens(tokenizer, prompt_of(settings.prompts, kind)))
                lengths[kind] = min(lengths[kind], limit - of_prompt)
        return cls(tokenizer, *lengths.values(), read_heading=settings.read_heading, prompts=settings.prompts)

    def mentions(self, mentions: Sequence[MentionText]) -> TokenisedTexts:
        """Tokenise mentions: `[CLS] title [SEP] date [SEP] left [ENT_START] mention [ENT_END] right [SEP]`.

        The special tokens at the ends are those of the tokenizer; a prompt follows the first one.

        The mention has priority: it is truncated, at its end, only if it is longer than the maximum. The two
        contexts share the remaining room equally; what one does not need, the other gets. The left context
        keeps its last tokens, the right one its first. Title and date together take at most half of the room
        after the mention, or what the contexts do not need. A title that is too long is truncated at its end;
        a date that is too long is omitted.

        Returns:
            At most `mention_tokens` tokens each, and which mentions were truncated.

        Raises:
            ValueError: a mention has no text.
        """
        for position, mention in enumerate(mentions):
            if not mention.mention.strip():
                raise self.error_class(
                    f"mention {position}: found no text between its contexts; accepted: a mention of at "
                    "least one word"
                )
        parts = [self._pieces(column) for column in zip(*mentions, strict=True)] or [[]] * 5
        rows: list[TokenRow] = []
        cut: dict[str, list[int]] = defaultdict(list)
        for position, (left, mention_ids, right, title, date) in enumerate(zip(*parts, strict=True)):
            room = self.mention_tokens - self._num_special - 2
            if len(mention_ids) > room:
                cut["mention"].append(position)
            mention_ids = mention_ids[:room]
            room -= len(mention_ids)
            heading: TokenRow = []
            if self.read_heading and (title or date):
                limit = max(room // 2, room - len(left) - len(right))
                of_date = [*date, self._separator] if date and len(date) < limit else []
                of_title = title[: max(0, limit - len(of_date) - 1)]
                if len(of_title) < len(title) or (date and not of_date):
                    cut["heading"].append(position)
                heading = [*of_title, *([self._separator] if of_title else []), *of_date]
                room -= len(heading)
            left_share, right_share = share_context(len(left), len(right), room)
            if left_share < len(left) or right_share < len(right):
                cut["context"].append(position)
            rows.append(
                [
                    *(*self._before_mention, *heading, *left[len(left) - left_share :]),
                    *(self._start, *mention_ids, self._end),
                    *(*right[:right_share], *self._last),
                ]
            )
        return TokenisedTexts(rows, dict(cut))

    def events(self, events: Sequence[EventText]) -> TokenisedTexts:
        """Tokenise events: `[CLS] title [ENT_TITLE] description [SEP]`, at most `event_tokens`, truncated at
        the end.

        An event without title and description is an error.
        """
        for position, event in enumerate(events):
            if not "".join(event).strip():
                raise self.error_class(
                    f"event {position}: found neither title nor description; accepted: at least one word of "
                    "either"
                )
        parts = [self._pieces(column) for column in zip(*events, strict=True)] or [[]] * 2
        rows: list[TokenRow] = []
        cut: dict[str, list[int]] = defaultdict(list)
        for position, (title, description) in enumerate(zip(*parts, strict=True)):
            room = self.event_tokens - self._num_special - 1
            if len(title) > room:
                cut["title"].append(position)
            title = title[:room]
            room -= len(title)
            if len(description) > room:
                cut["description"].append(position)
            rows.append([*self._before_event, *title, self._title_end, *description[:room], *self._last])
        return TokenisedTexts(rows, dict(cut))

    def pair(self, mention: TokenRow, event: TokenRow) -> TokenRow:
        """Join a row of `mentions` and one of `events` to the input of the cross-encoder.

        The special tokens and the prompt before the event are left out.
        """
        return mention + event[len(self._before_event) :]

    def pad(self, rows: Sequence[TokenRow]) -> dict[str, torch.Tensor]:
        """Pad rows to `input_ids` and `attention_mask`, `(rows, length)`; an empty row is a missing
        candidate."""
        tokens = [torch.tensor(row, dtype=torch.long) for row in rows]
        settings = {"batch_first": True, "padding_side": self.tokenizer.padding_side}
        return {
            "input_ids": pad_sequence(tokens, padding_value=self.tokenizer.pad_token_id or 0, **settings),
            "attention_mask": pad_sequence([torch.ones_like(row) for row in tokens], **settings),
        }

    def _pieces(self, texts: Sequence[str]) -> list[TokenRow]:
        """Token ids of texts without special tokens; a tag inside a text is tokenised like any other word."""
        encoded = self.tokenizer(
            list(texts),
            add_special_tokens=False,
            split_special_tokens=True,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,
        )
        return encoded["input_ids"]


def share_context(left: int, right: int, room: int) -> tuple[int, int]:
    """Share the room between both contexts equally; what one does not need, the other gets.

    Returns:
        The number of tokens to keep of the left and of the right context; an odd token goes to the right.
    """
    of_right = min(right, max(room - left, (room + 1) // 2))
    return min(left, room - of_right), of_right


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
