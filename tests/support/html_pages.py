"""Pages as a parser sees them."""

from __future__ import annotations

import re
from html.parser import HTMLParser

_VOID = ("input", "meta")


class Page(HTMLParser):
    """A page whose tags must match.

    Attributes:
        ids: the ids of its elements.
        links: the targets of its links.
        elements: of each element in turn its tag, its attributes and its own text.
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._opened: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.feed(text)
        assert not self._opened

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = (tag, dict(attrs), list[str]())
        self.elements.append(element)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name == "href"]
        if tag not in _VOID:
            self._opened.append(element)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        return

    def handle_endtag(self, tag: str) -> None:
        assert self._opened.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if self._opened:
            self._opened[-1][2].append(data)

    def texts(self, tag: str, **attributes: str) -> list[str]:
        """The own texts of the elements with a tag and attributes; `class_` stands for class."""
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        return [
            "".join(own)
            for name, attrs, own in self.elements
            if name == tag and wanted.items() <= attrs.items()
        ]


def assert_self_contained(page: str) -> None:
    """Nothing of a page comes from elsewhere, and nothing in it runs."""
    assert page.startswith("<!DOCTYPE html>")
    assert not re.search(r"(src|href)=\"(?!#)", page)
    assert "<script" not in page
    assert "Content-Security-Policy" in page
