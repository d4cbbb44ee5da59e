"""The setting `malformed` of every builder: an error, or parts left out, counted, listed and told."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from eventformers import cli
from eventformers.datasets_scripts import BUILDERS, build_dataset, build_reports, load_built
from eventformers.datasets_scripts.base import SAMPLES, EventDatasetConfig, NoRowsError, setting_names
from eventformers.datasets_scripts.malformed import malformed_parts, takes_malformed
from eventformers.errors import DataFormatError, EventformersError, UnknownNameError
from eventformers.evaluation.data import describe_data, load_data
from eventformers.evaluation.results import require_same_data
from eventformers.evaluation.tasks import TASKS

GOOD = '{"document_id": "a", "events": [["dog", "bites", "man"], ["man", "cries", ""]]}\n'
BAD = "no JSON\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "corpus.jsonl"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("builder", BUILDERS.values(), ids=str)
def test_every_builder_has_the_setting(builder: Any) -> None:
    assert issubclass(builder.BUILDER_CONFIG_CLASS, EventDatasetConfig)
    assert all(isinstance(config, EventDatasetConfig) for config in builder.BUILDER_CONFIGS)
    assert "malformed" in setting_names(builder.BUILDER_CONFIG_CLASS)


def test_an_unknown_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="Accepted: error, skip"):
        build_dataset("event_chains", "documents", write(tmp_path, GOOD), malformed="skp")


def test_parts_left_out_stand_in_report_card_and_warning(tmp_path: Path) -> None:
    raw = write(tmp_path, GOOD + BAD * 1_200)
    with pytest.warns(UserWarning, match=r"documents: 1,200 malformed parts left out: corpus.jsonl, line 2"):
        folder = build_dataset("event_chains", "documents", raw, tmp_path / "built", malformed="skip")
    report: Any = build_reports(folder)["documents"]
    assert report["rows"] == 1
    assert report["skipped"]["malformed_line"] == report["malformed"]["count"] == 1_200
    assert len(report["malformed"]["parts"]) == 1_000
    first = report["malformed"]["parts"][0]
    assert first.pop("found").startswith("invalid JSON")
    assert first == {"file": "corpus.jsonl", "line": 2, "whole": "line"}
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "malformed parts left out: 1,200" in card
    assert "a line of `corpus.jsonl`, line 2" in card


def test_rows_from_the_cache_warn_too_and_do_not_answer_a_strict_build(tmp_path: Path) -> None:
    raw = write(tmp_path, GOOD + BAD)
    for _ in range(2):
        with pytest.warns(UserWarning, match="1 malformed part left out"):
            assert len(load_built(raw, "documents", malformed="skip")["train"]) == 1
    with pytest.raises(DataFormatError):
        load_built(raw, "documents")


def test_malformed_parts_alone_leave_no_rows(tmp_path: Path) -> None:
    with pytest.raises(NoRowsError, match=r"2 malformed parts left out: corpus.jsonl, line 1"):
        build_dataset("event_chains", "documents", write(tmp_path, BAD * 2), malformed="skip")


@pytest.mark.parametrize(
    ("name", "content"), [("corpus.jsonl", b""), ("corpus.jsonl.gz", b"\x1f\x8b\x08\x00broken")]
)
def test_a_file_that_cannot_be_read_stays_an_error(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataFormatError):
        build_dataset("event_chains", "documents", tmp_path / name, malformed="skip")


def test_the_policy_in_force_reaches_every_build(tmp_path: Path) -> None:
    raw = write(tmp_path, GOOD + BAD)

    @takes_malformed
    def rows(*, malformed: str | None = None) -> int:
        return len(load_built(raw, "documents")["train"])

    with pytest.warns(UserWarning, match="left out"):
        assert rows(malformed="skip") == 1
    with malformed_parts("skip"), pytest.warns(UserWarning, match="left out"):
        assert rows() == 1
    with malformed_parts("skip"), pytest.raises(DataFormatError):
        rows(malformed="error")
    with pytest.raises(DataFormatError):
        rows()


def test_a_result_says_so_and_cannot_be_compared(tmp_path: Path) -> None:
    task = TASKS["type_induction"]
    lines = (SAMPLES / "event_types" / "mentions.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    records = []
    for name, text in (("whole", lines), ("part", [*lines[:-1], "broken\n"])):
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(text), encoding="utf-8")
        with malformed_parts("skip"):
            records.append(describe_data(load_data(task, path, None), path))
    whole, part = records
    assert (whole.malformed, part.malformed) == (0, 1)
    assert whole.fingerprint != part.fingerprint
    results: Any = [SimpleNamespace(task=task.name, model="a", dataset=record) for record in records]
    with pytest.raises(EventformersError, match="1 malformed part left out"):
        require_same_data(results)


def test_the_option_of_the_commands(tmp_path: Path) -> None:
    raw = write(tmp_path, GOOD + BAD)
    command = ["data", "build", "event_chains", "--config", "documents", "--data-dir", str(raw), "-o"]
    strict = CliRunner().invoke(cli.app, [*command, str(tmp_path / "a")])
    assert isinstance(strict.exception, DataFormatError)
    assert "line 2: found invalid JSON" in str(strict.exception)
    with pytest.warns(UserWarning, match="1 malformed part left out"):
        lenient = CliRunner().invoke(cli.app, [*command, str(tmp_path / "b"), "--malformed", "skip"])
    assert lenient.exit_code == 0
    assert "1 malformed line" in lenient.output
