"""Readers of mentions: of event mentions, and of mentions in their contexts, which are linked to events.

Both read JSON lines, plain text, built datasets, tables of events, and values in memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from eventformers.datasets_scripts.dataset_card import built_configs
from eventformers.datasets_scripts.document_splits import DistinctIds
from eventformers.datasets_scripts.event_hierarchies import EventHierarchies
from eventformers.datasets_scripts.event_types import EventTypes
from eventformers.datasets_scripts.licenses import UNSPECIFIED
from eventformers.datasets_scripts.loading import load_built
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.mention_reader import read_mentions
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
from eventformers.inference.induction.type_naming import has_only_stop_words
from eventformers.models.processing_event_grounding import MentionText

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

_TEXT_KEYS = frozenset(
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
    found: Iterator[TextMention]
    if are_event_tables(texts):
        what, accepted = "the tables", "at least one event"
        found = map(_text_mention_of, read_event_mentions(texts))
    elif isinstance(texts, (str, Path)):
        what, accepted = str(texts), ACCEPTED_FILES
        found = _read_text_mentions(Path(texts).expanduser(), counts)
    else:
        what, accepted = "the texts", f"{ACCEPTED_MARKS}, or an object with {ACCEPTED_MENTION}"
        found = _in_memory(values_in(texts, all_columns, ACCEPTED_TEXTS), counts)
    mentions = list(found)
    if not mentions:
        reason = "; no line has a mention between [[ and ]]" if counts["text_without_mention"] else ""
        raise EventformersError(f"{what}: found no mention{reason}; accepted: {accepted}")
    ids = _distinct_ids([mention.mention_id for mention in mentions], counts)
    return [
        mention._replace(mention_id=own_id) for mention, own_id in zip(mentions, ids, strict=True)
    ], _told(counts)


def _distinct_ids(own_ids: Iterable[str], counts: SkippedRows) -> list[str]:
    """Return the ids of mentions; a repeated one gets `#2`, `#3` and so on, and is counted."""
    ids = DistinctIds()
    found = list(map(ids.of, own_ids))
    counts["mentions_with_repeated_id"] += ids.repeats
    return found


def _told(counts: SkippedRows) -> dict[str, int]:
    """Warn of what was skipped, and return the counts by name."""
    counts.warn()
    return {name: count for name, count in sorted(counts.items()) if count}


def _folder_rows(
    path: Path, builder: str, has_raw_files: Callable[[str, list[Path]], object]
) -> Iterator[dict[str, Any]]:
    """Read the mentions of all splits of a built dataset, or of raw files of its builder."""
    if not (built_configs(path) or has_raw_files("mentions", [path])):
        raise EventformersError(f"{path}: found no mention; accepted: {ACCEPTED_FILES}")
    for rows in load_built(path, "mentions", builder=builder).values():
        yield from cast("Iterable[dict[str, Any]]", rows)


def _read_text_mentions(path: Path, counts: SkippedRows) -> Iterator[TextMention]:
    if path.is_dir():
        for row in _folder_rows(path, "event_hierarchies", EventHierarchies.find_raw_files):
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


def _text_mention_of(event: EventMention) -> TextMention:
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
    check_keys(record, _TEXT_KEYS.union(IGNORED_KEYS), path, line)

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


Mentions = str | Path | EventTables | Sequence[str | Mapping[str, Any]]
"""A file or folder of mentions, tables of documents and events, or mentions as sentences or rows of
`EventTypes`, config `mentions`."""

ACCEPTED_MENTIONS = (
    "a file, a folder, the tables documents and events, or sentences or rows of mentions: "
    f"{ACCEPTED_CONTAINERS}"
)
ACCEPTED_OFFSETS = "offsets within the text, end exclusive, or -1 for both"

_DEFAULTS: dict[str, Any] = {
    "document_id": "",
    "source": "",
    "license": UNSPECIFIED,
    "trigger": "",
    "trigger_start": -1,
    "trigger_end": -1,
    "event_type": "",
    "frames": (),
}


_KEYS = frozenset(("mention_id", "text", *_DEFAULTS))
_MEMORY = Path()


def load_mentions(mentions: Mentions) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """Read mentions, and count the skipped and repaired ones.

    Args:
        mentions: JSON lines as for `read_mentions`; plain text with one sentence on each line, without
            triggers; a folder with a built dataset `event_types`; a folder or mapping with tables of
            documents and events (`read_event_mentions`), each of which is a mention in its sentence; or
            sentences or rows in a list, frame, table or dataset. A row has `text`, and may have the other
            names of a returned row; unknown names raise an error.

    Returns:
        Rows with `mention_id`, `document_id`, `source`, `license`, `text`, `trigger`, `trigger_start`,
        `trigger_end`, `event_type` ("" if unknown) and `frames`; for events of tables also `terms`, which may
        name their type; and the counts by name.

    Raises:
        DataFormatError: a line cannot be read, or an offset does not match its text, with file, line and
            mention.
        EventformersError: the file does not exist or has an unknown suffix, a mention has no text or offsets
            beyond it, or there are no mentions.
    """
    counts = SkippedRows()
    if are_event_tables(mentions):
        what, found = "the tables", [_row_of(event) for event in read_event_mentions(mentions)]
    elif isinstance(mentions, (str, Path)):
        what, found = str(mentions), _read(Path(mentions).expanduser(), counts)
    else:
        what, found = "the mentions", []
        for place, item in enumerate(values_in(mentions, all_columns, ACCEPTED_MENTIONS)):
            try:
                found.append(_mention(item, place))
            except DataFormatError as error:
                raise EventformersError(
                    f"mention {place}: found {error.found}; accepted: {error.accepted}"
                ) from error
    if not found:
        raise EventformersError(f"{what}: found no mention; accepted: at least one")
    ids = _distinct_ids([row["mention_id"] for row in found], counts)
    return [{**row, "mention_id": own_id} for row, own_id in zip(found, ids, strict=True)], _told(counts)


def _read(path: Path, counts: SkippedRows) -> list[dict[str, Any]]:
    if path.is_dir():
        return list(_folder_rows(path, "event_types", EventTypes.find_raw_files))
    require_file(path, ACCEPTED_FILES)
    if is_json_lines(path):
        return [mention._asdict() for mention in read_mentions(path, counts, counts)]
    if format_suffix(path) not in PLAIN_TEXTS:
        raise EventformersError(f"{path}: found the suffix {shown(path.suffix)}; accepted: {ACCEPTED_FILES}")
    stem = file_stem(path)
    rows = []
    for line, text in read_lines(path, counts):
        if not text.strip():
            counts["blank_line"] += 1
            continue
        rows.append({**_DEFAULTS, "mention_id": f"{stem}/{line}", "source": stem, "text": text.strip()})
    if not rows:
        raise DataFormatError(path, None, "no sentence", "a sentence on each line")
    return rows


def _row_of(event: EventMention) -> dict[str, Any]:
    """Return an event in its sentence as a mention.

    The lemma of its verb and its object may name its type; of a verb such as "be" the predicate, with the
    object only if the predicate has another word, as in "was angry at".
    """
    verb = event.predicate if has_only_stop_words(event.lemma) else event.lemma
    return {
        **_DEFAULTS,
        "mention_id": event.event_id,
        "document_id": event.document.document_id,
        "source": event.document.source,
        "license": event.document.license or UNSPECIFIED,
        "text": event.sentence,
        "trigger": event.sentence[event.trigger_start : event.trigger_end],
        "trigger_start": event.trigger_start,
        "trigger_end": event.trigger_end,
        "terms": (verb,) if has_only_stop_words(verb) else (verb, event.object),
    }


def _mention(item: object, place: int) -> dict[str, Any]:
    if not isinstance(item, (str, Mapping)):
        raise DataFormatError(_MEMORY, None, type(item).__name__, "a sentence, or an object with its text")
    given = {"text": item} if isinstance(item, str) else item
    check_keys(given, _KEYS, _MEMORY, None)
    # A frame has null for values that only other mentions have.
    stated = {name: value for name, value in given.items() if value is not None and name in _KEYS}
    row = {**_DEFAULTS, "mention_id": str(place), "text": None, **stated}
    for name in ("text", "document_id", "source", "license", "trigger", "event_type"):
        if not isinstance(row[name], str) or (name == "text" and is_blank(row[name])):
            accepted = "a sentence with at least one word" if name == "text" else "a text"
            raise DataFormatError(_MEMORY, None, f"the {name} {shown(row[name])}", accepted)
        text_field(row, name, _MEMORY, place)
    text, start, end = row["text"], row["trigger_start"], row["trigger_end"]
    are_places = type(start) is int and type(end) is int
    if not are_places or ((start, end) != (-1, -1) and not 0 <= start < end <= len(text)):
        found = f"a trigger from {shown(start)} to {shown(end)} in a text of {len(text)} characters"
        raise DataFormatError(_MEMORY, None, found, ACCEPTED_OFFSETS)
    trigger = text[start:end] if start >= 0 else ""
    if row["trigger"] not in ("", trigger):
        found = f"the trigger {shown(row['trigger'])}, where the text has {shown(trigger)}"
        raise DataFormatError(_MEMORY, None, found, "trigger_start and trigger_end of that trigger")
    return {**row, "mention_id": str(row["mention_id"]), "trigger": trigger}
