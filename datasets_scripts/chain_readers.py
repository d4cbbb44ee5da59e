"""Readers of raw documents of events: extracted events, plain JSON lines, narrative cloze files.

Each reader yields one `RawDocument` after another with bounded memory, and counts what it had to leave out
in the `Counter` that it is given.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from eventformers.datasets_scripts.events import Event
from eventformers.datasets_scripts.licenses import license_of_source
from eventformers.datasets_scripts.raw_files import checked_event, has_word, read_lines
from eventformers.errors import DataFormatError

PREDICATE_FORMS = ("surface", "lemma")

REPORTING_PREDICATES: tuple[str, ...] = (
    *("say", "says", "said", "saying", "tell", "tells", "told", "telling", "add", "adds", "added", "adding"),
    *("ask", "asks", "asked", "report", "reports", "reported", "announce", "announces", "announced"),
    *("state", "states", "stated", "claim", "claims", "claimed", "note", "notes", "noted"),
    *("reply", "replies", "replied", "answer", "answers", "answered", "explain", "explains", "explained"),
)
"""Verbs of reporting, a value for `exclude_predicates`: in news they go with every scene alike."""

# fmt: off
PRONOUNS: frozenset[str] = frozenset(
    {
        "i", "me", "my", "mine", "myself", "you", "your", "yours", "yourself", "yourselves", "he",
        "him", "his", "himself", "she", "her", "hers", "herself", "it", "its", "itself", "we", "us",
        "our", "ours", "ourselves", "they", "them", "their", "theirs", "themselves", "this", "that",
        "these", "those", "who", "whom", "whose", "which", "what", "one", "ones", "someone", "somebody",
        "something", "anyone", "anybody", "anything", "everyone", "everybody", "everything", "nobody",
        "nothing", "none", "there", "here",
    }
)
# fmt: on

ACCEPTED_DOCUMENT = (
    'one JSON object a line with "events", a list of [subject, predicate, object], of '
    '{"subject", "predicate", "object"} or of [sentence, offset, subject, predicate, object, lemma, '
    "passive, negated]"
)
ACCEPTED_CLOZE = (
    "subject|predicate|object, or one of HOLDOUT_SEP, NEG_SEP and DOC_SEP in this order for each item"
)


@dataclass(frozen=True)
class RawEvent:
    """An event and the lemma of its predicate, "" where the raw file has none."""

    event: Event
    lemma: str = ""


@dataclass(frozen=True)
class RawDocument:
    """The events of one text in their order."""

    document_id: str
    source: str
    license: str
    events: list[RawEvent]


@dataclass(frozen=True)
class EventFilter:
    """Which events of a document are kept.

    Args:
        exclude_predicates: an event goes when its predicate, the first word of its predicate or the lemma of
            its predicate is among these; case does not count.
        drop_pronoun_only: whether an event goes that has an argument but none beside pronouns.
    """

    exclude_predicates: frozenset[str] = frozenset()
    drop_pronoun_only: bool = False

    def reason_to_drop(self, raw: RawEvent) -> str | None:
        """Why the event is not kept; None for one that is."""
        event = raw.event
        if not has_word(event):
            return "event_without_letters_or_digits"
        if self.exclude_predicates:
            predicate = event["predicate"].lower().removeprefix("not ")
            first = predicate.split(" ", 1)[0]
            if not self.exclude_predicates.isdisjoint((predicate, first, raw.lemma.lower())):
                return "event_with_excluded_predicate"
        if self.drop_pronoun_only:
            arguments = [argument for argument in (event["subject"], event["object"]) if argument]
            if arguments and all(argument.lower() in PRONOUNS for argument in arguments):
                return "event_with_pronouns_only"
        return None

    def apply(self, document: RawDocument, skipped: Counter[str]) -> list[Event]:
        """The events kept, in their order; the others are counted in `skipped` by reason."""
        kept = []
        for raw in document.events:
            reason = self.reason_to_drop(raw)
            if reason is None:
                kept.append(raw.event)
            else:
                skipped[reason] += 1
        return kept


def read_documents(
    paths: Iterable[Path], skipped: Counter[str], predicate_form: str = "surface"
) -> Iterator[RawDocument]:
    """All documents of the files, in the order of files and lines.

    Args:
        paths: `.jsonl` or `.jsonl.gz` files, and narrative cloze files with any other ending.
        skipped: counts of what is left out, by reason; added to.
        predicate_form: `surface` keeps the predicate's own words, particles and prepositions included;
            `lemma` takes the lemma of the verb where the raw file has one.

    Raises:
        DataFormatError: a line cannot be read.
    """
    for path in paths:
        if is_json_lines(path):
            yield from read_json_lines(path, skipped, predicate_form)
        else:
            yield from read_cloze_contexts(path, skipped)


def is_json_lines(path: Path) -> bool:
    """Whether a file is read as JSON lines, by its name."""
    return path.name.removesuffix(".gz").endswith((".jsonl", ".json", ".ndjson"))


def read_json_lines(
    path: Path, skipped: Counter[str], predicate_form: str = "surface"
) -> Iterator[RawDocument]:
    """Documents from JSON lines: `{"document_id"?, "source"?, "license"?, "events": [...]}`.

    An event is `{"subject", "predicate", "object"}` (absent keys and nulls are absent roles),
    `[subject, predicate, object]`, or the eight fields `[sentence, character offset, subject, predicate,
    object, lemma, passive, negated]` of extracted events, where `id` serves for `document_id`. A negated
    event gets the predicate "not <predicate>", so that it does not count as the event it denies. A passive
    one keeps its surface: its subject is what the deed was done to.

    Raises:
        DataFormatError: a line is no such document.
    """
    stem = path.name.split(".", 1)[0]
    for line, text in read_lines(path):
        if not text.strip():
            skipped["blank_line"] += 1
            continue
        try:
            record = json.loads(text)
        except json.JSONDecodeError as error:
            raise DataFormatError(path, line, f"no JSON ({error.msg})", ACCEPTED_DOCUMENT) from error
        if not isinstance(record, dict) or not isinstance(record.get("events"), list):
            raise DataFormatError(path, line, 'no "events" list', ACCEPTED_DOCUMENT)
        source = _text_field(record, "source", path, line) or stem
        yield RawDocument(
            document_id=_text_field(record, "document_id", path, line)
            or _text_field(record, "id", path, line)
            or f"{stem}/{line}",
            source=source,
            license=license_of_source(source, _text_field(record, "license", path, line)),
            events=[_raw_event(item, predicate_form, path, line) for item in record["events"]],
        )


def read_cloze_contexts(path: Path, skipped: Counter[str]) -> Iterator[RawDocument]:
    """The context events of each narrative cloze item (Weber et al. 2018), one document an item.

    The held-out event and the wrong candidates are left out: they are the answer and its distractors. A line
    without its two `|` is a predicate without arguments. The source is the stem of the file name.

    Raises:
        DataFormatError: a line has another number of fields, or a separator stands at the wrong place.
    """
    separators = ("HOLDOUT_SEP", "NEG_SEP", "DOC_SEP")
    stem = path.stem
    item, part, last_line = 0, 0, 0
    context: list[RawEvent] = []

    def document() -> RawDocument:
        return RawDocument(f"{stem}/{item}", stem, license_of_source(stem), context)

    for line, text in read_lines(path):
        last_line = line
        stripped = text.strip()
        if not stripped:
            continue
        if stripped in separators:
            if separators.index(stripped) != part:
                raise DataFormatError(path, line, f"{stripped} at the wrong place", ACCEPTED_CLOZE)
            part = (part + 1) % len(separators)
            if part == 0:
                yield document()
                item, context = item + 1, []
            continue
        fields = stripped.split("|")
        if len(fields) not in (1, 3):
            raise DataFormatError(path, line, f"{len(fields)} fields", ACCEPTED_CLOZE)
        roles = ("", fields[0], "") if len(fields) == 1 else (fields[0], fields[1], fields[2])
        event = checked_event(*roles, path, line)
        if part == 0:
            context.append(RawEvent(event))
        else:
            skipped["cloze_held_out_event" if part == 1 else "cloze_wrong_candidate"] += 1
    if part == len(separators) - 1:
        yield document()
    elif part != 0 or context:
        raise DataFormatError(path, last_line, "the end of the file inside an item", ACCEPTED_CLOZE)


def _text_field(record: dict[str, object], name: str, path: Path, line: int) -> str:
    value = record.get(name)
    if value is None:
        return ""
    if isinstance(value, (str, int)) and not isinstance(value, bool):
        return str(value)
    raise DataFormatError(path, line, f'"{name}" that is {type(value).__name__}', "a text")


def _raw_event(item: object, predicate_form: str, path: Path, line: int) -> RawEvent:
    if isinstance(item, dict):
        fields: list[object] = [item.get(role) or "" for role in ("subject", "predicate", "object")]
    elif isinstance(item, list) and len(item) == 3:
        fields = [field or "" for field in item]
    elif isinstance(item, list) and len(item) == 8:
        return _extracted_event(item, predicate_form, path, line)
    else:
        found = f"an event of {len(item)} fields" if isinstance(item, list) else f"the event {item!r}"
        raise DataFormatError(path, line, found, ACCEPTED_DOCUMENT)
    subject, predicate, object_ = (_role(field, path, line) for field in fields)
    return RawEvent(checked_event(subject, predicate, object_, path, line))


def _extracted_event(item: list[object], predicate_form: str, path: Path, line: int) -> RawEvent:
    subject, predicate, object_, lemma = (_role(field or "", path, line) for field in item[2:6])
    event = checked_event(
        subject, lemma if predicate_form == "lemma" and lemma else predicate, object_, path, line
    )
    if item[7]:
        event["predicate"] = f"not {event['predicate']}".rstrip()
    return RawEvent(event, lemma)


def _role(field: object, path: Path, line: int) -> str:
    if not isinstance(field, str):
        raise DataFormatError(path, line, f"a role that is {type(field).__name__}", "a text")
    return field
