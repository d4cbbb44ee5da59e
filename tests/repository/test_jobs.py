"""The examples: scripts for jobs, and a package that adds a method."""

from __future__ import annotations

import math
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from datasets import Dataset
from forked import run_python
from transformers import AutoTokenizer

import eventformers
from eventformers.datasets_scripts.base import SAMPLES
from eventformers.models.sentence_transformers_files import write_sentence_transformers_files

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
    monkeypatch.setattr("eventformers.exploration.stories.tuned_encoder", lambda encoder: encoder)

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
@pytest.mark.skipif(
    shutil.which("uv") is None or not os.environ.get("UV_FIND_LINKS"),
    reason="needs uv, and UV_FIND_LINKS with wheels of this package and all that it requires",
)
def test_uv_runs_a_script_offline(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("text\nstorm hits city\n", encoding="utf-8")
    command = ["uv", "run", "--offline", "--no-index", str(JOBS / "embed_column.py"), "rows.csv"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "1 rows with vectors of size 384" in done.stdout
    assert pq.read_table(tmp_path / "vectors.parquet").num_rows == 1


@pytest.mark.process
def test_train(run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("train_method", "swcc", "--recipe", "demo", "--set", "max_steps=1", "--set", "mlm_weight=0")
    assert "hard_similarity" in capsys.readouterr().out
    assert (tmp_path / "model" / "model.safetensors").exists()


def test_without_mteb_the_extra_is_named(
    run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mteb", None)
    with pytest.raises(SystemExit) as stopped:
        run("score_rar_b", "my-mico")
    assert stopped.value.code == 2
    assert 'pip install "eventformers[mteb]"' in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        run("score_rar_b", "--help")
    assert stopped.value.code == 0


def test_rar_b(
    run,
    tiny_encoder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The tasks are MTEB's own, on two questions in the form of its data."""
    pytest.importorskip("mteb", reason="mteb is not installed: it brings 270 MB")
    from mteb.abstasks import AbsTaskRetrieval

    answers = {"a1": "the river floods the road", "a2": "the man won the prize", "a3": "a thief"}
    questions = {"q1": "the storm hit the city", "q2": "the man played the game"}
    relevant = {"q1": {"a1": 1}, "q2": {"a2": 1}}

    def load_data(self: AbsTaskRetrieval, **settings: object) -> None:
        def column(texts: dict[str, str]) -> Dataset:
            return Dataset.from_dict({"id": list(texts), "text": list(texts.values())})

        data = {"corpus": column(answers), "queries": column(questions), "relevant_docs": relevant}
        self.dataset = {"default": {"test": {**data, "top_ranked": None}}}
        self.data_loaded = True

    monkeypatch.setattr(AbsTaskRetrieval, "load_data", load_data)
    model = eventformers.MicoModel.from_encoder(str(tiny_encoder))
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    model.save_pretrained(tmp_path / "mico")
    tokenizer.save_pretrained(tmp_path / "mico")
    write_sentence_transformers_files(model, tmp_path / "mico", tokenizer)
    run("score_rar_b", tmp_path / "mico", "--task", "SIQA", "--task", "AlphaNLI", "--device", "cpu")
    scores = dict(line.split("\t") for line in capsys.readouterr().out.splitlines() if "\t" in line)
    assert set(scores) == {"SIQA", "AlphaNLI"}

    encode = partial(eventformers.encode, tmp_path / "mico", normalize=True)
    cosines = encode(list(questions.values()), prompt_name="query") @ (
        encode(list(answers.values()), prompt_name="document").T
    )
    ranks = [int((row > row[place]).sum()) for place, row in enumerate(cosines)]
    expected = 100 * sum(1 / math.log2(2 + rank) for rank in ranks) / len(ranks)
    assert float(scores["SIQA"]) == pytest.approx(expected, abs=0.01)


EXAMPLE = REPOSITORY / "examples" / "sixth_method"


@pytest.mark.timeout(1500)
def test_the_example_passes_its_tests(tmp_path: Path) -> None:
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # What pip leaves of an editable install; pip itself would ask the network for a build backend.
    info = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    [(group, entries)] = project["entry-points"].items()
    lines = [f"{name} = {value}" for name, value in entries.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
    done = run_python(
        ["-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLE / "tests")],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(EXAMPLE)])},
        timeout=1400,
        server="libraries",
    )
    assert done.returncode == 0, done.stdout[-6000:]
    assert "passed" in done.stdout
    assert "skipped" in done.stdout
