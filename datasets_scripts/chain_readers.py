"""Readers of raw documents of events: JSON lines of documents and of chains, narrative cloze files, tuples.

Each reader takes a file and `skipped`, the counts of what is skipped and the policy for malformed rows, and
yields one item after another in bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from eventformers.datasets_scripts.events import EVENT_ORDERS, EVENT_SCHEMA, Event
from eventformers.datasets_scripts.licenses import license_of_source
from eventformers.datasets_scripts.malformed import HeldFaults, SkippedRows
from eventformers.datasets_scripts.reading.fields import Record, checked_event, event_of, has_word, role_of
from eventformers.datasets_scripts.reading.lines import file_stem, read_lines, read_rows
from eventformers.datasets_scripts.reading.tables import (
    columns_of,
    first_record,
    has_records,
    is_table,
    read_records,
)
from eventformers.errors import DataFormatError, EventformersError, shown
from eventformers.files import cached_by_file, packaged_yaml

ACCEPTED_CLOZE = (
    "subject|predicate|object, or one of HOLDOUT_SEP, NEG_SEP and DOC_SEP in this order for each item"
)
_SEPARATORS = ("HOLDOUT_SEP", "NEG_SEP", "DOC_SEP")


@dataclass
class ClozeItem:
    """One item of a file.

    Args:
        item_id: stem of the file name and index of the item from 0.
        wrong: the wrong candidates.
    """

    item_id: str
    context: list[Event] = field(default_factory=list)
    held_out: list[Event] = field(default_factory=list)
    wrong: list[Event] = field(default_factory=list)
    line: int = 0


def read_cloze_items(path: Path, skipped: SkippedRows) -> Iterator[ClozeItem]:
    """Read the items of a file in order.

    A line without its two `|` is a predicate without arguments. After a malformed item, the next one begins
    after `DOC_SEP`.

    Raises:
        DataFormatError: a line has a wrong number of fields, or a separator is misplaced.
    """

    def item(number: int, lines: list[tuple[int, str]], fault: DataFormatError | None) -> ClozeItem:
        if fault is not None:
            raise fault
        found = ClozeItem(f"{path.stem}/{number}", line=lines[-1][0])
        parts = (found.context, found.held_out, found.wrong)
        part = 0
        for line, text in lines:
            if text in _SEPARATORS:
                if _SEPARATORS.index(text) != part:
                    raise DataFormatError(path, line, f"{text} at the wrong place", ACCEPTED_CLOZE)
                part += 1
                continue
            fields = text.split("|")
            if len(fields) not in (1, 3):
                raise DataFormatError(path, line, f"{len(fields)} fields", ACCEPTED_CLOZE)
            if len(fields) == 1 and ("_" in text or text.lower().endswith("sep")):
                raise DataFormatError(path, line, f"the separator {shown(text)}", ACCEPTED_CLOZE)
            roles = ("", fields[0], "") if len(fields) == 1 else (fields[0], fields[1], fields[2])
            parts[part].append(checked_event(*roles, path, line))
        if part < len(_SEPARATORS) - 1:
            raise DataFormatError(path, found.line, "the end of the file inside an item", ACCEPTED_CLOZE)
        return found

    return skipped.parsed_rows(_blocks(path), item, "item")


def _blocks(path: Path) -> Iterator[tuple[int, list[tuple[int, str]], DataFormatError | None]]:
    """Yield number and non-blank lines of each item, and the first line of it that is not text, if any."""
    number = 0
    lines: list[tuple[int, str]] = []
    held = HeldFaults()
    for line, text in read_lines(path, held):
        if stripped := text.strip():
            lines.append((line, stripped))
        if stripped == _SEPARATORS[-1]:
            yield number, lines, held.take()
            number, lines = number + 1, []
    if lines or held.faults:
        yield number, lines, held.take()


def checked_question(item: ClozeItem, path: Path) -> ClozeItem:
    """Return the item if it is a valid question.

    Raises:
        DataFormatError: the item has no context, not exactly one held-out event, or no wrong candidate.
    """
    if not item.context:
        raise DataFormatError(path, item.line, "an item without context", "at least one event before it")
    if len(item.held_out) != 1:
        found = f"an item with {len(item.held_out)} held-out events"
        raise DataFormatError(path, item.line, found, "one event between HOLDOUT_SEP and NEG_SEP")
    if not item.wrong:
        raise DataFormatError(path, item.line, "an item with one choice", "at least one event after NEG_SEP")
    return item


_ORIGIN = ("source", "license", "chain_id", "protagonist")
EVENT_COLUMNS = columns_of("events")
"""Columns of a table with one event a row. The others of the table that `extract` writes are ignored."""

DOCUMENT_COLUMNS = columns_of("documents")
"""Columns of a table with one document or chain a row."""


WORDS = packaged_yaml(__file__, "words.yaml")
REPORTING_PREDICATES: tuple[str, ...] = tuple(WORDS["reporting"].split())
"""Reporting verbs, a value of `exclude_predicates`: in news they occur in every kind of scene."""
PRONOUNS = frozenset(WORDS["pronouns"].split())

ACCEPTED_DOCUMENT = (
    'one JSON object a line with "events", a list of [subject, predicate, object], of '
    '{"subject", "predicate", "object", "lemma"} or of [sentence, offset, subject, predicate, object, lemma, '
    "passive, negated]"
)
EXTRACTION_REPORT = "report.json"
"""Files that `eventformers.extract` writes besides events and chains; they are not raw files."""

RawFileKind = Literal["documents", "chains", "cloze", "tuples"]
"""Content of a raw file: documents or chains, as JSON lines or tables; narrative cloze items; or chains as
tuples."""

_LINES_THAT_TELL = 100
"""Number of lines of a text file from which its kind is determined."""

_EVENT_SEPARATOR = "<TUP>"
"""The separator of events in the files of HAQAE, one chain of tuples per line."""
_DISTRACTOR_SEPARATOR = "<DIST>"
_NO_PREPOSITION = "_NULL_"
_ACCEPTED_TUPLES = (
    "events of verb, subject, object and preposition (_NULL_ for none), separated by blanks, with <TUP>"
    " between events"
)

_IGNORED = frozenset(EVENT_SCHEMA.names) | {"n_sent"}
_ROLES = EVENT_ORDERS["subject_predicate_object"]
KeepDocument = Callable[[str, str], bool]
"""Predicate that selects documents by id and source."""


@dataclass(frozen=True)
class RawEvent:
    """An event and the lemma of its predicate, "" if the raw file has none."""

    event: Event
    lemma: str = ""


@dataclass(frozen=True)
class RawDocument:
    """The events of one text in order, or those of one chain of it.

    Args:
        document_id: id of the text.
        source: its corpus.
        license: its terms of use.
        events: its events.
        chain_id: "" for a whole text.
        protagonist: protagonist of a chain; "" for a whole text, or if the raw file does not name one.
    """

    document_id: str
    source: str
    license: str
    events: list[RawEvent]
    chain_id: str = ""
    protagonist: str = ""


@dataclass(frozen=True)
class EventFilter:
    """Selects the events of a document to keep.

    Args:
        exclude_predicates: an event is dropped if its predicate, the first word of its predicate or the lemma
            of its predicate is among these; case is ignored.
        drop_pronoun_only: drop events that have arguments, all of which are pronouns.
    """

    exclude_predicates: frozenset[str] = frozenset()
    drop_pronoun_only: bool = False

    @classmethod
    def of_settings(cls, exclude_predicates: Iterable[str], drop_pronoun_only: bool) -> EventFilter:
        """The filter of settings, whose predicate `reporting` stands for the verbs of reporting."""
        excluded = {name.lower() for name in exclude_predicates}
        if "reporting" in excluded:
            excluded |= set(REPORTING_PREDICATES)
        return cls(frozenset(excluded), drop_pronoun_only)

    def reason_to_drop(self, raw: RawEvent) -> str | None:
        """Reason to drop the event; None to keep it."""
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

    def apply(self, document: RawDocument, skipped: SkippedRows) -> list[Event]:
        """Return the kept events in order and count the others in `skipped` by reason."""
        kept = []
        for raw in document.events:
            reason = self.reason_to_drop(raw)
            if reason is None:
                kept.append(raw.event)
            else:
                skipped[reason] += 1
        return kept


def read_documents(
    paths: Iterable[Path],
    skipped: SkippedRows,
    predicate_form: str = "surface",
    keep: KeepDocument | None = None,
    skipped_lines: SkippedRows | None = None,
) -> Iterator[RawDocument]:
    """Read all documents and chains of the files, in the order of files and lines.

    Args:
        paths: JSON lines and tables; files with other suffixes are narrative cloze files or files of
            tuples.
        skipped: counts of skipped items, by reason; added to.
        predicate_form: `surface` keeps the predicate's own words, with particles and prepositions; `lemma`
            uses the lemma of the verb if the raw file has one.
        keep: selects the documents to read; the events of others are not parsed. None reads all.
        skipped_lines: counts of items skipped before `keep` can be called; None uses `skipped`.

    Raises:
        DataFormatError: a line cannot be read.
    """
    lines = skipped if skipped_lines is None else skipped_lines
    for path in paths:
        if has_records(path):
            yield from read_records_of_events(path, skipped, predicate_form, keep, lines)
            continue
        read = read_tuple_chains if raw_file_kind(path) == "tuples" else read_cloze_contexts
        for document in read(path, lines):
            if keep is None or keep(document.document_id, document.source):
                yield document


@cached_by_file
def raw_file_kind(path: Path) -> RawFileKind | None:
    """Determine the kind of a file from its name and its first line; None for any other text file."""
    if path.name == EXTRACTION_REPORT or not (has_records(path) or path.suffix == ".txt"):
        return None
    if has_records(path):
        record = first_record(path)
        columns = record if isinstance(record, dict) else {}
        if is_table(path) and {"events", "predicate"}.isdisjoint(columns):
            return None
        return "chains" if _is_chain(columns) else "documents"
    try:
        first = [text for _, text in islice(read_lines(path, SkippedRows("skip")), _LINES_THAT_TELL)]
    except EventformersError:
        first = []
    if any(_EVENT_SEPARATOR in text for text in first):
        return "tuples"
    return "cloze" if "mcnc" in path.name else None


def read_records_of_events(
    path: Path,
    skipped: SkippedRows,
    predicate_form: str = "surface",
    keep: KeepDocument | None = None,
    skipped_lines: SkippedRows | None = None,
) -> Iterator[RawDocument]:
    """Read documents from JSON lines: `{"document_id"?, "source"?, "license"?, "events": [...]}`, or chains:
    the same with `"protagonist"` or `"chain_id"`, or both. Or from a table, see `DOCUMENT_COLUMNS`.

    An event is `{"subject", "predicate", "object", "lemma"}`, where keys may be absent,
    `[subject, predicate, object]`, or the eight fields `[sentence, character offset, subject, predicate,
    object, lemma, passive, negated]` of extracted events; null is an absent role. `id` is an alias of
    `document_id`. `n_sent`, the number of sentences of an extracted document, is ignored. A negated event
    gets the predicate "not <predicate>", so that it differs from the event it negates. A passive event keeps
    its surface form: its subject is the patient.

    Other arguments are those of `read_documents`.

    Raises:
        DataFormatError: a line is not such a document.
    """

    def document(head: RawDocument, record: Record) -> RawDocument:
        events = [_raw_event(item, predicate_form, path, record.line) for item in record["events"]]
        return replace(head, events=events)

    lines = skipped if skipped_lines is None else skipped_lines
    columns = first_record(path) if is_table(path) else None
    if columns is None or "events" in columns:
        heads = read_records(
            path, lines, DOCUMENT_COLUMNS, ACCEPTED_DOCUMENT, _head, ignored=_IGNORED, whole="document"
        )
    else:
        rows = read_records(path, lines, EVENT_COLUMNS, ACCEPTED_DOCUMENT, _event_row, ignored=_IGNORED)
        heads = lines.parsed(_documents_of(rows, lines), _head, "document")
    wanted = (head for head in heads if keep is None or keep(head[0].document_id, head[0].source))
    return skipped.parsed_rows(wanted, document, "document")


def read_cloze_contexts(path: Path, skipped: SkippedRows) -> Iterator[RawDocument]:
    """Read the context events of each narrative cloze item (Weber et al. 2018), one document per item.

    The held-out event and the wrong candidates are skipped: they are the answer and its distractors. The
    source is the stem of the file name.

    Raises:
        DataFormatError: a line has a wrong number of fields, or a separator is misplaced.
    """
    for item in read_cloze_items(path, skipped):
        skipped["cloze_held_out_event"] += len(item.held_out)
        skipped["cloze_wrong_candidate"] += len(item.wrong)
        context = [RawEvent(event) for event in item.context]
        yield RawDocument(item.item_id, path.stem, license_of_source(path.stem), context)


def read_tuple_chains(path: Path, skipped: SkippedRows) -> Iterator[RawDocument]:
    """Read the chains of a file in the format of HAQAE (Weber et al., EMNLP 2018), each as a document.

    The source is the stem of the file name. The preposition is appended to the predicate, as in
    `subject|predicate|object` files, and underscores within a role become blanks. In the files of HAQAE's
    inverse cloze test, wrong continuations follow a chain after `<DIST>`; these are skipped and counted.

    Raises:
        DataFormatError: an event has a wrong number of fields.
    """

    def parse(line: int, text: str) -> tuple[int, list[RawEvent], int]:
        chain, *wrong = text.split(_DISTRACTOR_SEPARATOR)
        events = []
        for part in chain.split(_EVENT_SEPARATOR):
            fields = part.split()
            if len(fields) != 4:
                raise DataFormatError(path, line, f"an event of {len(fields)} fields", _ACCEPTED_TUPLES)
            preposition = fields[3].removeprefix(_NO_PREPOSITION)
            verb, subject, object_ = (field.replace("_", " ") for field in fields[:3])
            predicate = f"{verb} {preposition.replace('_', ' ')}"
            events.append(RawEvent(checked_event(subject, predicate, object_, path, line)))
        return line, events, len(wrong)

    for line, events, wrong in skipped.parsed_rows(read_rows(path, skipped), parse):
        if wrong:
            skipped["wrong_continuation"] += wrong
        stem = file_stem(path)
        identifier = f"{stem}/{line}"
        yield RawDocument(identifier, stem, license_of_source(stem), events, chain_id=identifier)


def _is_chain(record: dict[str, object]) -> bool:
    return "protagonist" in record or "chain_id" in record


def _head(record: Record) -> tuple[RawDocument, Record]:
    """Parse a document without its events."""
    if not isinstance(record.get("events"), list):
        raise record.fault('no "events" list', ACCEPTED_DOCUMENT)
    stem = file_stem(record.path)
    source = record.text("source") or stem
    document_id = record.text("document_id", "id") or f"{stem}/{record.line}"
    protagonist = chain_id = ""
    if _is_chain(record):
        protagonist = record.text("protagonist")
        chain_id = record.text("chain_id") or f"{document_id}/{protagonist or record.line}"
    license_name = license_of_source(source, record.text("license"))
    return RawDocument(document_id, source, license_name, [], chain_id, protagonist), record


def _event_row(record: Record) -> tuple[str, dict[str, str], list[Any], Record]:
    """Read the document of an event, the facts about its document, and its fields."""
    document_id = record.text("document_id", "id")
    if not document_id:
        raise record.fault("an event without document_id", "the id of its document")
    event = event_of({role: record.get(role) for role in _ROLES}, record.path, record.line)
    origin = {name: record.text(name) for name in _ORIGIN if name in record}
    # The fields of an extracted event, which begin with its sentence and place.
    fields = [0, 0, *event.values(), record.text("lemma"), 0, int(bool(record.get("negated")))]
    return document_id, origin, fields, record


def _documents_of(
    rows: Iterable[tuple[str, dict[str, str], list[Any], Record]], skipped: SkippedRows
) -> Iterator[Record]:
    """Join the rows of each document or chain, which must follow each other and agree in its facts."""
    complete: set[int] = set()
    key: tuple[str, str] | None = None
    document: Record | None = None
    for document_id, origin, fields, row in rows:
        found = (document_id, origin.get("chain_id") or origin.get("protagonist", ""))
        name = shown(found[1] or document_id)
        if hash(found) in complete:
            text = f"an event of {name} after other documents"
            skipped.leave_out(row.fault(text, "all events of a document together"), "row")
            continue
        if document is None or found != key:
            if document is not None:
                yield document
                complete.add(hash(key))
            values = {"document_id": document_id, **origin, "events": []}
            key, document = found, Record(values, row.path, row.line)
        # A table may state the facts of a document in one of its rows alone.
        stated = {fact: text for fact, text in origin.items() if text}
        if other := next((fact for fact, text in stated.items() if document[fact] not in ("", text)), None):
            text = f"the {other} {shown(origin[other])} of {name}, which has {shown(document[other])} above"
            skipped.leave_out(row.fault(text, f"one {other} for a document"), "row")
            continue
        document.update(stated)
        document["events"].append(fields)
    if document is not None:
        yield document


def _raw_event(item: object, predicate_form: str, path: Path, line: int) -> RawEvent:
    if isinstance(item, list) and len(item) == 8:
        return _extracted_event(item, predicate_form, path, line)
    lemma = ""
    if isinstance(item, dict) and "lemma" in item:
        lemma = role_of(item["lemma"], path, line)
        item = {role: value for role, value in item.items() if role != "lemma"}
        if predicate_form == "lemma" and lemma:
            item["predicate"] = lemma
    return RawEvent(event_of(item, path, line, ACCEPTED_DOCUMENT), lemma)


def _extracted_event(item: list[object], predicate_form: str, path: Path, line: int) -> RawEvent:
    subject, predicate, object_, lemma = [role_of(field, path, line) for field in item[2:6]]
    if not all(isinstance(place, int) and place >= 0 for place in item[:2]):
        raise DataFormatError(
            path, line, f"the places {shown(item[:2])}", "the sentence and the character offset of an event"
        )
    if not all(isinstance(mark, int) and mark in (0, 1) for mark in item[6:]):
        raise DataFormatError(path, line, f"the marks {shown(item[6:])}", "passive and negated, each 0 or 1")
    event = checked_event(
        subject, lemma if predicate_form == "lemma" and lemma else predicate, object_, path, line
    )
    if item[7]:
        event["predicate"] = f"not {event['predicate']}".rstrip()
    return RawEvent(event, lemma)
