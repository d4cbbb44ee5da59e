"""Readers of mentions in their contexts: JSON lines, text with double brackets, or tables of events."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from eventformers.datasets_scripts.dataset_card import built_configs
from eventformers.datasets_scripts.document_splits import DistinctIds
from eventformers.datasets_scripts.event_hierarchies import EventHierarchies
from eventformers.datasets_scripts.loading import load_built
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.reading.fields import check_keys, is_blank, text_field
from eventformers.datasets_scripts.reading.lines import (
    PLAIN_TEXTS,
    file_stem,
    format_suffix,
    is_json_lines,
    read_json_values,
    read_lines,
)
from eventformers.errors import DataFormatError, EventformersError, shown
from eventformers.files import require_file
from eventformers.inference.encoding.event_reader import ACCEPTED_CONTAINERS, all_columns, values_in
from eventformers.inference.encoding.event_tables import (
    EventMention,
    EventTables,
    are_event_tables,
    read_event_mentions,
)
from eventformers.models.grounding_tokens import MentionText

Texts = str | Path | EventTables | Sequence[str | Mapping[str, Any]]
"""A file or folder of mentions, tables of documents and events, or texts with mentions in double brackets or
as JSON objects."""

ACCEPTED_FILES = (
    "a file of mentions, .jsonl or .txt, plain, .gz or .bz2, a folder that extract or explore wrote, or a "
    "folder with a built dataset; for raw texts, --pipeline NAME, or a folder that extract wrote from them"
)
ACCEPTED_MENTION = (
    '"context_left", "mention" and "context_right", or "text" with "start_char" and "end_char"; with '
    '"language", and where they are known "title", "date" and "id"'
)
ACCEPTED_TEXTS = (
    "a file, a folder, the tables documents and events, texts with their mentions between [[ and ]], or "
    f"{ACCEPTED_CONTAINERS}"
)
ACCEPTED_LINE = f"one JSON object a line with {ACCEPTED_MENTION}"
ACCEPTED_MARKS = "a text with its mentions between [[ and ]]"

_MARK = re.compile(r"(\[\[|\]\])")

_KEYS = frozenset(
    ("context_left", "mention", "context_right", "text", "start_char", "end_char", "mention_id", "id")
) | {"language", "context_lang", "title", "context_title", "date", "context_date"}
IGNORED_KEYS = ("label_id", "gold_label_ids", "event_ids", "source", "license", "cased", "url", "metadata")
"""Keys of a mention to ignore: gold events, sources, and users' own fields."""


class TextMention(NamedTuple):
    """A mention in a text.

    Attributes:
        language: the code of its language; empty if unknown.
    """

    mention_id: str
    language: str
    text: MentionText

    @property
    def span(self) -> tuple[int, int]:
        """Start and end of the mention in its text, in characters (code points)."""
        start = len(self.text.context_left)
        return start, start + len(self.text.mention)


def load_text_mentions(texts: Texts) -> tuple[list[TextMention], dict[str, int]]:
    """Read mentions, and count the skipped and repaired ones.

    JSON lines have one mention each: `context_left`, `mention` and `context_right` as in `EventHierarchies`,
    or `text` with `start_char` and `end_char` in characters (code points), the end exclusive; and, if known,
    `language` (or `context_lang`), `title`, `date` and `id`. `IGNORED_KEYS` are ignored, others too, with a
    warning, unless they may be misspelt. In plain text, every mention is enclosed in `[[` and `]]`, and its
    line is its context; lines without a mention are counted. Repeated ids get `#2`, `#3` and so on. Of tables
    of documents and events, the trigger of each event is a mention in its sentence.

    Args:
        texts: a file, a folder with a built dataset `event_hierarchies`, a folder or mapping with tables of
            documents and events (`read_event_mentions`), or texts: strings with mentions in double brackets,
            or objects as in JSON lines.

    Raises:
        DataFormatError: a line cannot be read, with file and line: a mention without text, offsets outside
            of the text, brackets that do not match.
        EventformersError: the same for a text in memory, with its position; or the file does not exist, has
            an unknown suffix, or contains no mention.
    """
    counts = SkippedRows()
    if are_event_tables(texts):
        what, accepted = "the tables", "at least one event"
        found = _distinct(map(_of_event, read_event_mentions(texts)), counts)
    elif isinstance(texts, (str, Path)):
        what, accepted = str(texts), ACCEPTED_FILES
        found = _distinct(_read(Path(texts).expanduser(), counts), counts)
    else:
        what, accepted = "the texts", f"{ACCEPTED_MARKS}, or an object with {ACCEPTED_MENTION}"
        found = _distinct(_in_memory(values_in(texts, all_columns, ACCEPTED_TEXTS), counts), counts)
    if not found:
        reason = "; no line has a mention between [[ and ]]" if counts["text_without_mention"] else ""
        raise EventformersError(f"{what}: found no mention{reason}; accepted: {accepted}")
    counts.warn()
    return found, {name: count for name, count in sorted(counts.items()) if count}


def _read(path: Path, counts: SkippedRows) -> Iterator[TextMention]:
    if path.is_dir():
        if not (built_configs(path) or EventHierarchies.find_raw_files("mentions", [path])):
            raise EventformersError(f"{path}: found no mention; accepted: {ACCEPTED_FILES}")
        for rows in load_built(path, "mentions", builder="event_hierarchies").values():
            for row in rows:
                yield TextMention(row["mention_id"], row["language"], MentionText.from_row(row))
        return
    require_file(path, ACCEPTED_FILES)
    stem = file_stem(path)
    if is_json_lines(path):
        values = read_json_values(path, counts, ACCEPTED_LINE)
        yield from counts.parsed(values, lambda one: _of_record(one[1], f"{stem}/{one[0]}", path, one[0]))
    elif format_suffix(path) in PLAIN_TEXTS:
        lines = read_lines(path, counts)
        for of_line in counts.parsed(
            lines, lambda one: list(_marked(one[1], f"{stem}/{one[0]}", path, one[0], counts)), "line"
        ):
            yield from of_line
    else:
        raise EventformersError(f"{path}: found the suffix {shown(path.suffix)}; accepted: {ACCEPTED_FILES}")


def _of_event(event: EventMention) -> TextMention:
    """Return the trigger of an event as a mention in its sentence."""
    text, start, end = event.sentence, event.trigger_start, event.trigger_end
    title, date = event.document.title, event.document.date
    return TextMention(
        event.event_id, "", MentionText(text[:start], text[start:end], text[end:], title, date)
    )


def _in_memory(texts: Iterable[object], counts: SkippedRows) -> Iterator[TextMention]:
    for place, item in enumerate(texts):
        try:
            if isinstance(item, str):
                text = text_field({"text": item}, "text", Path(), place)
                yield from _marked(text, str(place), Path(), place, counts)
            else:
                yield _of_record(item, str(place), Path(), place)
        except DataFormatError as error:
            raise EventformersError(
                f"text {place}: found {error.found}; accepted: {error.accepted}"
            ) from error


def _marked(text: str, text_id: str, path: Path, line: int, counts: SkippedRows) -> Iterator[TextMention]:
    """Return the mentions in double brackets, each with the rest of the text as its context."""
    pieces = _MARK.split(text)
    parts, marks = pieces[::2], pieces[1::2]
    if marks != ["[[", "]]"] * (len(parts) // 2) or _MARK.search("".join(parts)):
        raise DataFormatError(path, line, "unbalanced brackets", ACCEPTED_MARKS)
    if len(parts) == 1:
        counts["text_without_mention" if text.strip() else "blank_line"] += 1
    for number, place in enumerate(range(1, len(parts), 2), start=1):
        if is_blank(parts[place]):
            raise DataFormatError(path, line, "no text between [[ and ]]", ACCEPTED_MARKS)
        mention = MentionText("".join(parts[:place]), parts[place], "".join(parts[place + 1 :]))
        yield TextMention(f"{text_id}.{number}" if len(parts) > 3 else text_id, "", mention)


def _of_record(record: object, own_id: str, path: Path, line: int) -> TextMention:
    if not isinstance(record, Mapping):
        raise DataFormatError(path, line, f"JSON that is {type(record).__name__}", ACCEPTED_LINE)
    check_keys(record, _KEYS.union(IGNORED_KEYS), path, line)

    def first(*names: str) -> str:
        return next((text for name in names if (text := text_field(record, name, path, line))), "")

    if "text" in record:
        text, start, end = first("text"), record.get("start_char"), record.get("end_char")
        if type(start) is not int or type(end) is not int:
            found = f"a mention from {shown(start)} to {shown(end)}"
            raise DataFormatError(path, line, found, ACCEPTED_MENTION)
        if not 0 <= start < end <= len(text):
            found = f"a mention from {start} to {end} in a text of {len(text)} characters"
            raise DataFormatError(path, line, found, "offsets within it, end exclusive")
        left, mention, right = text[:start], text[start:end], text[end:]
        if (stated := record.get("mention", mention)) != mention:
            found = f"the mention {shown(stated)}, where the text has {shown(mention)}"
            raise DataFormatError(path, line, found, "start_char and end_char of that mention")
    elif "mention" in record:
        left, mention, right = (first(name) for name in ("context_left", "mention", "context_right"))
    else:
        raise DataFormatError(
            path, line, f"the fields {', '.join(map(str, record)) or 'none'}", ACCEPTED_MENTION
        )
    if is_blank(mention):
        raise DataFormatError(path, line, "a mention without text", ACCEPTED_MENTION)
    return TextMention(
        first("mention_id", "id") or own_id,
        first("language", "context_lang").strip(),
        MentionText(left, mention, right, first("title", "context_title"), first("date", "context_date")),
    )


def _distinct(mentions: Iterable[TextMention], counts: SkippedRows) -> list[TextMention]:
    """Give mentions with a repeated id a new one."""
    ids = DistinctIds()
    found = [mention._replace(mention_id=ids.of(mention.mention_id)) for mention in mentions]
    counts["mentions_with_repeated_id"] += ids.repeats
    return found
