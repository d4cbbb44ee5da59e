"""Newswire in SGML: documents one after the other, with or without a root.

The markup is scanned, not parsed as XML: such files have no root and no declared entities. Nothing outside a
file is ever opened for it, and a file that declares entities of its own is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.entities import html5
from pathlib import Path

from eventformers.datasets_scripts.raw_files import read_lines
from eventformers.errors import DataFormatError, shown

ACCEPTED_SGML = '<DOC id="…" type="…"> … <TEXT> <P> … </P> </TEXT> </DOC>, one document after the other'

_TAG = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z][\w.:-]*)(?P<rest>[^<>]*)>")
_DECLARATION = re.compile(r"<[!?][^<>]*>")
_OPEN_TAG = re.compile(r"</?(DOC|TEXT|P|DOCNO|DOCID)\b[^<>]*$", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""([\w:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_ENTITY = re.compile(r"&(#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]*);")
# Signs for typesetters: quotation marks, dashes and places in a line.
_TYPESETTING = {"LR": "", "UR": "", "QL": "", "QR": "", "QC": "", "MD": "--"}
_IDENTIFIERS = ("docno", "docid")


@dataclass
class SgmlDocument:
    """A document of a file, its paragraphs separated by a blank line.

    Args:
        line: where it begins, from 1.
        document_id: its attribute `id`, else what stands in DOCNO or DOCID; "" without any.
        kind: its attribute `type`; "" without one.
        paragraphs: its paragraphs, each on one line.
    """

    line: int
    document_id: str = ""
    kind: str = ""
    paragraphs: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The whole text."""
        return "\n\n".join(self.paragraphs)


def read_sgml(path: Path) -> Iterator[SgmlDocument]:
    """The documents of an SGML file, plain or gzip, with bounded memory.

    Only what stands in TEXT is text. Tags in it are taken off, and paragraphs end with P or a blank line.
    Character references and the names of HTML are decoded, others stay as they stand.

    Raises:
        DataFormatError: a document or its text does not end, begins within another, a tag is cut by the end
            of its line, text stands outside of a document, or the file declares entities.
    """
    scanner = _Scanner(path)
    for line, text in read_lines(path):
        yield from scanner.documents(line, text)
    scanner.finish()


class _Scanner:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.document: SgmlDocument | None = None
        self.in_text = False
        self.identifier: str | None = None
        self.words: list[str] = []

    def documents(self, line: int, text: str) -> Iterator[SgmlDocument]:
        """The documents that end on this line."""
        if "<!ENTITY" in text.upper():
            raise self._fault(line, "a declaration of entities")
        text = _DECLARATION.sub("", text)
        if (cut := _OPEN_TAG.search(text)) is not None:
            raise self._fault(line, f"the tag {shown(cut.group()[:40])} that does not end on its line")
        if not text.strip():
            self._end_paragraph()
            return
        place = 0
        for tag in _TAG.finditer(text):
            self._add(line, text[place : tag.start()])
            place = tag.end()
            name = tag["name"].lower()
            if name == "doc" and tag["end"]:
                yield self._end_document(line)
            elif name == "doc":
                self._begin_document(line, tag["rest"])
            elif name == "text":
                self._switch_text(line, begins=not tag["end"])
            elif name in _IDENTIFIERS and self.document is not None and not self.in_text:
                self._switch_identifier(begins=not tag["end"])
            elif name == "p":
                self._end_paragraph()
        self._add(line, text[place:])

    def finish(self) -> None:
        """Refuse a file that ends within a document."""
        if self.document is not None:
            raise self._fault(self.document.line, "a <DOC> without its </DOC>")

    def _begin_document(self, line: int, attributes: str) -> None:
        if self.document is not None:
            raise self._fault(line, f"<DOC> within the document that begins on line {self.document.line}")
        found = {
            match[1].lower(): match[2] or match[3] or match[4] for match in _ATTRIBUTE.finditer(attributes)
        }
        self.document = SgmlDocument(line, decoded(found.get("id") or ""), (found.get("type") or "").lower())

    def _end_document(self, line: int) -> SgmlDocument:
        document = self.document
        if document is None:
            raise self._fault(line, "</DOC> without its <DOC>")
        if self.in_text:
            raise self._fault(line, "</DOC> before </TEXT>")
        self.document, self.identifier = None, None
        return document

    def _switch_text(self, line: int, begins: bool) -> None:
        if self.document is None:
            raise self._fault(line, "<TEXT> outside of a document")
        if self.in_text == begins:
            raise self._fault(line, "<TEXT> within <TEXT>" if begins else "</TEXT> without its <TEXT>")
        self._end_paragraph()
        self.in_text = begins

    def _switch_identifier(self, begins: bool) -> None:
        if begins:
            self.identifier = ""
        elif self.identifier is not None and self.document is not None:
            self.document.document_id = self.document.document_id or " ".join(self.identifier.split())
            self.identifier = None

    def _add(self, line: int, text: str) -> None:
        if not text.strip():
            return
        if self.document is None:
            raise self._fault(line, f"the text {shown(text.strip()[:40])} outside of a document")
        if self.in_text:
            self.words += decoded(text).split()
        elif self.identifier is not None:
            self.identifier += decoded(text)

    def _end_paragraph(self) -> None:
        if self.words and self.document is not None:
            self.document.paragraphs.append(" ".join(self.words))
        self.words = []

    def _fault(self, line: int, found: str) -> DataFormatError:
        return DataFormatError(self.path, line, found, ACCEPTED_SGML)


def decoded(text: str) -> str:
    """Text with its references to characters decoded; an unknown one stays."""
    return _ENTITY.sub(_character, text) if "&" in text else text


def _character(reference: re.Match[str]) -> str:
    name = reference[1]
    if name.startswith("#"):
        code = int(name[2:], 16) if name[1] in "xX" else int(name[1:])
        return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else reference[0]
    if name in _TYPESETTING:
        return _TYPESETTING[name]
    return html5.get(f"{name};", html5.get(f"{name.lower()};", reference[0]))
