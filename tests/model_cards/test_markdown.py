from __future__ import annotations

import pytest

from eventformers.model_cards import markdown


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
