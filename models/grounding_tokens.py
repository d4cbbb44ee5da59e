"""What the towers of event grounding read of mentions and events, and the cross-encoder of their pairs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from transformers import PreTrainedTokenizerBase

TAGS = {"[ENT_START]": "“", "[ENT_END]": "”", "[ENT_TITLE]": ":"}
"""The tokens around a mention and behind a title, and what each starts as."""

TokenRow = list[int]


class MentionText(NamedTuple):
    """A mention in its context.

    Args:
        context_left: the text before it.
        mention: the mention itself.
        context_right: the text behind it.
        title: title of its document; empty where there is none.
        date: date of its document; empty where there is none.
    """

    context_left: str
    mention: str
    context_right: str
    title: str = ""
    date: str = ""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "MentionText":
        """Take a row of `EventHierarchies`, config `mentions`; `title` and `date` may be absent."""
        return cls(
            row["context_left"],
            row["mention"],
            row["context_right"],
            row.get("title") or "",
            row.get("date") or "",
        )


class EventText(NamedTuple):
    """An event as a language tells of it.

    Args:
        title: its title.
        description: its description; empty where there is none.
    """

    title: str
    description: str = ""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "EventText":
        """Take a row of `EventHierarchies`, config `events`; `description` may be absent."""
        return cls(row["title"], row.get("description") or "")


class TokenisedTexts(NamedTuple):
    """What a tower reads of texts.

    Args:
        rows: token ids of each text, special tokens included.
        cut: positions of the texts that lost tokens of a part, by the part: `mention`, `heading`, `context`,
            `title` or `description`.
    """

    rows: list[TokenRow]
    cut: dict[str, list[int]]


class GroundingTokens:
    """Turns mentions and events into token ids within their budgets, as XLEL-WD (Pratapa et al., 2022) does.

    Args:
        tokenizer: the tokenizer of the encoder, with `TAGS`.
        mention_tokens: tokens of a mention with its context at most.
        event_tokens: tokens of an event at most.
        read_heading: set title and date of a mention's document in front, where it has them.

    Raises:
        ValueError: the tokenizer lacks a tag or the tokens at both ends of a text, or a budget leaves no room
            for a word.
    """

    error_class: ClassVar[type[Exception]] = ValueError
    """What is raised; our commands have one of their own."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        mention_tokens: int = 128,
        event_tokens: int = 128,
        *,
        read_heading: bool = True,
    ) -> None:
        vocabulary = tokenizer.get_vocab()
        if missing := [tag for tag in TAGS if tag not in vocabulary]:
            raise self.error_class(
                f"the tokenizer lacks {' and '.join(missing)}, which mark mentions and titles; accepted: the "
                "tokenizer that was saved with the model"
            )
        if tokenizer.cls_token_id is None or tokenizer.sep_token_id is None:
            raise self.error_class(
                f"{type(tokenizer).__name__} has no tokens at both ends of a text; accepted: the tokenizer "
                "of an encoder with a first and a separating token, such as BERT or XLM-R"
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
        self._first, self._separator = int(tokenizer.cls_token_id), int(tokenizer.sep_token_id)
        self._start, self._end, self._title_end = (int(tokenizer.convert_tokens_to_ids(tag)) for tag in TAGS)

    def mentions(self, mentions: Sequence[MentionText]) -> TokenisedTexts:
        """Tokenise mentions: `[CLS] title [SEP] date [SEP] left [ENT_START] mention [ENT_END] right [SEP]`.

        The mention comes first: it is cut, at its end, only where it has more tokens than there is room for.
        What it leaves is shared by both contexts alike, and what one does not need the other gets; the left
        one keeps its last tokens, the right one its first. Title and date take at most half of what the
        mention leaves, or what the contexts do not need; a title too long for it is cut at its end, and a
        date too long left out.

        Args:
            mentions: the mentions.

        Returns:
            At most `mention_tokens` tokens each, and which mentions lost what.

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
            room = self.mention_tokens - 4
            if len(mention_ids) > room:
                cut["mention"].append(position)
            mention_ids = mention_ids[:room]
            room -= len(mention_ids)
            heading: TokenRow = []
            if self.read_heading and (title or date):
                limit = max(room // 2, room - len(left) - len(right))
                heading, is_whole = self._heading(title, date, limit)
                if not is_whole:
                    cut["heading"].append(position)
                room -= len(heading)
            left_share, right_share = share_context(len(left), len(right), room)
            if left_share < len(left) or right_share < len(right):
                cut["context"].append(position)
            rows.append(
                [
                    *(self._first, *heading, *left[len(left) - left_share :]),
                    *(self._start, *mention_ids, self._end),
                    *(*right[:right_share], self._separator),
                ]
            )
        return TokenisedTexts(rows, dict(cut))

    def _heading(self, title: TokenRow, date: TokenRow, limit: int) -> tuple[TokenRow, bool]:
        """Title and date with a separator behind each, `limit` tokens at most, and whether they are whole."""
        of_date = [*date, self._separator] if date else []
        if len(of_date) > limit:
            of_date = []
        kept = title[: max(0, limit - len(of_date) - 1)]
        of_title = [*kept, self._separator] if kept else []
        return of_title + of_date, len(kept) == len(title) and bool(of_date) == bool(date)

    def events(self, events: Sequence[EventText]) -> TokenisedTexts:
        """Tokenise events: `[CLS] title [ENT_TITLE] description [SEP]`, cut at the end.

        Args:
            events: the events.

        Returns:
            At most `event_tokens` tokens each, and which events lost what.

        Raises:
            ValueError: an event has neither title nor description.
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
            room = self.event_tokens - 3
            if len(title) > room:
                cut["title"].append(position)
            title = title[:room]
            room -= len(title)
            if len(description) > room:
                cut["description"].append(position)
            rows.append([self._first, *title, self._title_end, *description[:room], self._separator])
        return TokenisedTexts(rows, dict(cut))

    def _pieces(self, texts: Sequence[str]) -> list[TokenRow]:
        """Token ids of texts without any special token; a tag that a text holds is a word like others."""
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
    """How many tokens of each context are read: the same of both, and what one does not need for the other.

    Args:
        left: tokens of the left context.
        right: tokens of the right one.
        room: tokens that may be read.

    Returns:
        The tokens of the left and of the right context; an odd one goes to the right.
    """
    of_right = min(right, max(room - left, (room + 1) // 2))
    return min(left, room - of_right), of_right


def pair_row(mention: TokenRow, event: TokenRow) -> TokenRow:
    """Join both rows to what the cross-encoder reads, without the event's first token.

    Args:
        mention: a row of `GroundingTokens.mentions`.
        event: a row of `GroundingTokens.events`.
    """
    return mention + event[1:]
