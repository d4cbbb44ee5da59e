"""Reader of ECB+ (Cybulska and Vossen, LREC 2014), as its owners publish it: `ECB+.zip` or its folder, and
beside it the list of the sentences whose annotation is complete, `ECBplus_coreference_sentences.csv`."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile, ZipFile

from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.reading.lines import max_line_bytes
from eventformers.datasets_scripts.reading.markup import (
    XmlElement,
    attribute,
    children,
    elements,
    parse_xml,
    read_xml,
)
from eventformers.datasets_scripts.reading.tables import csv_file_rows
from eventformers.errors import DataFormatError, EventformersError, shown

SENTENCE_LIST = "ECBplus_coreference_sentences.csv"
DEVELOPMENT_TOPICS = ("2", "5", "12", "18", "21", "23", "34", "35")
TEST_TOPICS = tuple(str(topic) for topic in range(36, 46))
"""The usual topics of development and test; the others train."""
ARCHIVE = "ECB+"
"""Name of the folder of topics, and of its archive without `.zip`."""

_DOCUMENT = re.compile(r"(?:.*/)?(\d+)/(\1_\d+ecb(?:plus)?)\.xml")
_ACCEPTED = "ECB+.zip as published, or its unpacked folder ECB+ with one folder a topic"
_SENTENCE_COLUMNS = ("Topic", "File", "Sentence Number")


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
        raise DataFormatError(path, None, f"a broken archive ({error})", _ACCEPTED) from error
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

    def header(names: Collection[str], path: Path) -> Collection[str]:
        if missing := [name for name in _SENTENCE_COLUMNS if name not in names]:
            accepted = f"the columns {', '.join(_SENTENCE_COLUMNS)}"
            raise DataFormatError(path, 1, f"no column {', '.join(missing)}", accepted)
        return _SENTENCE_COLUMNS

    for line, row in csv_file_rows(path.parent / SENTENCE_LIST, SkippedRows(), header, row="sentence"):
        topic, document, number = (str(row[name]).strip() for name in _SENTENCE_COLUMNS)
        if not number.isdecimal():
            raise DataFormatError(
                path.parent / SENTENCE_LIST, line, f"the sentence {shown(number)}", "a number"
            )
        listed[topic, f"{topic}_{document}"].add(int(number))
    empty = True
    for topic, name, file, root in _roots(path, topics):
        yield _document(root, file, topic, name, frozenset(listed[topic, name]))
        empty = False
    if empty:
        wanted = "" if topics is None else f" of the topics {', '.join(sorted(topics))}"
        raise EventformersError(f"{path}: no document{wanted}; accepted: {_ACCEPTED}")


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


def _document(root: XmlElement, file: Path, topic: str, name: str, listed: frozenset[int]) -> EcbDocument:
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
