"""Event mentions from JSON lines: sentences with the trigger of an event and its type."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from eventformers.datasets_scripts.ace_types import ace_frames
from eventformers.datasets_scripts.licenses import license_of_source, standard_license
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.raw_files import read_json_values, text_field
from eventformers.errors import DataFormatError

REACH = 70
"""How many characters from its offsets a text is looked for that does not stand there."""

ACCEPTED_MENTION = (
    'one JSON object a line with "sentence" or "text", and where they are known "trigger" (a text, or an'
    ' object of "text", "start_char" and "end_char") and "event_type"'
)

Span = tuple[int, int]
"""Start and end of a text in another one in characters, end exclusive."""


class Mention(NamedTuple):
    """A sentence and an event in it.

    Args:
        mention_id: no other mention has it.
        document_id: the document of the sentence, "" where it is unknown.
        source: the corpus that it is from.
        license: its terms of use.
        text: the sentence.
        trigger: the words that tell of the event, as they stand in `text`; "" where they are unknown.
        trigger_start: the offset of the trigger in `text` in characters; -1 where it is unknown.
        trigger_end: the offset after its last character; -1 where it is unknown.
        event_type: the type of the event, "" where it is unknown.
        frames: the FrameNet frames that fit the event, as far as they are known.
    """

    mention_id: str
    document_id: str
    source: str
    license: str
    text: str
    trigger: str
    trigger_start: int
    trigger_end: int
    event_type: str
    frames: list[str]


def read_mentions(path: Path, skipped: SkippedRows, notes: Counter[str]) -> Iterator[Mention]:
    """The mentions of a file of JSON lines, plain or gzip.

    `{"text" | "sentence", "trigger"?, "event_type"?, "parent_type"?, "frames"?, "mention_id" | "id"?,
    "document_id" | "doc_id"?, "source"?, "license"?}`. A trigger is a text, or `{"text", "start_char",
    "end_char"}`; offsets beside a trigger that is a text are `trigger_start` and `trigger_end`, as in built
    rows. A text without offsets is the first place where it stands, as whole words if possible. Offsets that
    hold another text are mended where the text stands within `REACH` characters of them. Types of ACE 2005
    have the frames of the paper where the file states none.

    Args:
        path: the file.
        skipped: gets the number of blank lines.
        notes: gets the numbers of triggers that were mended, that stand at several places, and that are
            missing.

    Raises:
        DataFormatError: a line cannot be read, or its trigger is not in its sentence; with the mention.
    """
    stem = path.name.split(".", 1)[0]
    for line, record in read_json_values(path, skipped, ACCEPTED_MENTION):
        if not isinstance(record, dict):
            raise DataFormatError(path, line, f"JSON that is {type(record).__name__}", ACCEPTED_MENTION)
        mention_id = _either(record, "mention_id", "id", path, line) or f"{stem}/{line}"
        for name in ("text", "sentence"):
            if not isinstance(record.get(name), str | None):
                found = f'"{name}" that is {type(record[name]).__name__} in the mention {mention_id}'
                raise DataFormatError(path, line, found, ACCEPTED_MENTION)
        text = _either(record, "text", "sentence", path, line)
        if not text.strip():
            raise DataFormatError(path, line, f"no sentence in the mention {mention_id}", ACCEPTED_MENTION)
        source = text_field(record, "source", path, line) or stem
        stated = text_field(record, "license", path, line)
        event_type = text_field(record, "event_type", path, line).strip()
        parent_type = text_field(record, "parent_type", path, line).strip()
        start, end = _trigger(record, text, mention_id, path, line, notes)
        yield Mention(
            mention_id=mention_id,
            document_id=_either(record, "document_id", "doc_id", path, line),
            source=source,
            license=license_of_source(source, standard_license(stated) if stated else None),
            text=text,
            trigger=text[start:end] if start >= 0 else "",
            trigger_start=start,
            trigger_end=end,
            event_type=event_type,
            frames=_frames(record, path, line) or list(ace_frames(event_type, parent_type)),
        )


def nearest(text: str, wanted: str, start: int) -> Span | None:
    """Where a text stands in another one within `REACH` characters of where it should.

    Whole words go before parts of words, then the nearest place. White space of any kind and length is
    alike.

    Args:
        text: where to look.
        wanted: what to look for; it has a word.
        start: where it should start.
    """
    low = max(0, start - REACH)
    found = [span for span in _places(text, wanted) if low <= span[0] <= start + REACH]
    return min(found, key=lambda span: (not _is_whole(text, span), abs(span[0] - start)), default=None)


def _places(text: str, wanted: str, flags: int = 0) -> list[Span]:
    pattern = r"\s+".join(map(re.escape, wanted.split()))
    # A look-ahead finds places that overlap, too.
    return [match.span(1) for match in re.finditer(f"(?=({pattern}))", text, flags)]


def _is_whole(text: str, span: Span) -> bool:
    """Whether no word goes on beyond a span."""
    return not any(
        0 < edge < len(text) and text[edge - 1].isalnum() and text[edge].isalnum() for edge in span
    )


def _either(record: Mapping[str, object], name: str, other: str, path: Path, line: int) -> str:
    return text_field(record, name, path, line) or text_field(record, other, path, line)


def _trigger(
    record: Mapping[str, object], text: str, mention_id: str, path: Path, line: int, notes: Counter[str]
) -> Span:
    """The span of the trigger of a line, (-1, -1) where it has none."""
    value = record.get("trigger")
    if isinstance(value, dict):
        wanted = text_field(value, "text", path, line)
        offsets = (value.get("start_char"), value.get("end_char"))
    elif value is None or isinstance(value, str):
        wanted = text_field(record, "trigger", path, line)
        offsets = (record.get("trigger_start"), record.get("trigger_end"))
    else:
        found = f"a trigger that is {type(value).__name__} in the mention {mention_id}"
        raise DataFormatError(path, line, found, ACCEPTED_MENTION)
    start, end = (_offset(offset, mention_id, path, line) for offset in offsets)
    if not wanted.strip():
        if start is None or end is None:
            notes["mentions_without_trigger"] += 1
            return -1, -1
        if not start < end <= len(text):
            found = f"a trigger from {start} to {end} in the mention {mention_id} of {len(text)} characters"
            raise DataFormatError(path, line, found, "offsets within the sentence, end exclusive")
        return start, end
    if start is None:
        return _first_place(text, wanted, mention_id, path, line, notes)
    if text[start : start + len(wanted)] == wanted and end in (None, start + len(wanted)):
        return start, start + len(wanted)
    near = nearest(text, wanted, start)
    if near is None:
        there = text[start : start + len(wanted)]
        raise DataFormatError(
            path,
            line,
            f"the trigger {wanted!r} of the mention {mention_id} at {start}, where it has {there!r}",
            f"a trigger that stands within {REACH} characters of its offset",
        )
    notes["triggers_moved_to_their_text"] += 1
    return near


def _first_place(text: str, wanted: str, mention_id: str, path: Path, line: int, notes: Counter[str]) -> Span:
    anywhere = _places(text, wanted) or _places(text, wanted, re.IGNORECASE)
    places = [span for span in anywhere if _is_whole(text, span)] or anywhere
    if not places:
        found = f"the trigger {wanted!r} of the mention {mention_id}, which its sentence has not"
        raise DataFormatError(path, line, found, "a trigger from the sentence")
    if len(places) > 1:
        notes["triggers_at_several_places"] += 1
    return places[0]


def _offset(value: object, mention_id: str, path: Path, line: int) -> int | None:
    """An offset; None where there is none or a row says so by -1."""
    if value is None or value == -1:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise DataFormatError(
            path, line, f"the offset {value!r} in the mention {mention_id}", "a whole number from 0"
        )
    return value


def _frames(record: Mapping[str, object], path: Path, line: int) -> list[str]:
    value = record.get("frames")
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise DataFormatError(path, line, f"the frames {value!r}", "a list of names of frames")
    return value
