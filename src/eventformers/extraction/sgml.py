"""Reader of newswire in SGML: consecutive documents, with or without a root.

The markup is scanned, not parsed as XML: such files have no root and no declared entities. The reader never
opens anything outside the file, and rejects a file that declares entities.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.entities import html5
from pathlib import Path

from eventformers.datasets_scripts.malformed import HeldFaults, SkippedRows
from eventformers.datasets_scripts.reading.lines import MAX_LINE_BYTES_VARIABLE, max_line_bytes, read_lines
from eventformers.errors import DataFormatError, shown

ACCEPTED_SGML = '<DOC id="…" type="…"> … <TEXT> <P> … </P> </TEXT> </DOC>, one document after the other'

# Possessive, because the pattern after it may match the same characters: otherwise a long unfinished
# word would be tried at each of its lengths.
_TAG = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z][\w.:-]*+)(?P<rest>[^<>]*+)>")
_DECLARATION = re.compile(r"<[!?][^<>]*>")
_OPEN_TAG = re.compile(r"</?(DOC|TEXT|P|DOCNO|DOCID)\b[^<>]*$", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"""(?<![\w:-])([\w:-]++)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_ENTITY = re.compile(r"&(#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]*);")
# Typesetting marks: quotation marks, dashes and line positions.
_TYPESETTING = {"LR": "", "UR": "", "QL": "", "QR": "", "QC": "", "MD": "--"}
_IDENTIFIERS = ("docno", "docid")


@dataclass
class SgmlDocument:
    """A document of a file, its paragraphs separated by a blank line.

    Args:
        line: its first line, from 1.
        document_id: its attribute `id`, else the content of DOCNO or DOCID; "" if there is none.
        kind: its attribute `type`; "" if there is none.
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


def read_sgml(path: Path, skipped: SkippedRows) -> Iterator[SgmlDocument]:
    """Read the documents of an SGML file, plain or gzip, in bounded memory.

    Only the content of TEXT is text. Tags inside it are removed, and paragraphs end with P or a blank line.
    Character references and the entity names of HTML are decoded; others stay unchanged.

    Args:
        skipped: policy for malformed documents; content outside a document counts as one. The next one begins
            with `<DOC>`, or after `</DOC>`.

    Raises:
        DataFormatError: a document or its text does not end, begins within another, a tag continues after the
            end of its line, text is outside a document, or the file declares entities.
    """
    scanner = _Scanner(path, skipped)
    held = HeldFaults()
    for line, text in read_lines(path, held):
        scanner.leave_out(held.take())
        yield from scanner.documents(line, text)
    scanner.leave_out(held.take())
    scanner.finish()


class _Scanner:
    def __init__(self, path: Path, skipped: SkippedRows) -> None:
        self.path, self.skipped = path, skipped
        self.document: SgmlDocument | None = None
        self.is_left_out = False
        self.in_text = False
        self.identifier: list[str] | None = None
        self.words: list[str] = []
        self.size = 0

    def leave_out(self, fault: DataFormatError | None) -> None:
        """Skip the document with the fault, counted once, or raise an error."""
        if fault is None:
            return
        if not self.is_left_out:
            self.skipped.leave_out(fault, "document")
        self.is_left_out = True
        self.document, self.in_text, self.identifier, self.words = None, False, None, []

    def documents(self, line: int, text: str) -> Iterator[SgmlDocument]:
        """Yield the documents that end on this line."""
        if "<!ENTITY" in text.upper():
            self._refuse(line, "a declaration of entities")
        text = _DECLARATION.sub("", text)
        if (cut := _OPEN_TAG.search(text)) is not None:
            if cut[1].lower() == "doc" and not cut[0].startswith("</"):
                self._leave_document(line)
            self._refuse(line, f"the tag {shown(cut.group()[:40])} that does not end on its line")
        if not text.strip():
            self._end_paragraph()
            return
        place = 0
        for tag in _TAG.finditer(text):
            self._add(line, text[place : tag.start()])
            place = tag.end()
            name = tag["name"].lower()
            if name == "doc" and tag["end"]:
                if self.document is None:
                    self._refuse(line, "</DOC> without its <DOC>")
                elif self.in_text:
                    self._refuse(line, "</DOC> before </TEXT>")
                else:
                    yield self.document
                self.document, self.identifier, self.is_left_out = None, None, False
            elif name == "doc":
                self._leave_document(line)
                found = {
                    one[1].lower(): one[2] or one[3] or one[4] for one in _ATTRIBUTE.finditer(tag["rest"])
                }
                kind = (found.get("type") or "").lower()
                self.document = SgmlDocument(line, decoded(found.get("id") or ""), kind)
            elif self.is_left_out:
                continue
            elif name == "text":
                self._switch_text(line, begins=not tag["end"])
            elif name in _IDENTIFIERS and self.document is not None and not self.in_text:
                self._switch_identifier(begins=not tag["end"])
            elif name == "p":
                self._end_paragraph()
        self._add(line, text[place:])

    def finish(self) -> None:
        """Reject a file that ends within a document."""
        if self.document is not None:
            self._refuse(self.document.line, "a <DOC> without its </DOC>")

    def _leave_document(self, line: int) -> None:
        """Reject a document that has not ended when the next one begins."""
        if self.document is not None:
            self._refuse(line, f"<DOC> within the document that begins on line {self.document.line}")
        self.is_left_out = False

    def _switch_text(self, line: int, begins: bool) -> None:
        if self.document is None:
            self._refuse(line, "<TEXT> outside of a document")
        elif self.in_text == begins:
            self._refuse(line, "<TEXT> within <TEXT>" if begins else "</TEXT> without its <TEXT>")
        else:
            self._end_paragraph()
            self.in_text, self.size = begins, 0

    def _switch_identifier(self, begins: bool) -> None:
        if begins:
            self.identifier = []
        elif self.identifier is not None and self.document is not None:
            words = "".join(self.identifier).split()
            self.document.document_id = self.document.document_id or " ".join(words)
            self.identifier = None

    def _add(self, line: int, text: str) -> None:
        if self.is_left_out or not text.strip():
            return
        if self.document is None:
            self._refuse(line, f"the text {shown(text.strip()[:40])} outside of a document")
        elif self.in_text:
            self.size += len(text)
            if self.size > max_line_bytes():
                limit = f"a higher limit in the environment variable {MAX_LINE_BYTES_VARIABLE}"
                found = f"a text of more than {max_line_bytes():,} characters"
                self.leave_out(DataFormatError(self.path, line, found, f"shorter texts, or {limit}"))
                return
            self.words += decoded(text).split()
        elif self.identifier is not None:
            self.identifier.append(decoded(text))

    def _end_paragraph(self) -> None:
        if self.words and self.document is not None:
            self.document.paragraphs.append(" ".join(self.words))
        self.words = []

    def _refuse(self, line: int, found: str) -> None:
        self.leave_out(DataFormatError(self.path, line, found, ACCEPTED_SGML))


def decoded(text: str) -> str:
    """Decode the character references in a text; unknown ones are unchanged."""
    return _ENTITY.sub(_character, text) if "&" in text else text


def _character(reference: re.Match[str]) -> str:
    name = reference[1]
    if name.startswith("#"):
        code = int(name[2:], 16) if name[1] in "xX" else int(name[1:])
        return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else reference[0]
    if name in _TYPESETTING:
        return _TYPESETTING[name]
    return html5.get(f"{name};", html5.get(f"{name.lower()};", reference[0]))
