"""Reader of event mentions, sentences with the trigger of an event and its type; the event types of ACE 2005.

The frames of ACE's types are those of Appendix C of "Semi-supervised New Event Type Induction and Description
via Contrastive Loss-Enforced Batch Attention".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from eventformers.datasets_scripts.licenses import license_of_source
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.reading.fields import Record, check_keys, text_field
from eventformers.datasets_scripts.reading.lines import file_stem
from eventformers.datasets_scripts.reading.tables import columns_of, ignored_keys, read_records
from eventformers.errors import shown
from eventformers.files import packaged_yaml

_ACE = packaged_yaml(__file__, "ace_types.yaml")
ACE_SEEN_TYPES: tuple[str, ...] = tuple(_ACE["seen"])
"""The types whose labels the paper trains on: the ten with the most mentions, in that order."""

ACE_FRAMES: dict[str, tuple[str, ...]] = {name: tuple(frames) for name, frames in _ACE["frames"].items()}
"""The frames of each of the 33 types, in the paper's order. Every frame that inherits from one of them,
directly or not, is a valid target, too (`eventformers.datasets_scripts.frame_reader.frame_descendants`)."""


def ace_frames(event_type: str, parent_type: str = "") -> tuple[str, ...]:
    """Look up the frames of an event type of ACE 2005; empty for any other type.

    Args:
        event_type: `Type:Subtype` or `Type.Subtype`; or only the subtype if its type is given.
    """
    name = f"{parent_type}:{event_type}" if parent_type else event_type.replace(".", ":", 1)
    return ACE_FRAMES.get(name, ())


REACH = 70
"""Maximum distance in characters between a text's stated offset and its actual place."""

_SHOWN_ID = 100

ACCEPTED_MENTION = (
    'one JSON object a line with "sentence" or "text", and optionally "trigger" (a text, or an'
    ' object with "text", "start_char" and "end_char") and "event_type"'
)

MENTION_COLUMNS = columns_of("mentions")
"""Columns of a table of mentions, and keys of JSON lines."""
UNUSED_KEYS = ignored_keys("mentions")
_OFFSETS = ("trigger_start", "trigger_end")
_TRIGGER_KEYS = frozenset({"text", "start_char", "end_char"})
_UNUSED_TRIGGER_KEYS = frozenset({"start_token", "end_token"})

Span = tuple[int, int]
"""Start and end of a text within another one, in characters, end exclusive."""


class Mention(NamedTuple):
    """A sentence and an event in it.

    Args:
        document_id: the document of the sentence, "" if unknown.
        license: its terms of use.
        text: the sentence.
        trigger: the words in `text` that express the event; "" if unknown.
        trigger_start: character offset of the trigger in `text`; -1 if unknown.
        trigger_end: the offset after its last character; -1 if unknown.
        event_type: the type of the event, "" if unknown.
        frames: the FrameNet frames that fit the event, if known.
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
    """Read the mentions of a JSON lines file, plain or gzip, or of a table with `MENTION_COLUMNS`.

    `{"text" | "sentence", "trigger"?, "event_type"?, "parent_type"?, "frames"?, "mention_id" | "id"?,
    "document_id" | "doc_id"?, "source"?, "license"?}`. A trigger is a text, or `{"text", "start_char",
    "end_char"}`; if the trigger is a text, its offsets may be in `trigger_start` and `trigger_end`, as in
    built rows. A trigger without offsets is found at its first occurrence, as whole words if possible.
    Offsets of another text are corrected if the trigger is within `REACH` characters of them. Types of ACE
    2005 get the paper's frames if the file states none.

    The keys of published files that `columns.yaml` lists are ignored, and a trigger's `start_token` and
    `end_token`. The settings of the builder split types, and offsets count characters. Another key is an
    error if it may be a misspelt one that is missing; otherwise it is ignored and named in a warning.

    Args:
        skipped: count of blank lines, and policy for malformed rows.
        notes: counts of triggers that were corrected, that occur several times, and that are missing.

    Raises:
        DataFormatError: a line cannot be read, or its trigger is not in its sentence; names the mention.
    """
    return read_records(
        path,
        skipped,
        MENTION_COLUMNS,
        ACCEPTED_MENTION,
        lambda record: mention_of(record, notes),
        ignored=UNUSED_KEYS,
    )


def mention_of(record: Record, notes: Counter[str]) -> Mention:
    """Read the mention of a row; see `read_mentions`."""
    stem = file_stem(record.path)
    mention_id = record.text("mention_id", "id") or f"{stem}/{record.line}"
    name = named(mention_id)
    given = [key for key in _OFFSETS if record.get(key) is not None]
    if given and isinstance(record.get("trigger"), dict):
        found = f"the key {given[0]!r} beside an object as trigger"
        raise record.fault(found, '"start_char" and "end_char" of the trigger')
    for key in ("text", "sentence"):
        if not isinstance(record.get(key), str | None):
            found = f'"{key}" of type {type(record[key]).__name__} in the mention {name}'
            raise record.fault(found, ACCEPTED_MENTION)
    text = record.text("text", "sentence")
    if not text.strip():
        raise record.fault(f"no sentence in the mention {name}", ACCEPTED_MENTION)
    source = record.text("source") or stem
    event_type, parent_type = record.text("event_type").strip(), record.text("parent_type").strip()
    frames = record.texts("frames", "a list of names of frames")
    # Last, because it adds to the notes, and a row that is skipped must not count there.
    start, end = _trigger(record, text, name, notes)
    return Mention(
        mention_id=mention_id,
        document_id=record.text("document_id", "doc_id"),
        source=source,
        license=license_of_source(source, record.text("license")),
        text=text,
        trigger=text[start:end] if start >= 0 else "",
        trigger_start=start,
        trigger_end=end,
        event_type=event_type,
        frames=frames or list(ace_frames(event_type, parent_type)),
    )


def nearest(text: str, wanted: str, start: int) -> Span | None:
    """Find a text in another one within `REACH` characters of its stated offset.

    Whole words take precedence over parts of words, then the nearest place. Any run of white space matches
    any other.

    Args:
        wanted: the text to find; it has at least one word.
        start: the stated offset.
    """
    found = _places(text, wanted, max(0, start - REACH), start + REACH)
    return min(found, key=lambda span: (not _is_whole(text, span), abs(span[0] - start)), default=None)


def _places(
    text: str, wanted: str, first: int = 0, last: int | None = None, *, fold: bool = False
) -> Iterator[Span]:
    """Yield the places of a text in another one, also overlapping ones, in time linear in both.

    Any run of white space matches any other. The algorithm is that of Knuth, Morris and Pratt; a regular
    expression would take quadratic time on a long text that repeats itself.
    """
    sought = [char.lower() if fold else char for char in " ".join(wanted.split())]
    borders = [0] * len(sought)
    length = 0
    for place in range(1, len(sought)):
        while length and sought[place] != sought[length]:
            length = borders[length - 1]
        length += sought[place] == sought[length]
        borders[place] = length
    starts: list[int] = []
    length = 0
    for place in range(first, len(text)):
        char = text[place]
        if char.isspace():
            if place > first and text[place - 1].isspace():
                continue
            char = " "
        elif fold:
            char = char.lower()
        starts.append(place)
        while length and char != sought[length]:
            length = borders[length - 1]
        length += char == sought[length]
        if last is not None and starts[-max(1, length)] > last:
            return
        if length == len(sought):
            yield starts[-length], place + 1
            length = borders[-1]


def named(mention_id: str) -> str:
    """Format an id for messages: truncated if it is long."""
    return mention_id if len(mention_id) <= _SHOWN_ID else shown(mention_id)


def _is_whole(text: str, span: Span) -> bool:
    """True if the span does not begin or end inside a word."""
    return not any(
        0 < edge < len(text) and text[edge - 1].isalnum() and text[edge].isalnum() for edge in span
    )


def _trigger(record: Record, text: str, mention_id: str, notes: Counter[str]) -> Span:
    """The span of a line's trigger, (-1, -1) if it has none."""
    value = record.get("trigger")
    if isinstance(value, dict):
        used = {key: None for key in value if key not in _UNUSED_TRIGGER_KEYS}
        check_keys(used, _TRIGGER_KEYS, record.path, record.line, what="key of a trigger", complete=True)
        wanted = text_field(value, "text", record.path, record.line)
        offsets = (value.get("start_char"), value.get("end_char"))
    elif value is None or isinstance(value, str):
        wanted = record.text("trigger")
        offsets = (record.get("trigger_start"), record.get("trigger_end"))
    else:
        found = f"a trigger of type {type(value).__name__} in the mention {mention_id}"
        raise record.fault(found, ACCEPTED_MENTION)
    for offset in offsets:
        is_number = isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0
        if offset not in (None, -1) and not is_number:
            found = f"the offset {shown(offset)} in the mention {mention_id}"
            raise record.fault(found, "a whole number from 0")
    start, end = (None if offset == -1 else offset for offset in offsets)
    if (start is None and end is not None) or (end is None and start is not None and not wanted.strip()):
        found = f"a trigger with one offset in the mention {mention_id}"
        raise record.fault(found, "its start and its end, or its text")
    if not wanted.strip():
        if start is None or end is None:
            notes["mentions_without_trigger"] += 1
            return -1, -1
        if not start < end <= len(text):
            found = f"a trigger from {start} to {end} in the mention {mention_id} of {len(text)} characters"
            raise record.fault(found, "offsets within the sentence, end exclusive")
        return start, end
    if start is None:
        anywhere = list(_places(text, wanted)) or list(_places(text, wanted, fold=True))
        places = [span for span in anywhere if _is_whole(text, span)] or anywhere
        if not places:
            found = f"the trigger {shown(wanted)} of the mention {mention_id}, which is not in its sentence"
            raise record.fault(found, "a trigger from the sentence")
        if len(places) > 1:
            notes["triggers_at_several_places"] += 1
        return places[0]
    there = text[start : start + len(wanted)]
    if there == wanted and end in (None, start + len(wanted)):
        return start, start + len(wanted)
    near = nearest(text, wanted, start)
    if near is None:
        found = f"the trigger {shown(wanted)} of the mention {mention_id} at {start}, where it has"
        raise record.fault(f"{found} {shown(there)}", f"a trigger within {REACH} characters of its offset")
    notes["triggers_moved_to_their_text"] += 1
    return near
