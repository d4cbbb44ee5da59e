"""FAISS, LanceDB and DuckDB read what `embed` writes, with the snippets of docs/neighbours.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from tiny import save_tiny_encoder
from typer.testing import CliRunner

import eventformers
from eventformers.cli import app

PAGE = Path(__file__).parents[2] / "docs" / "neighbours.md"
SECTION = PAGE.read_text(encoding="utf-8").split("\n## Vectors for")[1].split("\n## ")[0]
FAISS, LANCEDB, DUCKDB = re.findall(r"^```python\n(.*?)^```$", SECTION, re.DOTALL | re.MULTILINE)
COMMANDS = re.findall(r"^eventformers (.*)$", SECTION, re.MULTILINE)
EVENTS = "company,fired,worker\nstorm,closed,road\nfirm,sold,car\njudge,sentenced,thief\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and the files of vectors that the commands of the page write."""
    folder = tmp_path_factory.mktemp("recipes")
    save_tiny_encoder(folder / "my-events")
    (folder / "events.csv").write_text("subject,predicate,object\n" + EVENTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in COMMANDS:
            result = CliRunner().invoke(app, command.split(), catch_exceptions=False)
            assert result.exit_code == 0, result.output
    return folder


def nearest(files: Path) -> str:
    """The event whose vector has the largest cosine with the query of the page."""
    texts = [line.replace(",", " ") for line in EVENTS.splitlines()]
    vectors = eventformers.encode(files / "my-events", [*texts, "business dismisses worker"], normalize=True)
    return texts[int(np.argmax(vectors[:-1] @ vectors[-1]))]


def run_snippet(code: str, files: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Run a snippet in the folder; return what it prints."""
    printed: list[Any] = []
    monkeypatch.chdir(files)
    exec(code, {"print": printed.append})  # noqa: S102
    return printed


def test_faiss(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    floats, integers, bits = run_snippet(FAISS, files, monkeypatch)
    assert floats[0] == integers[0] == nearest(files)
    assert len(set(bits)) == 2


@pytest.mark.process
def test_lancedb(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("lancedb")
    floats, bits = run_snippet(LANCEDB, files, monkeypatch)
    assert floats[0] == nearest(files)
    assert len(set(bits)) == 2


def test_duckdb(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duckdb, "execute", duckdb.connect().execute)
    (floats,) = run_snippet(DUCKDB, files, monkeypatch)
    assert floats[0] == (nearest(files),)
    of_integers = DUCKDB.replace("vectors.parquet", "int8.parquet").replace(
        'worker")', 'worker", normalize=True, precision="int8", ranges="int8.parquet")'
    )
    (integers,) = run_snippet(of_integers, files, monkeypatch)
    assert len(integers) == 2
