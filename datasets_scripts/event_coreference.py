"""Mentions of events, each labelled with its event, within and across documents.

Read are ECB+ (Cybulska and Vossen, LREC 2014) and WEC-Eng (Eirew, Cattan and Dagan, NAACL 2021) as their
owners publish them, and one's own mentions.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile, ZipFile

from eventformers.datasets_scripts.base import SAMPLE_ORIGIN, EventDatasetBuilder
from eventformers.datasets_scripts.document_splits import SPLIT_WORDS, DistinctIds
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.mention_reader import UNUSED_KEYS, mention_of, named
from eventformers.datasets_scripts.reading.fields import Record, checked_record
from eventformers.datasets_scripts.reading.lines import (
    files_inside,
    max_line_bytes,
    parse_json,
    read_regular_text,
    unpacked_name,
)
from eventformers.datasets_scripts.reading.markup import (
    XmlElement,
    attribute,
    children,
    elements,
    parse_xml,
    read_xml,
)
from eventformers.datasets_scripts.reading.tables import (
    columns_of,
    csv_file_rows,
    first_record,
    has_records,
    needed,
    read_records,
)
from eventformers.errors import DataFormatError, EventformersError, shown

_ORIGIN = ("ecbplus", "CC-BY-3.0")
_WEC_ORIGIN = ("wec_eng", "CC-BY-SA-3.0")
_OF_TYPES = ("event_type", "parent_type", "frames")
OWN_COLUMNS = columns_of("coreference")
"""Columns of a table of one's own mentions, and keys of JSON lines."""
_ACCEPTED = 'one JSON object a line with "text", "trigger", "document_id" and "cluster_id"'
SENTENCE_LIST = "ECBplus_coreference_sentences.csv"
DEVELOPMENT_TOPICS = ("2", "5", "12", "18", "21", "23", "34", "35")
TEST_TOPICS = tuple(str(topic) for topic in range(36, 46))
"""The usual topics of development and test; the others train."""
ARCHIVE = "ECB+"
"""Name of the folder of topics, and of its archive without `.zip`."""

_DOCUMENT = re.compile(r"(?:.*/)?(\d+)/(\1_\d+ecb(?:plus)?)\.xml")
_ACCEPTED_ECBPLUS = "ECB+.zip as published, or its unpacked folder ECB+ with one folder a topic"
_SENTENCE_COLUMNS = ("Topic", "File", "Sentence Number")
WEC_FILE = re.compile(r"(Train|Dev|Test)_Event_gold_mentions(?:_validated)?\.json")
"""The file of a split; `All_Event_gold_mentions_unfiltered.json` repeats the mentions of the others."""

_WEC_KEYS = (
    *("coref_chain", "coref_link", "doc_id", "mention_context", "mention_head", "mention_head_lemma"),
    *("mention_head_pos", "mention_id", "mention_index", "mention_ner", "mention_type"),
    *("predicted_coref_chain", "sent_id", "tokens_number", "tokens_str", "topic_id"),
)
_ACCEPTED_WEC = 'a list of mentions with "coref_chain", "doc_id", "mention_context" and "tokens_number"'


class EventCoreference(EventDatasetBuilder):
    """Mentions of events with the event of each, from ECB+ or WEC-Eng as their owners publish them.

    Of ECB+, only the sentences whose annotation is complete have rows. The splits are the usual ones: topics
    36 to 45 test, 2, 5, 12, 18, 21, 23, 34 and 35 validate, and the others train. `cluster_id` is the event;
    a mention that shares it with no other has one of its own. A topic has two `subtopic`s: two similar events
    with reports of their own. `participants` are the annotated people, things, times and places of
    the sentence. `trigger_start` and `trigger_end` are characters of `text`, the sentence; a trigger of
    several words reaches from its first to its last.

    WEC-Eng has no topics; its `text` is a paragraph of Wikipedia.

    One's own mentions are JSON lines or tables with the same columns, of which `text`, `trigger` or its
    offsets, and `cluster_id` are needed. A file with `dev`, `validation` or `test` in its name is that split.
    """

    NAME = "event_coreference"

    @classmethod
    def find_raw_files(cls, config_name: str, paths: list[Path]) -> dict[str, list[Path]]:
        """Find the archive or its folder, in a folder or given directly, and the list of sentences; else the
        files of one's own mentions."""
        for path in paths:
            for place in (path, path / ARCHIVE, path / f"{ARCHIVE}.zip"):
                topics = ecbplus_topics(place)
                sentences = place.parent / SENTENCE_LIST
                if topics and sentences.is_file():
                    files = sorted(place.glob("*/*.xml")) if place.is_dir() else [place]
                    files.append(sentences)
                    return {split: files for split in cls.SPLITS if topics & _topics(split, topics)}
        found: dict[str, list[Path]] = {split: [] for split in cls.SPLITS}
        for path in paths:
            for file in files_inside(path, lambda name: False):
                if WEC_FILE.fullmatch(file.name) or (
                    has_records(file) and "cluster_id" in (first_record(file) or ())
                ):
                    words = re.split(r"[._\-]+", unpacked_name(file).lower())
                    splits = {SPLIT_WORDS[word] for word in words if word in SPLIT_WORDS}
                    found[splits.pop() if len(splits) == 1 else "train"].append(file)
        return {split: files for split, files in found.items() if files}

    def examples(self) -> Iterator[Mapping[str, object]]:
        """Yield the mentions and fill `self.report`.

        Raises:
            DataFormatError: a file is malformed; names it and the line.
        """
        chains: Counter[object] = Counter()
        is_published = self.split_files[self.split][-1].name == SENTENCE_LIST
        for row in self._published() if is_published else self._own():
            chains[row["cluster_id"]] += 1
            yield row
        self.report.statistics["chains"] = len(chains)
        self.report.statistics["chains_of_one_mention"] = sum(count == 1 for count in chains.values())

    def _own(self) -> Iterator[dict[str, object]]:
        notes: Counter[str] = Counter()
        ids = DistinctIds()
        sentences: dict[str, dict[str, int]] = {}
        ignored = (*UNUSED_KEYS, *_OF_TYPES)
        source, license_name = SAMPLE_ORIGIN if self.is_sample else _WEC_ORIGIN
        of_wec: dict[str, Any] = dict.fromkeys(("topic", "subtopic", "kind"), "")
        of_wec |= {"sentence": None, "participants": [], "source": source, "license": license_name}

        def own_row(record: Record) -> dict[str, Any]:
            # Mentions of types call their text a sentence.
            sentence, participants = record.pop("sentence", None), record.get("participants") or []
            if sentence is not None and not (isinstance(sentence, int) and sentence >= 0):
                raise record.fault(f"the sentence {shown(sentence)}", "a whole number from 0")
            if not isinstance(participants, list) or not all(
                isinstance(one, dict) and all(isinstance(one.get(name), str) for name in ("text", "kind"))
                for one in participants
            ):
                found = f"participants={shown(participants)}"
                raise record.fault(found, 'a list of objects with "text" and "kind"')
            mention = mention_of(record, notes)
            if mention.trigger_start < 0:
                raise record.fault(f"no trigger in the mention {named(mention.mention_id)}", _ACCEPTED)
            return {
                **{name: value for name, value in mention._asdict().items() if name not in _OF_TYPES},
                **{name: record.text(name) for name in ("topic", "subtopic", "cluster_id", "kind")},
                "sentence": sentence,
                "participants": [{name: one[name] for name in ("text", "kind")} for one in participants],
            }

        for path in self.split_files[self.split]:
            skipped = self.report.skipped
            if WEC_FILE.fullmatch(path.name):
                rows: Iterable[dict[str, Any]] = ({**of_wec, **row} for row in read_wec(path, skipped))
            else:
                rows = read_records(path, skipped, OWN_COLUMNS, _ACCEPTED, own_row, ignored=ignored)
            for row in rows:
                self.report.read["mentions"] += 1
                numbers = sentences.setdefault(row["document_id"], {})
                number = numbers.setdefault(row["text"], len(numbers))
                mention_id = ids.of(row["mention_id"])
                self.report.add_source(row["source"], row["license"], mentions=1)
                yield {
                    **row,
                    "mention_id": mention_id,
                    "cluster_id": row["cluster_id"] or mention_id,
                    "sentence": number if row["sentence"] is None else row["sentence"],
                }
        notes["mentions_with_repeated_id"] = ids.repeats
        self.report.statistics.update({name: count for name, count in sorted(notes.items()) if count})

    def _published(self) -> Iterator[dict[str, object]]:
        *files, _ = self.split_files[self.split]
        place = files[0] if files[0].suffix == ".zip" else files[0].parent.parent
        topics = _topics(self.split, ecbplus_topics(place))
        source, license_name = SAMPLE_ORIGIN if self.is_sample else _ORIGIN
        for document in read_ecbplus(place, topics):
            self.report.read["documents"] += 1
            mentions = [mention for mention in document.mentions if mention.is_event]
            self.report.read["mentions"] += len(mentions)
            rows = [_row(document, mention) for mention in document.listed_mentions() if mention.is_event]
            if left_out := len(mentions) - len(rows):
                self.report.skipped["mention_in_a_sentence_not_listed"] += left_out
            if rows:
                self.report.add_source(source, license_name, documents=1, mentions=len(rows))
            for row in rows:
                yield {**row, "source": source, "license": license_name}


def _topics(split: str, found: frozenset[str]) -> frozenset[str]:
    """The topics of a split, of those that the data has."""
    held_out = {"validation": DEVELOPMENT_TOPICS, "test": TEST_TOPICS}
    if split in held_out:
        return found.intersection(held_out[split])
    return found.difference(*held_out.values())


def _row(document: EcbDocument, mention: EcbMention) -> dict[str, object]:
    sentence = document.sentences[mention.tokens[0]]
    inside = [place for place, number in enumerate(document.sentences) if number == sentence]
    start = document.places[inside[0]][0]
    first, last = document.places[min(mention.tokens)][0], document.places[max(mention.tokens)][1]
    mention_id = f"{document.name}#{mention.id}"
    return {
        "mention_id": mention_id,
        "document_id": document.name,
        "topic": document.topic,
        "subtopic": document.topic + document.name.rpartition("_")[2].lstrip("0123456789"),
        "cluster_id": mention.chain or mention_id,
        "sentence": sentence,
        "text": document.text[start : document.places[inside[-1]][1]],
        "trigger": " ".join(document.tokens[place] for place in mention.tokens),
        "trigger_start": first - start,
        "trigger_end": last - start,
        "kind": mention.kind,
        "participants": [
            {"text": " ".join(document.tokens[place] for place in other.tokens), "kind": other.kind}
            for other in document.mentions
            if not other.is_event and document.sentences[other.tokens[0]] == sentence
        ],
    }


# ECB+


class EcbMention(NamedTuple):
    """A mention of an event, participant, time or place.

    Args:
        id: its `m_id`, unique in its document.
        kind: its tag, such as `ACTION_OCCURRENCE`, `NEG_ACTION_STATE` or `HUMAN_PART_PER`.
        tokens: numbers of its tokens in the document, which may have gaps.
        chain: the instance it mentions: the same text in all documents of ECB+ if it is co-referent across
            documents, otherwise unique to the document; "" if it is annotated with no other mention.
    """

    id: str
    kind: str
    tokens: tuple[int, ...]
    chain: str

    @property
    def is_event(self) -> bool:
        """True for a mention of an event or a state."""
        return "ACTION" in self.kind


@dataclass(frozen=True)
class EcbDocument:
    """A document of ECB+; documents whose name ends in `ecb` and in `ecbplus` are of two seminal events.

    Args:
        topic: the topic, such as "12".
        name: the name of its file without `.xml`, such as "12_3ecbplus".
        sentences: the sentence of each token, from 0; of `ecbplus` documents, sentence 0 is an address.
        mentions: its mentions, in the order of the file.
        listed: the sentences whose annotation is complete: score no others.
    """

    topic: str
    name: str
    tokens: tuple[str, ...]
    sentences: tuple[int, ...]
    mentions: tuple[EcbMention, ...]
    listed: frozenset[int]

    @cached_property
    def text(self) -> str:
        """The tokens with a blank between two of a sentence, and a sentence a line."""
        text = "".join(self.tokens[:1])
        for (before, sentence), token in zip(pairwise(self.sentences), self.tokens[1:], strict=True):
            text += (" " if before == sentence else "\n") + token
        return text

    @cached_property
    def places(self) -> tuple[tuple[int, int], ...]:
        """Start and end of each token in `text`, in characters, end exclusive."""
        found, start = [], 0
        for token in self.tokens:
            found.append((start, start + len(token)))
            start += len(token) + 1
        return tuple(found)

    def listed_mentions(self) -> Iterator[EcbMention]:
        """The mentions of the listed sentences."""
        return (one for one in self.mentions if self.sentences[one.tokens[0]] in self.listed)


def ecbplus_topics(path: Path) -> frozenset[str]:
    """Find the topics in an archive or a folder; none if it is neither, or not of ECB+."""
    if path.is_dir():
        names = [file.relative_to(path).as_posix() for file in path.glob("*/*.xml")]
    elif path.suffix == ".zip" and path.is_file():
        with _archive(path) as archive:
            names = archive.namelist()
    else:
        names = []
    return frozenset(match[1] for match in map(_DOCUMENT.fullmatch, names) if match)


@contextmanager
def _archive(path: Path) -> Iterator[ZipFile]:
    try:
        with ZipFile(path) as archive:
            yield archive
    except (BadZipFile, UnicodeDecodeError) as error:
        raise DataFormatError(path, None, f"a broken archive ({error})", _ACCEPTED_ECBPLUS) from error
    except OSError as error:
        raise EventformersError(f"cannot read {path}: {error.strerror or error}") from error


def read_ecbplus(path: Path, topics: Collection[str] | None = None) -> Iterator[EcbDocument]:
    """Read the documents of ECB+ in the order of their names.

    Args:
        path: `ECB+.zip`, or the folder `ECB+`; `SENTENCE_LIST` is beside it.
        topics: the topics to read; None reads all.

    Raises:
        DataFormatError: a file is malformed; names it and the line.
        EventformersError: a file cannot be opened, or there is no document of these topics.
    """
    listed: dict[tuple[str, str], set[int]] = defaultdict(set)

    sentences = path.parent / SENTENCE_LIST
    for line, row in csv_file_rows(sentences, SkippedRows(), needed(*_SENTENCE_COLUMNS), row="sentence"):
        topic, document, number = (str(row[name]).strip() for name in _SENTENCE_COLUMNS)
        if not number.isdecimal():
            raise DataFormatError(sentences, line, f"the sentence {shown(number)}", "a number")
        listed[topic, f"{topic}_{document}"].add(int(number))
    empty = True
    for topic, name, file, root in _roots(path, topics):
        yield _ecb_document(root, file, topic, name, frozenset(listed[topic, name]))
        empty = False
    if empty:
        wanted = "" if topics is None else f" of the topics {', '.join(sorted(topics))}"
        raise EventformersError(f"{path}: no document{wanted}; accepted: {_ACCEPTED_ECBPLUS}")


def _roots(path: Path, topics: Collection[str] | None) -> Iterator[tuple[str, str, Path, XmlElement]]:
    """Topic, name, file and root of each document."""
    if path.is_dir():
        of_folder = ((file, _DOCUMENT.fullmatch(file.as_posix())) for file in sorted(path.glob("*/*.xml")))
        for file, match in of_folder:
            if match and (topics is None or match[1] in topics):
                yield match[1], match[2], file, read_xml(file)
        return
    with _archive(path) as archive:
        for item in sorted(archive.infolist(), key=lambda item: item.filename):
            match = _DOCUMENT.fullmatch(item.filename)
            if match and (topics is None or match[1] in topics):
                file = path / item.filename
                if item.file_size > max_line_bytes():
                    found = f"a document of {item.file_size:,} bytes"
                    raise DataFormatError(file, None, found, f"at most {max_line_bytes():,}")
                yield match[1], match[2], file, parse_xml(archive.read(item).decode("utf-8-sig"), file)


def _ecb_document(root: XmlElement, file: Path, topic: str, name: str, listed: frozenset[int]) -> EcbDocument:
    tokens: list[str] = []
    sentences: list[int] = []
    number_of: dict[str, int] = {}
    for token in children(root, "token"):
        sentence = attribute(token, "sentence", file, "the number of its sentence")
        if not (token.text and sentence.isdecimal()):
            found = f"a token {shown(token.text or '')} of the sentence {shown(sentence)}"
            raise DataFormatError(file, token.line, found, "a text, and the number of its sentence")
        number_of[attribute(token, "t_id", file, "the id of the token")] = len(tokens)
        tokens.append(token.text)
        sentences.append(int(sentence))
    chains: dict[str, str] = {}
    for relations in children(root, "Relations"):
        for relation in relations:
            chain = relation.get("note") or f"{name}#{relation.get('r_id')}"
            chains.update((source.get("m_id", ""), chain) for source in relation.findall("source"))
    mentions = []
    for markables in children(root, "Markables"):
        for mention in (one for one in elements(markables, "*") if children(one, "token_anchor")):
            anchors = [anchor.get("t_id", "") for anchor in children(mention, "token_anchor")]
            if unknown := [anchor for anchor in anchors if anchor not in number_of]:
                found = f"<token_anchor> of the token {shown(unknown[0])}"
                raise DataFormatError(file, mention.line, found, "the t_id of a token of the document")
            id_ = attribute(mention, "m_id", file, "the id of the mention")
            mentions.append(
                EcbMention(id_, mention.tag, tuple(number_of[one] for one in anchors), chains.get(id_, ""))
            )
    return EcbDocument(topic, name, tuple(tokens), tuple(sentences), tuple(mentions), listed)


# WEC-Eng


def read_wec(path: Path, skipped: SkippedRows) -> Iterator[dict[str, Any]]:
    """Read the mentions of a split, with offsets in the paragraph.

    Raises:
        DataFormatError: the file is no JSON list, or a mention is malformed; its number stands for the line.
    """
    # A file is one value of up to 90 MB.
    mentions = parse_json(read_regular_text(path, _ACCEPTED_WEC, is_limited=False), path, None, _ACCEPTED_WEC)
    if not isinstance(mentions, list):
        raise DataFormatError(path, None, shown(mentions), _ACCEPTED_WEC)
    yield from skipped.parsed_rows(
        enumerate(mentions, 1),
        lambda number, value: _wec_mention(checked_record(value, _WEC_KEYS, path, number, _ACCEPTED_WEC)),
    )


def _wec_mention(record: Record) -> dict[str, Any]:
    words, places, chain = (record.get(name) for name in ("mention_context", "tokens_number", "coref_chain"))
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise record.fault(f"mention_context={shown(words)}", "a list of tokens")
    known = range(len(words))
    # 1.0 and true are in a range, too.
    if (
        not isinstance(places, list)
        or not places
        or not all(type(one) is int and one in known for one in places)
    ):
        accepted = f"one or more places in mention_context, 0 to {len(words) - 1}"
        raise record.fault(f"tokens_number={shown(places)}", accepted)
    if type(chain) is not int:
        raise record.fault(f"coref_chain={shown(chain)}", "a whole number")
    first, last = min(places), max(places)
    start = sum(len(word) + 1 for word in words[:first])
    trigger = " ".join(words[first : last + 1])
    return {
        "mention_id": record.text("mention_id"),
        "document_id": record.text("doc_id"),
        "cluster_id": str(chain),
        "text": " ".join(words),
        "trigger": trigger,
        "trigger_start": start,
        "trigger_end": start + len(trigger),
    }
