"""Readers of event mentions: JSON lines, plain sentences, rows of a dataset, or tables of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from eventformers.datasets_scripts.dataset_card import built_configs
from eventformers.datasets_scripts.document_splits import DistinctIds
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

Mentions = str | Path | EventTables | Sequence[str | Mapping[str, Any]]
"""A file or folder of mentions, tables of documents and events, or mentions as sentences or rows of
`EventTypes`, config `mentions`."""

ACCEPTED_FILES = (
    "a file of mentions, .jsonl or .txt, plain, .gz or .bz2, a folder that extract or explore wrote, or a "
    "folder with a built dataset; for raw texts, --pipeline NAME, or a folder that extract wrote from them"
)

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
        what, found = "the tables", [_of_event(event) for event in read_event_mentions(mentions)]
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
    ids = DistinctIds()
    found = [{**row, "mention_id": ids.of(row["mention_id"])} for row in found]
    counts["mentions_with_repeated_id"] += ids.repeats
    counts.warn()
    return found, {name: count for name, count in sorted(counts.items()) if count}


def _read(path: Path, counts: SkippedRows) -> list[dict[str, Any]]:
    if path.is_dir():
        if not (built_configs(path) or EventTypes.find_raw_files("mentions", [path])):
            raise EventformersError(f"{path}: found no mention; accepted: {ACCEPTED_FILES}")
        splits = load_built(path, "mentions", builder="event_types")
        return [cast("dict[str, Any]", row) for rows in splits.values() for row in rows]
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


def _of_event(event: EventMention) -> dict[str, Any]:
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
