"""The generated tables are fresh and complete, and the command says so with its exit code."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import eventformers
from eventformers.errors import UnknownNameError
from eventformers.evaluate_metrics import METRICS
from eventformers.evaluation.tasks import TASKS
from eventformers.methods import all_methods, main_methods
from eventformers.reference import __main__ as readme
from eventformers.reference.docstrings import docstring_entries
from eventformers.reference.tables import results_table, table
from eventformers.trainers.recipes import list_recipes

REPOSITORY = Path(__file__).resolve().parents[2]
FILES = readme.default_files(REPOSITORY)


def generated_parts(path: Path) -> str:
    """What stands between the comments of a file."""
    parts = path.read_text(encoding="utf-8").split(readme.END)
    return "\n".join(readme.BEGIN.split(part)[-1] for part in parts[:-1])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_tables_are_fresh(path: Path) -> None:
    text, wanted = readme.generate(path, REPOSITORY)
    assert text == wanted, "stale: run `python -m eventformers.reference`"


@pytest.fixture(scope="module")
def tables() -> str:
    return "\n".join(map(generated_parts, FILES))


def test_the_first_page_stays_short() -> None:
    assert len((REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def names_to_mention() -> list[str]:
    recipes = [recipe for method in main_methods() for recipe in list_recipes(method)]
    classes = [
        reference.split(".")[1]
        for config_class in (method.config_class for method in all_methods().values())
        for reference in config_class.full_auto_map.values()  # type: ignore[attr-defined]
    ]
    return sorted({*eventformers.__all__, *main_methods(), *METRICS, *TASKS, *recipes, *classes})


@pytest.mark.parametrize("name", names_to_mention())
def test_the_reference_has_every_name(name: str, tables: str) -> None:
    forms = (f"`{name}`", f"`eventformers.{name}`", f"`eventformers.{name}()`")
    assert any(form in tables for form in forms)


def test_every_method_has_a_page_that_links_to_its_recipes_and_options() -> None:
    recipes = (REPOSITORY / "docs" / "reference" / "recipes.md").read_text(encoding="utf-8")
    for method in main_methods():
        page = (REPOSITORY / "docs" / f"{method}.md").read_text(encoding="utf-8")
        assert f"<!-- generated: recipes {method} -->" in recipes
        assert "](reference/recipes.md#" in page
        assert f"](reference/settings.md#model-of-{method})" in page


@pytest.mark.parametrize("method", all_methods())
def test_every_option_has_a_meaning_in_the_settings(method: str, tables: str) -> None:
    """Every field that a method's configuration adds has its meaning in the docstring."""
    section = tables.split(f"### Model of `{method}`")[1].split("\n### ")[0]
    config_class: Any = all_methods()[method].config_class
    for name in inspect.get_annotations(config_class).keys() & {field.name for field in fields(config_class)}:
        assert f"| `{name}` |" in section


def test_public_names_have_signature_arguments_returned_value_and_errors() -> None:
    page = table("api", REPOSITORY)
    assert "next_event(\n    model: " in page
    section = page[page.index("### `build_dataset`") : page.index("### `complete`")]
    assert "    config: str | Sequence[str] | None = None,\n" in section
    assert "\n) -> Path\n```" in section
    assert "- `**settings`: settings of the builder" in section
    assert "**Returns** The folder." in section
    assert "- `DataFormatError`: a raw file cannot be read; names file and line." in section
    # A place in memory would differ from run to run.
    assert " at 0x" not in page


def test_docstring_entries() -> None:
    docstring = (
        "What it is.\n\nArgs:\n    one (list of float): first,\n        still first: yes.\n    two: second.\n"
    )
    docstring += "\nReturns:\n    three: third.\n\nThe end: of it.\n    four: not in it."
    assert docstring_entries(docstring, "Args") == {"one": "first, still first: yes.", "two": "second."}
    assert docstring_entries(docstring, "Returns") == {"three": "third."}
    assert docstring_entries(docstring, "Raises") == {}


def test_a_table_of_an_unknown_name() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'event_similarity'"):
        table("columns event_similarty", REPOSITORY)
    with pytest.raises(UnknownNameError, match="generated table 'results swcc'"):
        table("results swcc", REPOSITORY)


def test_no_results_is_a_sentence(tmp_path: Path) -> None:
    assert table("results", tmp_path) == results_table([]) == "No results are committed yet."


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.md"
    path.write_text(f"# Page\n\n<!-- generated: tasks -->\nstale\n{readme.END}\n\nend\n", encoding="utf-8")
    return path


def test_command_checks_then_writes(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = page.read_text(encoding="utf-8")
    assert readme.main(["--check", str(page)]) == 1
    assert capsys.readouterr().err == f"stale: {page}; run `python -m eventformers.reference`\n"
    assert page.read_text(encoding="utf-8") == before
    assert readme.main([str(page)]) == 0
    after = page.read_text(encoding="utf-8")
    assert after.startswith("# Page\n\n<!-- generated: tasks -->\n| task |")
    assert after.endswith(f"|\n{readme.END}\n\nend\n")
    assert "\nstale\n" not in after
    assert readme.main(["--check", str(page)]) == 0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("<!-- generated: taks -->\n<!-- end of generated -->\n", "tasks"),
        ("<!-- generated: recipes swc -->\n<!-- end of generated -->\n", "swcc"),
        ("<!-- generated: tasks -->\n", "page.md, line 1"),
        ("\n<!-- end of generated -->\n", "page.md, line 2"),
        ("<!-- generated: tasks -->\n<!-- generated: tasks -->\n", "page.md, line 2"),
    ],
)
def test_bad_pages_are_told(page: Path, text: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    page.write_text(text, encoding="utf-8")
    assert readme.main([str(page)]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
    assert page.read_text(encoding="utf-8") == text


def test_missing_file_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert readme.main([str(tmp_path / "none.md")]) == 2
    assert "cannot read" in capsys.readouterr().err
