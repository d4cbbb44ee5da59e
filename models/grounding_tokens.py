"""Tokenised inputs of event grounding: mentions, events, and their pairs for the cross-encoder."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

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
