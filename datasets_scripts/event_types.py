"""Builder of event mentions with seen and unseen types, and of the frames that types are linked to.

Annotations of ACE 2005 are in `.apf.xml` files. Their offsets count the characters of the text in the `.sgm`
file without its tags, from 0 and with the last character included. A character reference such as `&amp;`
counts as the characters it is written with. The annotation also repeats the text of every annotated span, and
the reader checks it against the offsets.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from eventformers.datasets_scripts.base import (
    SAMPLE_ORIGIN,
    EventDatasetBuilder,
    EventDatasetConfig,
    name_list,
)
from eventformers.datasets_scripts.document_splits import DistinctIds
from eventformers.datasets_scripts.frame_reader import frame_files, read_frames
from eventformers.datasets_scripts.licenses import UNSPECIFIED, license_of_source
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.mention_reader import (
    ACE_FRAMES,
    ACE_SEEN_TYPES,
    REACH,
    Mention,
    Span,
    ace_frames,
    named,
    nearest,
    read_mentions,
)
from eventformers.datasets_scripts.reading.lines import (
    corpus_folders,
    file_stem,
    files_inside,
    format_suffix,
    read_regular_text,
)
from eventformers.datasets_scripts.reading.markup import (
    XmlElement,
    attribute,
    check_children,
    children,
    read_xml,
    replace_marked,
)
from eventformers.datasets_scripts.reading.tables import first_record, has_records, is_table
from eventformers.errors import DataFormatError, UnknownNameError, shown
from eventformers.files import file_digest
from eventformers.strict import Number

ANNOTATION_SUFFIX = ".apf.xml"
ADJUDICATED_FOLDERS = ("timex2norm", "adj")
"""The folders of a genre that contain final annotations, in order of preference."""
FIRST_PASS_FOLDERS = ("fp1", "fp2")

_LANGUAGE = "english"
_TAG = re.compile(r"<.*?>", re.DOTALL)
_REFERENCE = re.compile(r"&(?:\w+|#\d{1,9}|#[xX][0-9a-fA-F]{1,8});")
# Two texts of the corpus have a line of the one kind where tools that read it write the other.
_DASHES = str.maketrans("_", "-")

_MOST_DIGITS = 9
# The elements that apf.v5.1.1.dtd allows.
_DOCUMENT_PARTS = frozenset({"entity", "relation", "event", "value", "timex2"})
_EVENT_PARTS = frozenset({"event_argument", "event_mention"})
_MENTION_PARTS = frozenset({"extent", "ldc_scope", "anchor", "event_mention_argument"})
_SOURCE_PARTS = frozenset({"document", "external_resource"})

ACCEPTED_EVENT = (
    "<event_mention ID> in <event TYPE SUBTYPE>, with <charseq START END> in <ldc_scope> or <extent>"
)


def annotation_files(path: Path) -> list[Path]:
    """Find the annotations in a folder, one per document; a file is returned as it is.

    They may be anywhere in the folder, for example in LDC's `data/English/*/timex2norm`. Of the folders of a
    genre, `timex2norm` takes precedence over `adj`; first passes are skipped unless they are given directly.
    If a folder is named after English, other languages are skipped.
    """
    if path.is_file():
        return [path] if path.name.endswith(ANNOTATION_SUFFIX) else []
    found = sorted(path.rglob(f"*{ANNOTATION_SUFFIX}"))
    english = [
        item for item in found if _LANGUAGE in (part.lower() for part in item.relative_to(path).parts[:-1])
    ]
    of_genre: dict[Path, Path] = {}
    for item in english or found:
        if item.parent != path and item.parent.name in FIRST_PASS_FOLDERS:
            continue
        genre = item.parent.parent if item.parent.name in ADJUDICATED_FOLDERS else item.parent
        document = genre / item.name
        if document not in of_genre or _rank(item) < _rank(of_genre[document]):
            of_genre[document] = item
    # A file of the same name elsewhere is a copy if its text is the same, else another document.
    chosen: dict[tuple[str, str], Path] = {}
    for item in sorted(of_genre.values(), key=lambda item: (_rank(item), item)):
        text = text_file(item)
        chosen.setdefault((item.name, file_digest(text) if text.is_file() else ""), item)
    return sorted(chosen.values())


def text_file(annotation: Path) -> Path:
    """Path of the text of an annotation."""
    return annotation.with_name(annotation.name.removesuffix(ANNOTATION_SUFFIX) + ".sgm")


def read_ace(
    annotations: Iterable[Path],
    source: str,
    license_name: str,
    read: Counter[str],
    notes: Counter[str],
    skipped: SkippedRows,
) -> Iterator[Mention]:
    """Read the event mentions of annotated documents in order; the sentence is `ldc_scope`, else `extent`.

    Each run of white space in sentences and triggers becomes one blank, and character references become
    characters. A span whose text is not at its offsets is used if the text is within `mention_reader.REACH`
    characters of them.

    Args:
        annotations: `.apf.xml` files, with their `.sgm` files in the same folder.
        license_name: its terms of use.
        read: counts of documents and of checked spans; added to.
        notes: counts of spans with character references, of corrected spans, and of triggers that are missing
            or outside their sentence; added to.
        skipped: policy for malformed documents; a skipped one is counted with its text and its annotation.

    Raises:
        DataFormatError: a file cannot be read, an element of APF is missing, or the text of a span is not at
            its offsets; names the mention.
    """

    def parse(path: Path) -> tuple[list[Mention], Counter[str], Counter[str]]:
        root = read_xml(path)
        if root.tag != "source_file":
            raise DataFormatError(path, root.line, f"<{root.tag}>", "<source_file> with <document>")
        check_children(root, _SOURCE_PARTS, path)
        # Separate counts: a document that is skipped must not change the totals.
        text = _AnnotatedText(path, Counter(), Counter())
        found = []
        for document in children(root, "document"):
            text.read["documents"] += 1
            check_children(document, _DOCUMENT_PARTS, path)
            for event in children(document, "event"):
                check_children(event, _EVENT_PARTS, path)
                names = (attribute(event, name, path, ACCEPTED_EVENT) for name in ("TYPE", "SUBTYPE"))
                event_type = ":".join(names)
                for mention in children(event, "event_mention"):
                    check_children(mention, _MENTION_PARTS, path)
                    mention_id = attribute(mention, "ID", path, ACCEPTED_EVENT)
                    sentence, trigger, start = _sentence(text, mention, named(mention_id))
                    found.append(
                        Mention(
                            mention_id=mention_id,
                            document_id=document.get("DOCID", path.name.removesuffix(ANNOTATION_SUFFIX)),
                            source=source,
                            license=license_name,
                            text=sentence,
                            trigger=trigger,
                            trigger_start=start,
                            trigger_end=start + len(trigger) if trigger else -1,
                            event_type=event_type,
                            frames=list(ace_frames(event_type)),
                        )
                    )
        return found, text.read, text.notes

    for mentions, own_read, own_notes in skipped.parsed(annotations, parse, "document"):
        read.update(own_read)
        notes.update(own_notes)
        yield from mentions


class _AnnotatedText:
    """The text of a document, which finds annotated spans by their offsets.

    Args:
        annotation: the `.apf.xml` file; the text is the `.sgm` file of the same name.
        read: count of checked spans; added to.
        notes: counts of spans with character references and of corrected spans; added to.

    Raises:
        DataFormatError: there is no text, or it is not UTF-8.
    """

    def __init__(self, annotation: Path, read: Counter[str], notes: Counter[str]) -> None:
        self.annotation, self.path = annotation, text_file(annotation)
        self.read, self.notes = read, notes
        if not self.path.is_file():
            raise DataFormatError(
                annotation, None, f"no {self.path.name} beside it", "the .sgm and .apf.xml of a document"
            )
        self.written = replace_marked(
            _TAG, ">", "", read_regular_text(self.path, "text", is_limited=False).removeprefix("\ufeff")
        )
        pieces: list[str] = []
        self._ends: list[int] = []
        self._shrunk: list[int] = []
        done = shrunk = 0
        for match in _REFERENCE.finditer(self.written):
            character = html.unescape(match.group())
            pieces += [self.written[done : match.start()], character]
            done = match.end()
            shrunk += len(match.group()) - len(character)
            self._ends.append(done)
            self._shrunk.append(shrunk)
        self.text = "".join([*pieces, self.written[done:]])
        # The translation keeps the length, and so the offsets.
        self._dashed = self.text.translate(_DASHES)

    def find(self, stretch: XmlElement, mention_id: str) -> Span | None:
        """The span in `text` of an element's first `charseq`, end exclusive; None if it has none.

        Raises:
            DataFormatError: its offsets are not numbers, or its text is not near them.
        """
        charseq = next(iter(children(stretch, "charseq")), None)
        if charseq is None:
            return None
        stated = [charseq.get(name, "") for name in ("START", "END")]
        for name, value in zip(("START", "END"), stated, strict=True):
            if not value.isdecimal() or len(value) > _MOST_DIGITS:
                found = f"{name}={shown(value)} in the mention {mention_id}"
                raise DataFormatError(self.annotation, charseq.line, found, "a whole number from 0")
        start, end = map(int, stated)
        wanted = charseq.text or ""
        if not wanted.strip():
            return None
        self.read["stretches"] += 1
        span = self._place(start), self._place(end + 1)
        plain = _REFERENCE.sub(lambda match: html.unescape(match.group()), wanted)
        if self.written[start : end + 1] == wanted and self.text[slice(*span)] == plain:
            return span
        if self.text[slice(*span)] == wanted:
            self.notes["stretches_with_character_references"] += 1
            return span
        near = nearest(self._dashed, wanted.translate(_DASHES), span[0])
        if near is None:
            raise DataFormatError(
                self.annotation,
                charseq.line,
                f"the <{stretch.tag}> {_short(wanted)} of the mention {mention_id} at {start} to {end}, where"
                f" {self.path.name} has {_short(self.written[start : end + 1])}",
                f"a charseq whose text is within {REACH} characters of its START",
            )
        self.notes["stretches_moved_to_their_text"] += 1
        return near

    def _place(self, written: int) -> int:
        """Convert an offset in `written` to an offset in `text`."""
        count = bisect_right(self._ends, written)
        return written - (self._shrunk[count - 1] if count else 0)


def _sentence(text: _AnnotatedText, mention: XmlElement, mention_id: str) -> tuple[str, str, int]:
    """Sentence, trigger and offset of the trigger in the sentence; "" and -1 without a trigger."""
    scopes = [item for name in ("ldc_scope", "extent") for item in children(mention, name)]
    scope = next((span for item in scopes if (span := text.find(item, mention_id)) is not None), None)
    if scope is None:
        raise DataFormatError(
            text.annotation, mention.line, f"the mention {mention_id} without a sentence", ACCEPTED_EVENT
        )
    start, end = scope
    sentence = " ".join(text.text[start:end].split())
    if not sentence:
        raise DataFormatError(
            text.annotation, mention.line, f"the mention {mention_id} with only blanks", ACCEPTED_EVENT
        )
    anchors = children(mention, "anchor")
    trigger = text.find(anchors[0], mention_id) if anchors else None
    if trigger is None:
        text.notes["mentions_without_trigger"] += 1
        return sentence, "", -1
    if not start <= trigger[0] < trigger[1] <= end:
        text.notes["triggers_outside_of_their_sentence"] += 1
        return sentence, "", -1
    words = " ".join(text.text[slice(*trigger)].split())
    if not words:
        text.notes["mentions_without_trigger"] += 1
        return sentence, "", -1
    # Stripping with the trigger's first letter appended keeps the blank before the trigger.
    before = " ".join((text.text[start : trigger[0]] + words[0]).split())
    return sentence, words, len(before) - 1


def _rank(annotation: Path) -> int:
    folder = annotation.parent.name
    return ADJUDICATED_FOLDERS.index(folder) if folder in ADJUDICATED_FOLDERS else len(ADJUDICATED_FOLDERS)


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")


class TypeSplit(NamedTuple):
    """Event types by role; each list in descending order of frequency.

    Args:
        seen: training may use their labels.
        unseen: their mentions are clustered, and their labels serve only for scoring.
        left_out: the rest.
    """

    seen: list[str]
    unseen: list[str]
    left_out: list[str]


def split_types(
    counts: Counter[str],
    seen_types: Collection[str] | None = None,
    num_seen: int = 10,
    num_unseen: int = 23,
    known: Iterable[str] = (),
) -> TypeSplit:
    """Split event types by name or by frequency; ties are broken alphabetically.

    Args:
        counts: number of mentions of each type.
        seen_types: the seen types; None takes the `num_seen` most frequent ones.
        num_seen: number of seen types if they are not named.
        num_unseen: number of unseen types, the next in frequency; 0 takes all others.
        known: further accepted names, of types without mentions.

    Raises:
        UnknownNameError: a named type has no mentions.
    """
    accepted = {*counts, *known}
    for name in seen_types or ():
        if name not in accepted:
            raise UnknownNameError("event type in seen_types", name, accepted)
    order = sorted(counts, key=lambda name: (-counts[name], name))
    seen = order[:num_seen] if seen_types is None else [name for name in order if name in seen_types]
    others = [name for name in order if name not in seen]
    end = num_unseen or len(others)
    return TypeSplit(seen, others[:end], others[end:])


_ACE_SOURCE = "ace2005"
_FRAMENET_ORIGIN = ("FrameNet", "CC-BY-3.0")
_FRAMENET_FOLDERS = ("framenet", "fndata")
"""Prefixes of the names of folders in which FrameNet is published."""


@dataclass
class EventTypesConfig(EventDatasetConfig):
    """Settings of the seen and unseen event types. They do not apply to `frames`.

    Args:
        seen_types: types whose labels may be used in training; None takes the most frequent ones, and the
            paper's ten for `ace2005`.
        num_seen: number of seen types if none are named.
        num_unseen: number of unseen types, which are to be found: the next most frequent ones; 0 takes all
            others. Mentions of the remaining types are left out and counted.
    """

    seen_types: tuple[str, ...] | None = None
    num_seen: Number = 10
    num_unseen: Number = 23

    def __post_init__(self) -> None:
        if self.seen_types is not None:
            self.seen_types = name_list("seen_types", self.seen_types)
        elif self.name == "ace2005":
            self.seen_types = ACE_SEEN_TYPES
        super().__post_init__()


class EventTypes(EventDatasetBuilder):
    """Event mentions with their types: seen types, and unseen types to be induced.

    - `mentions`: sentences from JSON lines (`mention_reader.read_mentions`), `*.jsonl` or `*.jsonl.gz`, or
      from tables.
    - `ace2005`: the event mentions of ACE 2005 (`read_ace`): LDC's folder, or any folder with
      `.sgm` and `.apf.xml` files (`annotation_files`).
    - `frames`: FrameNet's folder with `frame/*.xml` and `frRelation.xml`, or JSON lines
      and tables (`frame_reader.read_frames`).

    Training uses every mention. `seen` marks the mentions whose `event_type` may be used in training; the
    types of the others serve only for scoring. A mention without a stated type has the type "" and is not
    seen. `trigger_start` and `trigger_end` are character offsets in `text`, end exclusive; a mention without
    a trigger has "" and -1. `frames` are the frames of the raw file, else the paper's for types of ACE 2005.

    Mentions that differ only in their ids are kept and counted. If ids repeat, all but the first get the
    suffix `#2`, `#3` and so on, and are counted.
    """

    NAME = "event_types"
    BUILDER_CONFIG_CLASS = EventTypesConfig

    @classmethod
    def find_raw_files(cls, config_name: str, paths: list[Path]) -> dict[str, list[Path]]:
        """Find the files in the folders that the config reads, and those given directly."""
        found: list[Path] = []
        for path in paths:
            if config_name == "ace2005":
                for annotation in annotation_files(path):
                    found += [file for file in (annotation, text_file(annotation)) if file.is_file()]
                continue
            folders = corpus_folders(path, _is_framenet) if config_name == "frames" else []
            framenet = [file for folder in folders for file in frame_files(folder)]
            kinds = {item: _record_kind(item) for item in files_inside(path, _is_framenet)}
            if path in kinds and is_table(path):
                # A table that is given directly is read, so that its unknown columns are reported.
                kinds[path] = kinds[path] or "mentions"
            found += framenet or [item for item, kind in kinds.items() if kind == config_name]
        return {"train": list(dict.fromkeys(found))} if found else {}

    def facts_from_paths(self, config_name: str) -> dict[str, object]:
        """The source and the licence of frames."""
        return {"origin": list(self._frame_origin())} if config_name == "frames" else {}

    def accepted_when_empty(self) -> str:
        """What a split needs to have rows."""
        return "at least one mention" if self.config.name != "frames" else "at least one frame"

    def examples(self) -> Iterator[Mapping[str, object]]:
        """Yield the mentions or frames and fill `self.report`.

        Raises:
            DataFormatError: a raw file cannot be read, or a trigger or sentence is not at its offsets; names
                file, line and mention.
            UnknownNameError: a setting names a type without mentions.
        """
        if self.config.name == "frames":
            yield from self._frame_rows()
            return
        config, report = self.config, self.report
        notes: Counter[str] = Counter()
        files = self.split_files[self.split]
        if config.name == "ace2005":
            origin = SAMPLE_ORIGIN if self.is_sample else (_ACE_SOURCE, license_of_source(_ACE_SOURCE))
            annotations = [path for path in files if path.suffix == ".xml"]
            mentions = list(read_ace(annotations, *origin, report.read, notes, report.skipped))
        else:
            mentions = [one for path in files for one in read_mentions(path, report.skipped, notes)]
        report.read["mentions"] = len(mentions)
        counts = Counter(mention.event_type for mention in mentions if mention.event_type)
        settings = (config.seen_types, config.num_seen, config.num_unseen)
        split = split_types(counts, *settings, known=ACE_FRAMES if config.name == "ace2005" else ())
        seen, left_out = frozenset(split.seen), frozenset(split.left_out)
        ids = DistinctIds()
        alike: Counter[tuple[str, int, str]] = Counter()
        sentences: dict[bool, set[str]] = {True: set(), False: set()}
        for mention in mentions:
            if mention.event_type in left_out:
                report.skipped["mention_of_further_type"] += 1
                continue
            mention = mention._replace(mention_id=ids.of(mention.mention_id))
            alike[mention.text, mention.trigger_start, mention.event_type] += 1
            is_seen = mention.event_type in seen
            kind = "seen" if is_seen else "unseen" if mention.event_type else "untyped"
            notes[f"{kind}_mentions"] += 1
            sentences[is_seen].add(mention.text)
            report.add_source(mention.source, mention.license, mentions=1)
            yield {**mention._asdict(), "seen": is_seen}
        notes["mentions_with_repeated_id"] = ids.repeats
        notes["mentions_alike"] = sum(count - 1 for count in alike.values())
        notes["seen_sentences"], notes["unseen_sentences"] = map(len, (sentences[True], sentences[False]))
        report.statistics.update({name: count for name, count in sorted(notes.items()) if count})
        report.statistics["seen_types"] = list(split.seen)
        report.statistics["unseen_types"] = list(split.unseen)

    def _frame_rows(self) -> Iterator[Mapping[str, object]]:
        report = self.report
        source, license_name = self._frame_origin()
        names, parents = set(), set()
        for frame in read_frames(self.split_files[self.split], report.skipped):
            names.add(frame.name)
            parents.update(frame.parents)
            report.read["frames"] += 1
            report.read["inheritance_edges"] += len(frame.parents)
            report.add_source(source, license_name, frames=1)
            yield {**frame._asdict(), "source": source, "license": license_name}
        report.statistics["parents_that_are_no_row"] = len(parents - names)

    def _frame_origin(self) -> tuple[str, str]:
        """Source and licence of the frames.

        FrameNet is identified by its XML or the name of its folder. Any other file is the user's own.
        """
        if self.is_sample:
            return SAMPLE_ORIGIN
        paths = self.split_files["train"]
        if all(path.suffix == ".xml" or _is_framenet(path.parent.name) for path in paths):
            return _FRAMENET_ORIGIN
        return file_stem(paths[0]), UNSPECIFIED


def _is_framenet(folder_name: str) -> bool:
    return folder_name.lower().startswith(_FRAMENET_FOLDERS)


def _record_kind(path: Path) -> Literal["mentions", "frames"] | None:
    """Determine the content of a file of records from its columns or its first readable line; other `.jsonl`
    files count as mentions."""
    if not has_records(path):
        return None
    record = first_record(path)
    if isinstance(record, dict):
        if "cluster_id" in record and "event_type" not in record:
            # The mentions of `event_coreference`.
            return None
        if "text" in record or "sentence" in record:
            return "mentions"
        if "name" in record and "definition" in record:
            return "frames"
    return None if is_table(path) or format_suffix(path) == ".json" else "mentions"
