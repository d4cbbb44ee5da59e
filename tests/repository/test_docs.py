"""The pages of docs: all in the index, no dead link, and examples that are Python; the notebook runs."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from command_lines import run_command_line
from notebooks import code_cells, run_cells

from eventformers.cli import app
from eventformers.datasets_scripts.base import SAMPLES
from eventformers.evaluation.tasks import TASKS
from eventformers.loading import encoders
from eventformers.methods import all_methods, main_methods
from eventformers.reference.docstrings import settings_page
from eventformers.trainers.run import accepted_keys

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
PAGES = sorted([REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *DOCS.rglob("*.md")])
NOTEBOOK = DOCS / "notebooks" / "events.ipynb"

# Typer carries a Click of its own, whose errors it does not export.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1$", re.DOTALL | re.MULTILINE)


def prose_of(path: Path) -> str:
    """The text of a page, or of a notebook's Markdown, without its fenced blocks."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return _FENCE.sub("", text)


def anchors_of(path: Path) -> set[str]:
    """The anchors that the Hub and GitHub give to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", prose_of(path), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(path: Path) -> list[str]:
    """Links of a page to files or headings that are not there."""
    dead = []
    for link in _LINK.findall(prose_of(path)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        place = (path.parent / name).resolve() if name else path
        is_dead = not place.exists() or (anchor and anchor not in anchors_of(place))
        dead += [link] if is_dead else []
    return dead


@pytest.mark.parametrize("path", [*PAGES, NOTEBOOK], ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_no_link_is_dead(path: Path) -> None:
    assert not dead_links(path)


def test_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A `heading`: of it\n", encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](there.md#a-heading-of-it) [b](https://example.org) [c](gone.md) [d](there.md#gone)\n"
        "```python\nx = [e](f)\n```\n",
        encoding="utf-8",
    )
    assert dead_links(page) == ["gone.md", "there.md#gone"]


def test_the_index_has_every_page() -> None:
    index = DOCS / "README.md"
    named = {(DOCS / link).resolve() for link in _LINK.findall(index.read_text(encoding="utf-8"))}
    pages = {page.resolve() for page in [*DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb")]}
    assert pages - named == {index.resolve()}


def test_the_pages_stay_short() -> None:
    """Measurements and variants belong into the notes, tables of settings into the reference."""
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in DOCS.glob("*.md"))
    assert words <= 35_000


@pytest.mark.parametrize("method", main_methods())
def test_a_method_says_when_to_use_it_and_when_not(method: str) -> None:
    headings = anchors_of(DOCS / f"{method}.md")
    assert {"when-to-use-it", "when-not-to"} <= headings


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_examples_in_python_are_python(path: Path) -> None:
    for _, language, code in _FENCE.findall(path.read_text(encoding="utf-8")):
        if language == "python":
            ast.parse(code)


def command_lines(path: Path) -> list[list[str]]:
    """The command lines of ours in the shell examples of a page, without the program's name."""
    lines = []
    for _, language, code in _FENCE.findall(path.read_text(encoding="utf-8")):
        if language == "bash":
            whole = re.sub(r"\\\n\s*", " ", code)
            parts = [part for line in whole.splitlines() for part in line.split(" && ")]
            words = [shlex.split(part, comments=True) for part in parts]
            lines += [line[1:] for line in words if line and line[0] == "eventformers"]
    return lines


@cache
def parser() -> Any:
    """The commands; building them takes longer than reading a line."""
    return typer.main.get_command(app)


def check_command(words: list[str]) -> None:
    """Let the parser of the commands read a line, and run nothing."""
    command: Any = parser()
    context: Any = None
    while hasattr(command, "commands"):
        name, *words = words
        context = command.make_context(name, [], parent=context, resilient_parsing=True)
        command = command.commands[name]
    command.make_context(command.name, words, parent=context)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_commands_in_examples_are_commands(path: Path) -> None:
    for words in command_lines(path):
        try:
            check_command(list(words))
        except (UsageError, KeyError) as error:
            pytest.fail(f"eventformers {shlex.join(words)}: {error!r}")


def test_a_wrong_command_is_found() -> None:
    check_command(["train", "swcc", "-o", "my-model", "--lora"])
    with pytest.raises(UsageError, match="No such option"):
        check_command(["train", "swcc", "-o", "my-model", "--loar"])
    with pytest.raises(KeyError):
        check_command(["data", "biuld"])


@pytest.mark.process
@pytest.mark.timeout(900)
def test_notebook_runs_from_top_to_bottom(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stored outputs are those of a run; here it trains a tiny encoder for fewer steps."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    told = "".join(code_cells(notebook)[-1]["outputs"][0]["text"])
    similar, different = re.findall(r"trained: same meaning (\S+), same words (\S+)", told)[-1]
    assert float(similar) > float(different)
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8").replace("max_steps=15", "max_steps=2"))
    stored = [_kinds(cell) for cell in code_cells(notebook)]
    assert [cell["execution_count"] for cell in code_cells(notebook)] == list(range(1, len(stored) + 1))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(encoders, "_default_encoder", lambda: tiny_encoder)
    monkeypatch.setattr("eventformers.exploration.stories.tuned_encoder", lambda encoder: encoder)
    run_cells(notebook)
    assert [_kinds(cell) for cell in code_cells(notebook)] == stored
    assert "2 steps" in code_cells(notebook)[0]["outputs"][0]["text"][0]


def _kinds(cell: dict) -> list[str]:
    return [output["output_type"] for output in cell["outputs"]]


SKILL = Path(__file__).parents[2] / "examples" / "skills" / "eventformers" / "SKILL.md"
TEXT = SKILL.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


def test_the_header_is_that_of_a_skill() -> None:
    header = yaml.safe_load(TEXT.split("---")[1])
    assert header["name"] == SKILL.parent.name
    assert 0 < len(header["description"]) <= 1024
    assert len(TEXT.splitlines()) <= 150


@pytest.mark.process
def test_its_commands_run(
    tiny_encoder: Path, english_pipeline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("eventformers.loading.encoders._default_encoder", lambda: tiny_encoder)
    monkeypatch.setattr("eventformers.loading.pretrained.pretrained", lambda name: str(tiny_encoder))
    monkeypatch.setattr("eventformers.exploration.stories.tuned_encoder", lambda encoder: encoder)
    Path("texts").mkdir()
    news = (SAMPLES / "texts" / "news.jsonl").read_text(encoding="utf-8").splitlines()
    Path("texts/news.jsonl").write_text("\n".join(news[:4]), encoding="utf-8")
    Path("events.txt").write_text("police arrest man\nstorm | floods | town\n", encoding="utf-8")
    Path("mentions.txt").write_text("The [[landings]] began at dawn.\n", encoding="utf-8")
    shutil.copytree(SAMPLES / "event_hierarchies", "knowledge-base")
    shutil.copytree(SAMPLES / "similarity", "similarity")
    for language, code in BLOCKS:
        if language == "python":
            exec(code, {})  # noqa: S102
            continue
        for line in code.splitlines():
            name, *words = shlex.split(line)
            assert name == "eventformers"
            outcome = run_command_line(words)
            assert outcome["code"] == 0, (line, outcome["errors"])
    named = set(re.findall(r"`(?:exploration|grounded)?/?([a-z_]+\.(?:csv|parquet|json|jsonl|html))`", TEXT))
    written = {path.name for path in tmp_path.rglob("*.*")}
    assert len(named) > 10
    assert named <= written


ROW = re.compile(r"\| `([\w.]+)` \| (.+?) \| (.+?) \| (.+) \|")


def test_every_setting_has_type_default_and_meaning() -> None:
    page = settings_page()
    rows = [ROW.fullmatch(line) for line in page.splitlines() if line.startswith("| `")]
    assert all(rows)
    named = {row[1].rpartition(".")[2] for row in rows if row}
    for method in all_methods().values():
        accepted = accepted_keys(method)
        for section in ("model", "data", "views"):
            assert set(accepted[section]) <= named, (method.name, section)
    for task in TASKS.values():
        assert {entry.name for entry in fields(task.kind.Settings)} <= named
    assert "early_stopping_patience" in named
