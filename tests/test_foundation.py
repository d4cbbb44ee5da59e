"""What every room uses: errors, strict settings, Markdown and provenance."""

from __future__ import annotations

import ast
import re
import subprocess
from dataclasses import fields
from html import escape
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from markdown_it import MarkdownIt
from sources import parsed

from eventformers import markdown
from eventformers.errors import (
    SHOWN_CHARACTERS,
    EventformersError,
    UnknownNameError,
    causes,
    nearest_name,
    shown,
)
from eventformers.files import full_disk
from eventformers.methods import load_method, main_methods
from eventformers.provenance import git_commit as cached_commit
from eventformers.provenance import library_versions
from eventformers.strict import LARGEST, Count, Range, check_types, several
from eventformers.trainers.arguments import TRAINING_TYPES, EventTrainingArguments
from eventformers.trainers.recipes import load_recipe
from eventformers.trainers.run import accepted_keys, resolve_recipe

REPOSITORY = Path(__file__).resolve().parents[1]


def test_a_long_value_is_truncated() -> None:
    text = shown("x" * 100_000)
    assert len(text) < SHOWN_CHARACTERS + 40
    assert "100,002 characters" in text


def test_a_value_that_cannot_be_printed_is_named_by_its_type() -> None:
    assert shown(10**10_000) == "a int that cannot be printed"


def test_of_a_container_parts_are_printed() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert shown(deep) == "[[[[[...]]]]]"
    # As YAML's references build it: 2 to the power of 60 leaves.
    wide: list[object] = ["leaf"]
    for _ in range(60):
        wide = [wide, wide]
    assert len(shown(wide)) < SHOWN_CHARACTERS + 40
    assert shown({"a": 1, "b": ["c"]}) == "{'a': 1, 'b': ['c']}"


def test_half_of_a_surrogate_pair_can_be_written() -> None:
    shown("\ud800").encode("utf-8")


def test_causes_that_form_a_cycle_end() -> None:
    first, second = ValueError("first"), OSError("second")
    first.__cause__, second.__context__ = second, first
    assert list(causes(first)) == [first, second]
    assert full_disk(first) is None


def test_lookalike_letters_are_near() -> None:
    names = ["subject", "predicate", "object"]
    assert nearest_name("prеdicate", names) == "predicate"  # with a Cyrillic letter
    assert nearest_name("Ｏbject", names) == "object"  # with a full-width letter
    assert nearest_name("zzz", names) is None
    assert "Did you mean" not in str(UnknownNameError("row", "", names))
    assert str(UnknownNameError("row", 3, ["a"])) == "unknown row 3. Accepted: a."
    label = "PPMI (Lee and Goldwasser, 2019)"
    assert f"Did you mean {label!r}?" in str(UnknownNameError("row", "ppmi", [*names, label]))


@pytest.mark.parametrize("folder", ["src", "trainers", "model_cards"])
def test_errors_truncate_the_values_that_they_repeat(folder: str) -> None:
    """A `!r` in an error repeats a value whole, however long it is; `shown` truncates it."""
    whole = [
        f"{path.relative_to(REPOSITORY)}, line {part.lineno}"
        for path in sorted((REPOSITORY / folder).rglob("*.py"))
        if "!r" in path.read_text(encoding="utf-8")
        for fault in ast.walk(parsed(path))
        # The attribute that a module lacks is a name in a program.
        if isinstance(fault, ast.Raise) and "AttributeError" not in ast.dump(fault)
        for part in ast.walk(fault)
        if isinstance(part, ast.FormattedValue) and part.conversion == ord("r")
    ]
    assert not whole


_NO_RANGE = {
    # A place in a group of processes, which the launcher sets.
    "local_rank",
}
_NUMBERS = [
    name
    for name, annotation in TRAINING_TYPES.items()
    if any(kind in str(annotation) for kind in ("int", "float")) and name not in _NO_RANGE
]


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (1, Count),
        (None, Count | None),
        (0.5, float),
        (2, float),
        (-1, Count | Literal[-1]),
        ({"a": 0.1}, dict[str, Annotated[float, Range(least=0)]]),
        (["a"], list[str] | None),
        (LARGEST, int),
        ({"anything": [1]}, object),
    ],
)
def test_accepted(value: object, annotation: Any) -> None:
    check_types({"x": value}, {"x": annotation})


@pytest.mark.parametrize(
    ("value", "annotation", "accepted"),
    [
        (0, Count, "a whole number of 1 or more"),
        (True, Count, "a whole number of 1 or more"),
        (1.0, Count, "a whole number of 1 or more"),
        (-2, Count | Literal[-1], "a whole number of 1 or more, or -1"),
        (1, Annotated[float, Range(least=0, below=1)], "a number from 0 to below 1"),
        (1.1, Annotated[float, Range(least=0, most=1)], "a number from 0 to 1"),
        (0, Annotated[float, Range(above=0)], "a number above 0"),
        ({"a": -1}, dict[str, Annotated[float, Range(least=0)]], "a mapping, each value a number of 0 or"),
        ([1], list[str], "a list, each text"),
        (float("nan"), float, f"a number, finite and at most {LARGEST}"),
        (LARGEST + 1, int, f"a whole number, finite and at most {LARGEST}"),
        ({"a": [float("inf")]}, object, f"a value, finite and at most {LARGEST}"),
    ],
)
def test_refused(value: object, annotation: Any, accepted: str) -> None:
    with pytest.raises(EventformersError) as refused:
        check_types({"x": value}, {"x": annotation})
    assert f"setting x: found {value!r}; accepted: {accepted}" in str(refused.value)


@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf", "100000000000000000000"])
@pytest.mark.parametrize("method", main_methods())
def test_no_setting_of_a_recipe_takes_a_number_that_none_is(method: str, value: str, tmp_path: Path) -> None:
    loaded = load_method(method)
    # Reading the recipes that others extend takes longer than checking a setting.
    recipe = tmp_path / "short.yaml"
    recipe.write_text("description: nothing else\n", encoding="utf-8")
    for section, names in accepted_keys(loaded).items():
        # The plan of a run sets the stage itself.
        for name in names.keys() - {"stage"}:
            with pytest.raises(EventformersError, match=f"setting {name}: found"):
                resolve_recipe(loaded, str(recipe), [f"{section}.{name}={value}"])


@pytest.mark.parametrize("name", _NUMBERS)
def test_every_numeric_training_setting_has_a_range(name: str, tmp_path: Path) -> None:
    for value in (float("nan"), float("inf"), 10**20, -7, True):
        if value is True and "bool" in str(TRAINING_TYPES[name]):
            continue
        with pytest.raises(EventformersError, match=f"setting {name}: found"):
            EventTrainingArguments(output_dir=str(tmp_path), **{name: value})


def test_ranges_are_of_fields_that_there_are() -> None:
    assert set(TRAINING_TYPES) == {entry.name for entry in fields(EventTrainingArguments)}


@pytest.mark.parametrize("seed", ["-1", "1.5", "true", "100000000000000000000", ".nan"])
def test_a_seed_that_is_none_is_refused(seed: str) -> None:
    with pytest.raises(EventformersError, match="setting seed: found"):
        resolve_recipe(load_method("swcc"), "demo", [f"seed={seed}"])


def test_a_seed_is_drawn_where_none_is_given(tmp_path: Path) -> None:
    path = tmp_path / "unseeded.yaml"
    path.write_text("description: without a seed\n", encoding="utf-8")
    swcc = load_method("swcc")
    assert load_recipe("swcc", str(path)).seed is None
    drawn = {resolve_recipe(swcc, str(path)).seed for _ in range(3)}
    assert len(drawn) == 3
    assert None not in drawn
    assert resolve_recipe(swcc, str(path), seed=3).seed == 3
    assert resolve_recipe(swcc, str(path), ["seed=4"]).seed == 4


def test_a_text_alone_is_one_name() -> None:
    assert several("reporting") == ("reporting",)
    assert several(["a", "b"]) == several(iter("ab")) == ("a", "b")


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


git_commit = cached_commit.__wrapped__


@pytest.fixture
def checkout(tmp_path):
    file = tmp_path / "code.py"
    file.write_text("x = 1\n")
    identity = ["-c", "user.name=tester", "-c", "user.email=tester@example.org"]
    for command in (["init", "-q"], ["add", "code.py"], [*identity, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    return file


def test_the_commit_of_a_tracked_file(checkout):
    clean = git_commit(checkout)
    assert clean is not None
    assert len(clean) == 40
    checkout.write_text("x = 2\n")
    assert git_commit(checkout) == f"{clean}-dirty"


def test_no_commit_for_an_untracked_file_or_without_git(checkout, monkeypatch):
    installed = checkout.parent / ".venv" / "module.py"
    installed.parent.mkdir()
    installed.write_text("")
    assert git_commit(installed) is None
    monkeypatch.setenv("PATH", str(checkout.parent))
    assert git_commit(checkout) is None


def test_versions_name_what_can_change_a_score():
    versions = library_versions()
    assert versions["eventformers"]
    assert versions["torch"]
    assert versions["python"].count(".") == 2
