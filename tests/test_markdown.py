from __future__ import annotations

import re
from html import escape

import pytest
from markdown_it import MarkdownIt

from eventformers import markdown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(5.26, "5.3 seconds"), (61, "1 min 1 s"), (3599.7, "1 h 0 min"), (7260, "2 h 1 min")],
)
def test_durations(seconds, text):
    assert markdown.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234567, "1,234,567"),
        (0.00123456, "0.001235"),
        (5000.0, "5,000"),
        (2.5, "2.5"),
        (float("nan"), "nan"),
    ],
)
def test_numbers(value, text):
    assert markdown.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2e-7, "`2e-07`"),
        (True, "`true`"),
        (None, "`none`"),
        ([], "`none`"),
        ({"a": 1, "b": [2, 3]}, "`a: 1, b: 2, 3`"),
        ({"b", "a"}, "`a, b`"),
        ("/home/me/data", "`data`"),
        ("C:\\data\\raw", "`raw`"),
        ("org/name", "`org/name`"),
    ],
)
def test_settings(value, text):
    assert markdown.setting(value) == text


def test_code_holds_backticks_and_keeps_tables_whole():
    assert markdown.code("a`b``c") == "``` a`b``c ```"
    assert markdown.code("a|b") == "`a\\|b`"
    assert markdown.code_block("x\n```\ny", "python") == "````python\nx\n```\ny\n````"


def test_cells_are_text():
    assert markdown.cell("a|b\n<i>&") == "a&#124;b &lt;i&gt;&amp;"


def test_no_rows_no_table():
    assert markdown.table(["a"], []) == ""


ATTACKS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![x](https://example.org/track.png)",
    "[click](javascript:alert(1))",
    "[x]: https://example.org",
    "# Heading",
    "- [ ] item",
    "1. item",
    "2) item",
    "> quote",
    "---",
    "=====",
    "~~~ code",
    "```\ncode",
    "*a* **b** _c_ __d__",
    "a | b",
    "a\n\n# b",
    "<!-- hidden",
    "&lt;b&gt;",
    "\\<b\\>",
    "\\[a](b)",
    "[a][b] [c]: d",
    "[![a](b)](c)",
    "[x] done",
    "a [b",
    "* item",
    "***",
    "2 * 3 * 4",
)


@pytest.mark.parametrize("text", ATTACKS)
def test_text_of_data_stays_text(text: str) -> None:
    document = MarkdownIt("gfm-like", {"linkify": False, "html": True})
    shown = " ".join(text.split())
    assert document.render(markdown.cell(text)) == f"<p>{escape(shown)}</p>\n"
    (row,) = re.findall("<td>(.*?)</td>", document.render(markdown.table(["a"], [[markdown.cell(text)]])))
    assert row == escape(shown)
    assert document.render(f"- {markdown.cell(text)}") == f"<ul>\n<li>{escape(shown)}</li>\n</ul>\n"
    assert document.render(markdown.code_block(text)) == f"<pre><code>{escape(text)}\n</code></pre>\n"
    assert (
        document.render(markdown.code(text))
        == f"<p><code>{escape(shown.replace('|', chr(92) + '|'))}</code></p>\n"
    )


def test_links_hold_any_name_and_address() -> None:
    linked = markdown.link("a](b)", "https://example.org/a b)(<c>")
    assert linked == "[a&#93;(b)](https://example.org/a%20b%29%28%3Cc%3E)"


def test_control_characters_are_shown() -> None:
    assert markdown.cell("a\x1b]0;owned\x07b\u202ec") == "a&#92;x1b]0;owned&#92;x07b&#92;u202ec"
    assert markdown.code("a\x9bb\x7f") == r"`a\x9bb\x7f`"
    assert markdown.code_block("a\x1b[31m\nb") == "```\na\\x1b[31m\nb\n```"
