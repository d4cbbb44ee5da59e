"""Reading raw XML files without access to anything outside of them; errors name the line."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import cast
from xml.etree.ElementTree import Element, ParseError, TreeBuilder

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from eventformers.datasets_scripts.raw_files import check_keys, read_lines
from eventformers.errors import DataFormatError, shown

_FILE_NAME = re.compile(r"[\w.-]+")


class XmlElement(Element):
    """An element that knows the line of its file that it starts on."""

    line: int = 0


def read_xml(path: Path) -> XmlElement:
    """The root of a UTF-8 XML file; the names of elements come without their namespaces.

    A document type that is named by a plain file name, such as LDC's, is let pass and never opened.

    Raises:
        DataFormatError: the XML is broken, declares entities or attributes, or names a document type
            elsewhere; with the line.
        EventformersError: the file cannot be opened.
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
        # A long default value would stand in memory once for every element.
        raise DataFormatError(
            path, parser.parser.CurrentLineNumber, "XML that declares attributes", "plain XML"
        )

    parser = DefusedXMLParser(target=TreeBuilder(element_factory=element))
    parser.parser.StartDoctypeDeclHandler = check_document_type
    parser.parser.AttlistDeclHandler = refuse_attributes
    try:
        # In one piece: expat searches a long token from its start with each further piece.
        parser.feed("".join(f"{text}\n" for _, text in read_lines(path)))
        return cast(XmlElement, parser.close())
    except ParseError as error:
        raise DataFormatError(path, error.position[0], f"broken XML ({error})", "well-formed XML") from error
    except DefusedXmlException as error:
        reason = " ".join(str(error).split())
        line = parser.parser.CurrentLineNumber
        raise DataFormatError(path, line, f"XML with entities ({reason})", "plain XML") from error


def elements(parent: Element, name: str) -> Iterator[XmlElement]:
    """The elements of a name anywhere under a parent, in their order."""
    return cast("Iterator[XmlElement]", parent.iter(name))


def check_children(parent: XmlElement, known: Collection[str], path: Path) -> None:
    """Refuse elements straight under a parent that its format does not have, so that none is lost.

    Raises:
        DataFormatError: the name of one is not known; with its line and the nearest name that is.
    """
    for item in cast("Iterable[XmlElement]", parent):
        check_keys({item.tag: None}, known, path, item.line, what="element")


def children(parent: Element, name: str) -> list[XmlElement]:
    """The elements of a name straight under a parent, in their order."""
    return cast("list[XmlElement]", parent.findall(name))
