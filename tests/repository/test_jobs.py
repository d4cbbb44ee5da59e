"""The scripts for jobs: their metadata are those of PEP 723, and they run on the samples."""

from __future__ import annotations

import re
import runpy
import sys
import tomllib
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import eventformers
from eventformers.datasets_scripts.base import SAMPLES

REPOSITORY = Path(__file__).parents[2]
JOBS = REPOSITORY / "examples" / "jobs"
SCRIPTS = sorted(JOBS.glob("*.py"))
# The expression of the specification.
METADATA = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_metadata_name_extras_of_this_package(script: Path) -> None:
    [found] = METADATA.finditer(script.read_text(encoding="utf-8"))
    assert found["type"] == "script"
    lines = found["content"].splitlines()
    metadata = tomllib.loads("\n".join(line.removeprefix("#").removeprefix(" ") for line in lines))
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert metadata["requires-python"] == project["requires-python"]
    [requirement] = metadata["dependencies"]
    name, extra = re.fullmatch(r"(\w+)\[(\w+)\]", requirement).groups()  # type: ignore[union-attr]
    assert name == project["name"]
    assert extra in project["optional-dependencies"]


@pytest.fixture
def run(tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs a script, with the tiny encoder as the packaged one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("eventformers.loading.encoders._default_encoder", lambda: tiny_encoder)

    def script(name: str, *arguments: object) -> None:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(JOBS / f"{name}.py"), run_name="__main__")

    return script


def test_explore(run, english_pipeline: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    news = (SAMPLES / "texts" / "news.jsonl").read_text(encoding="utf-8").splitlines()
    (tmp_path / "news.jsonl").write_text("\n".join(news[:2]), encoding="utf-8")
    run("explore_dataset", "news.jsonl")
    assert "'documents': 2" in capsys.readouterr().out
    assert (tmp_path / "exploration" / "stories.parquet").exists()


def test_embed(run, tiny_encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,event\n7,storm hits city\n8,police arrest man\n", encoding="utf-8")
    run("embed_column", "rows.csv", "--column", "event")
    rows = pq.read_table(tmp_path / "vectors.parquet").to_pylist()
    assert [row["id"] for row in rows] == [7, 8]
    expected = eventformers.encode(tiny_encoder, [row["event"] for row in rows], normalize=True)
    assert rows[1]["embedding"] == pytest.approx(expected[1].tolist(), abs=1e-6)


@pytest.mark.process
def test_train(run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("train_method", "swcc", "--recipe", "demo", "--set", "max_steps=1", "--set", "mlm_weight=0")
    assert "hard_similarity" in capsys.readouterr().out
    assert (tmp_path / "model" / "model.safetensors").exists()
