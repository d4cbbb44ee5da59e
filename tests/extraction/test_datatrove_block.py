"""The steps of a datatrove pipeline, run by its local executor."""

from __future__ import annotations

import gzip
import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import eventformers

pytest.importorskip("spacy", reason="spaCy is not installed")
pytest.importorskip("datatrove", reason="datatrove is not installed")

from datatrove.data import Document
from datatrove.executor import LocalPipelineExecutor
from datatrove.io import get_datafolder

from eventformers.datasets_scripts import build_dataset, build_reports
from eventformers.errors import UnknownNameError
from eventformers.extraction.datatrove_block import ExtractEvents, ReadTexts, WriteEvents, completed_file

STORIES = {
    "a": "Anna called Police. Anna watched the thief. Anna opened the door.",
    "b": "Peter called Maria. Peter watched the house. Peter opened the letter.",
    "c": "He closed it.",
    "d": "...",
    "e": "Maria sold the car. Maria painted the house. Maria went to the shop.",
}


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    folder = tmp_path / "texts"
    folder.mkdir()
    for name, text in STORIES.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    return folder


def rows_of(paths: list[Path]) -> list[dict[str, Any]]:
    return [json.loads(line) for path in paths for line in gzip.open(path, "rt", encoding="utf-8")]


def run(texts: Path, pipeline: Path, folder: Path, **options: Any) -> dict[str, Any]:
    steps = [
        ReadTexts(str(texts)),
        ExtractEvents(str(pipeline), min_chain_length=3),
        WriteEvents(str(folder)),
    ]
    executor = LocalPipelineExecutor(steps, logging_dir=str(folder / "logs"), **options)
    stats = executor.run()
    return {step.name: step for step in stats.stats} if stats else {}


def test_rows_are_those_of_one_machine(texts: Path, english_pipeline: str, tmp_path: Path) -> None:
    (texts / "picture.png").touch()
    stats = run(texts, english_pipeline, tmp_path / "out", tasks=3, workers=1)
    reading = next(step for name, step in stats.items() if "texts" in name)
    assert reading.stats["skipped: file_with_unknown_ending"].total == 1
    events = sorted((tmp_path / "out").glob("*.events.jsonl.gz"))
    chains = sorted((tmp_path / "out").glob("*.chains.jsonl.gz"))
    finished = eventformers.extract(texts, tmp_path / "whole", pipeline=english_pipeline, min_chain_length=3)
    whole = {path.name: path for path in finished.files}
    ours = rows_of(events)
    assert sorted(ours, key=lambda row: row["id"]) == rows_of([whole["events.jsonl.gz"]])
    wanted = [json.loads(line) for line in whole["chains.jsonl"].read_text(encoding="utf-8").splitlines()]
    assert len(wanted) == 3
    assert sorted(rows_of(chains), key=lambda row: row["chain_id"]) == wanted
    extraction = next(step for name, step in stats.items() if "extraction" in name)
    counted = {name: metric.total for name, metric in extraction.stats.items()}
    assert counted["written: documents"] == finished.counts.written["documents"] == 4
    assert counted["written: chains"] == finished.counts.written["chains"] == 3
    assert not list((tmp_path / "out" / "unfinished").iterdir())
    settings = {"validation_share": 0.0, "test_share": 0.0, "min_chain_length": 3}
    build_dataset("event_chains", "chains", tmp_path / "out", tmp_path / "built", **settings)
    assert build_reports(tmp_path / "built")["chains"]["rows"] == 3


def test_documents_of_other_readers(english_pipeline: str) -> None:
    texts = [
        Document(STORIES["c"], "x", metadata={"source": "wikinews", "licence": "CC BY 2.5"}),
        Document("...", "x"),
        Document(STORIES["a"], "x", metadata={"tokens": 3}),
    ]
    first, second = ExtractEvents(english_pipeline, min_chain_length=2).run(iter(texts))
    assert first.metadata["event_row"]["license"] == "CC-BY-2.5"
    assert first.metadata["chain_rows"] == []
    assert second is texts[2], "documents keep what they have, also where ids are equal"
    assert second.metadata["tokens"] == 3
    assert second.metadata["event_row"]["license"] == "unspecified"
    assert [row["protagonist"] for row in second.metadata["chain_rows"]] == ["anna"]


def test_wrong_settings_are_told_before_a_task_runs() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'spans'"):
        ExtractEvents("en_core_web_sm", arguments="span")


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def stop(folder: Path) -> None:
    """Raise an error in the middle of a file."""
    with completed_file(get_datafolder(str(folder)), "00001.x") as file:
        file.write(b"half")
        raise RuntimeError("stopped")


def test_a_file_has_its_name_when_it_is_complete(tmp_path: Path) -> None:
    folder = get_datafolder(str(tmp_path))
    with pytest.raises(RuntimeError, match="stopped"):
        stop(tmp_path)
    with completed_file(folder, "00001.pairs.x") as other, completed_file(folder, "00001.x") as file:
        other.write(b"pairs")
        file.write(b"whole")
        assert all(name.startswith("unfinished/") for name in files(tmp_path))
    assert files(tmp_path) == {"00001.x": b"whole", "00001.pairs.x": b"pairs"}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_runs_of_a_task_do_not_write_into_the_same_file(tmp_path: Path, order: tuple[int, int]) -> None:
    folder = get_datafolder(str(tmp_path))
    runs = [ExitStack(), ExitStack()]
    opened = [run.enter_context(completed_file(folder, "00001.x")) for run in runs]
    for number in order:
        opened[number].write(str(number).encode() * 3)
        runs[number].close()
        # The contents are equal outside this test, so the first file stays.
        assert files(tmp_path)["00001.x"] == str(order[0]).encode() * 3
    assert files(tmp_path).keys() == {"00001.x"}


def test_a_file_that_disappears_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), completed_file(get_datafolder(str(tmp_path)), "00001.x"):
        next((tmp_path / "unfinished").iterdir()).unlink()
