"""Raw XML: elements with their lines, and nothing from outside of the file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from eventformers.datasets_scripts.reading.markup import children, elements, read_xml
from eventformers.errors import DataFormatError


def write(folder: Path, text: str) -> Path:
    path = folder / "file.xml"
    path.write_text(text, encoding="utf-8")
    return path


def test_elements_know_their_lines_and_lose_their_namespaces(tmp_path: Path) -> None:
    text = '<?xml version="1.0"?>\n<a xmlns="http://example.org/x">\n <b>é</b>\n <c>\n  <b/></c>\n</a>\n'
    root = read_xml(write(tmp_path, text))
    assert (root.tag, root.line) == ("a", 2)
    assert [(item.line, item.text) for item in elements(root, "b")] == [(3, "é"), (5, None)]
    assert [item.line for item in children(root, "b")] == [3]


def test_a_document_type_beside_the_file_is_never_opened(tmp_path: Path) -> None:
    (tmp_path / "apf.dtd").write_text('<!ENTITY x "from the type">', encoding="utf-8")
    assert read_xml(write(tmp_path, '<!DOCTYPE a SYSTEM "apf.dtd">\n<a>b</a>')).text == "b"
    with pytest.raises(DataFormatError, match="line 2: found broken XML"):
        read_xml(write(tmp_path, '<!DOCTYPE a SYSTEM "apf.dtd">\n<a>&x;</a>'))


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ('<!DOCTYPE a SYSTEM "http://example.org/a.dtd">\n<a/>', 1, "a document type outside of the folder"),
        ('<!DOCTYPE a SYSTEM "../a.dtd">\n<a/>', 1, "('../a.dtd')"),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd">\n<a/>', 1, "'file:///etc/passwd'"),
        ('<!DOCTYPE a PUBLIC "-//x//y" "https://example.org/a.dtd">\n<a/>', 1, "document type outside"),
        ('<!DOCTYPE a [\n<!ENTITY x SYSTEM "file:///etc/passwd">]>\n<a>&x;</a>', 2, "XML with entities"),
        ('<!DOCTYPE a [\n<!ENTITY % x SYSTEM "http://example.org/x">\n%x;]>\n<a/>', 2, "XML with entities"),
        ('<!DOCTYPE a [<!ENTITY x "xx">]>\n<a>&x;</a>', 1, "XML with entities"),
        ('<!DOCTYPE a [\n<!ATTLIST b c CDATA "long">]>\n<a><b/></a>', 2, "XML that declares attributes"),
        ("<a>\n<b></a>", 2, "broken XML"),
        ("<a>\n", 2, "broken XML"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, line: int, found: str) -> None:
    with pytest.raises(DataFormatError, match=re.escape(found)) as caught:
        read_xml(write(tmp_path, text))
    assert caught.value.line == line
