"""The walls between the rooms of the code: every import against the table of CONTRIBUTING.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from sources import parsed

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "src" / "eventformers"
BESIDE = ("models", "trainers", "datasets_scripts", "evaluate_metrics", "model_cards")
"""Folders of the repository that install into the package."""

MOST_FLAT_FILES = 14
LAZY = ("built_in.py", "methods.py")
"""Rooms that name parts of others by dotted paths, which are imported on first use."""
_MODULE = re.compile(r"eventformers(\.\w+)+")
_CODE = re.compile(r"`([\w./]+)`")


class Room(NamedTuple):
    """A room of the table.

    Attributes:
        row: number of its row, counted from the top.
        below: whether it may import all rows below.
        others: further rooms that it may import.
        of_files: further rooms that single files may import.
    """

    row: int
    below: bool
    others: frozenset[str]
    of_files: dict[str, str]


def _read_table() -> dict[str, Room]:
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    lines = text.split("| room | holds | may import |\n|---|---|---|\n")[1].split("\n\n")[0].splitlines()
    rooms = {}
    for row, line in enumerate(lines):
        names, _, may = (cell.strip() for cell in line.strip("|").split(" | "))
        rule, _, exception = may.partition("; ")
        if rule == "all rows below":
            below, others = True, frozenset[str]()
        elif rule.startswith("nothing"):
            below, others = False, frozenset[str]()
        else:
            below, others = False, frozenset(_CODE.findall(rule))
            assert rule == ", ".join(f"`{name}`" for name in _CODE.findall(rule)), rule
        of_files = {}
        if exception:
            match = re.fullmatch(r"`([\w./]+)` also `([\w./]+)`", exception)
            assert match, exception
            of_files[match[1]] = match[2]
        for name in _CODE.findall(names):
            rooms[name] = Room(row, below, others, of_files)
    return rooms


ROOMS = _read_table()


def _files() -> Iterator[tuple[str, Path]]:
    """Every file of the installed package, by its path in it."""
    for path in PACKAGE.rglob("*.py"):
        yield path.relative_to(PACKAGE).as_posix(), path
    for folder in BESIDE:
        for path in (REPOSITORY / folder).rglob("*.py"):
            yield path.relative_to(REPOSITORY).as_posix(), path


FILES = dict(_files())


def _room_of(file: str) -> str:
    """The innermost room of a file."""
    found = [name for name in ROOMS if file == name or (name.endswith("/") and file.startswith(name))]
    return max(found, key=len, default="")


def _file_of(module: str) -> str:
    """The file of a dotted name, or of the module that it is a part of."""
    parts = module.split(".")[1:]
    while parts:
        for file in (f"{'/'.join(parts)}.py", f"{'/'.join(parts)}/__init__.py"):
            if file in FILES:
                return file
        parts.pop()
    return "__init__.py"


def _imported(tree: ast.Module, strings: bool = True) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything of ours that a source imports, or names as a module in a text.

    What is imported for the type checker alone does not count.

    Args:
        tree: the parsed source.
        strings: whether names in texts count.
    """
    nodes = list(ast.walk(tree))
    for_types = {
        id(inner)
        for node in nodes
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in nodes:
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                yield node.lineno, f"{node.module}.{alias.name}"
        elif strings and isinstance(node, ast.Constant) and _MODULE.fullmatch(str(node.value)):
            yield node.lineno, node.value


def _refused(file: str, tree: ast.Module) -> list[str]:
    """The imports of a file that the table does not permit."""
    own = _room_of(file)
    refused = []
    for line, name in _imported(tree, strings=own not in LAZY):
        if name.split(".")[0] != "eventformers" or name == "eventformers.__version__":
            continue
        target = _file_of(name)
        other = _room_of(target)
        room = ROOMS[own]
        if not (
            other == own
            or (room.below and ROOMS[other].row > room.row)
            or other in room.others
            or room.of_files.get(file) == other
        ):
            refused.append(f"{file}:{line}: {own} imports {name} of {other}")
    return refused


def test_the_table_names_every_room_once() -> None:
    assert {_room_of(file) for file in FILES} == set(ROOMS)
    assert not [file for file in FILES if not _room_of(file)]


def test_imports_are_permitted() -> None:
    refused = [line for file, path in sorted(FILES.items()) for line in _refused(file, parsed(path))]
    assert not refused, "\n".join(refused)


def test_exceptions_are_needed() -> None:
    for room in ROOMS.values():
        for file, other in room.of_files.items():
            modules = [_room_of(_file_of(name)) for _, name in _imported(parsed(FILES[file]))]
            assert other in modules


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("inference/encode.py", "from eventformers.trainers.run import train_head"),
        ("trainers/run.py", "def f():\n    from eventformers import model_cards"),
        ("models/losses.py", "from eventformers.errors import EventformersError"),
        ("evaluation/tasks/base.py", "import eventformers.evaluation.core"),
        ("inference/encode.py", 'HOME = "eventformers.evaluation.core"'),
        ("plots/figures.py", "from eventformers.leaderboard import Board"),
        ("evaluate_metrics/__init__.py", "from eventformers import evaluate"),
    ],
)
def test_other_imports_are_refused(file: str, source: str) -> None:
    assert _refused(file, ast.parse(source))


def test_models_import_siblings_alone() -> None:
    """Relative imports of one level: the Hub lays the files of a model flat."""
    for file, path in FILES.items():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom) and node.level:
                room, sibling = _room_of(file), f"models/{node.module}.py"
                # A metric on the Hub is a folder of its own, too.
                assert room in ("models/", "evaluate_metrics/"), f"{file}:{node.lineno}"
                assert node.level == 1
                assert room != "models/" or sibling in FILES, f"{file}:{node.lineno}"


def test_few_files_stay_flat() -> None:
    assert len([file for file in FILES if "/" not in file]) <= MOST_FLAT_FILES
