"""XML files, of which nothing outside is opened, and marked parts of texts; errors name the line."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import cast
from xml.etree.ElementTree import Element, ParseError, TreeBuilder

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from eventformers.datasets_scripts.reading.fields import check_keys
from eventformers.datasets_scripts.reading.lines import read_lines
from eventformers.errors import DataFormatError, shown

_FILE_NAME = re.compile(r"[\w.-]+")


class XmlElement(Element):
    """An element with the line on which it starts."""

    line: int = 0


def read_xml(path: Path) -> XmlElement:
    """Read a UTF-8 XML file; see `parse_xml`.

    Raises:
        DataFormatError: see `parse_xml` and `read_lines`.
        EventformersError: the file cannot be opened.
    """
    return parse_xml("".join(f"{text}\n" for _, text in read_lines(path)), path)


def parse_xml(text: str, path: Path) -> XmlElement:
    """Parse XML and return its root; element names have no namespaces.

    A document type that is named by a plain file name, such as LDC's, is accepted and never opened.

    Raises:
        DataFormatError: the XML is broken, declares entities or attributes, or names a document type
            elsewhere; names the line.
    """

    def element(tag: str, attributes: dict[str, str]) -> XmlElement:
        made = XmlElement(tag.rpartition("}")[2], attributes)
        made.line = parser.parser.CurrentLineNumber
        return made

    def check_document_type(name: str, system: str | None, public: str | None, has_subset: int) -> None:
        if system is not None and not _FILE_NAME.fullmatch(system):
            raise DataFormatError(
                path,
                parser.parser.CurrentLineNumber,
                f"a document type outside of the folder ({shown(system)})",
                "none, or one named by a plain file name, which is not opened",
            )

    def refuse_attributes(*declared: object) -> None:
        # A long default value would occupy memory once for every element.
        raise DataFormatError(
            path, parser.parser.CurrentLineNumber, "XML that declares attributes", "plain XML"
        )

    parser = DefusedXMLParser(target=TreeBuilder(element_factory=element))
    parser.parser.StartDoctypeDeclHandler = check_document_type
    parser.parser.AttlistDeclHandler = refuse_attributes
    try:
        # In one piece: with each further piece, expat scans a long token again from its start.
        parser.feed(text)
        return cast(XmlElement, parser.close())
    except ParseError as error:
        raise DataFormatError(path, error.position[0], f"broken XML ({error})", "well-formed XML") from error
    except DefusedXmlException as error:
        reason = " ".join(str(error).split())
        line = parser.parser.CurrentLineNumber
        raise DataFormatError(path, line, f"XML with entities ({reason})", "plain XML") from error


def elements(parent: Element, name: str) -> Iterator[XmlElement]:
    """Yield the elements of a name anywhere below a parent, in order."""
    return cast("Iterator[XmlElement]", parent.iter(name))


def check_children(parent: XmlElement, known: Collection[str], path: Path) -> None:
    """Reject direct children of a parent that its format does not have, so that none is silently ignored.

    Raises:
        DataFormatError: a name is unknown; names the line and the nearest known name.
    """
    for item in cast("Iterable[XmlElement]", parent):
        check_keys({item.tag: None}, known, path, item.line, what="element", complete=True)


def attribute(element: XmlElement, name: str, path: Path, accepted: str) -> str:
    """Return an attribute of an element.

    Raises:
        DataFormatError: the element lacks it, or it is empty; names the line.
    """
    value = element.get(name)
    if not value:
        raise DataFormatError(path, element.line, f"<{element.tag}> without {name}", accepted)
    return value


def children(parent: Element, name: str) -> list[XmlElement]:
    """The direct children of a parent with a name, in order."""
    return cast("list[XmlElement]", parent.findall(name))


def replace_marked(pattern: re.Pattern[str], closing: str, replacement: str, text: str) -> str:
    """Replace parts of a text that end with `closing`, in time linear in its length.

    Args:
        pattern: a part, from its opening to the first `closing` after it.
        closing: the end of a part.
        replacement: the text to insert.
    """
    # After the last closing, the pattern would search from every opening to the end of the text in vain.
    marked, last, rest = text.rpartition(closing)
    return pattern.sub(replacement, marked + last) + rest
