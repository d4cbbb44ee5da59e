from __future__ import annotations

import bz2
import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import leaderboard_inputs
import numpy as np
import pytest
import yaml
from huggingface_hub import ModelCardData, parse_eval_result_entries

from eventformers.errors import DataFormatError, EventformersError
from eventformers.evaluation.results import (
    RESULT_FORMAT,
    UNDEFINED,
    BaselineRecord,
    DatasetRecord,
    ResultNotes,
    TaskResult,
    defined_scores,
    eval_results,
    load_results,
    predictions_path,
    read_result,
    require_same_data,
    result_pairs,
    result_path,
    write_eval_results,
    write_result,
)
from eventformers.evaluation.significance import answers_of


def make_result(**changes) -> TaskResult:
    settings = {"pooling": "mean", "event_order": "subject_predicate_object"}
    values = {
        "model": "org/encoder",
        "model_revision": "a" * 40,
        "main_value": 43.5,
        "scores": {"accuracy": 43.5, "ties": 0, "count": 2},
        "baseline": BaselineRecord("start", "b" * 40, 11.3, {"accuracy": 11.3}, settings),
        "dataset": DatasetRecord(
            "event_similarity", "hard", "test", 2, "f" * 64, "local", None, None, ["MIT"]
        ),
        "seed": 7,
        "predictions": [
            {"similar": 0.5, "dissimilar": 0.1, "correct": True},
            {"similar": 0.1, "correct": False},
        ],
    }
    return leaderboard_inputs.make_result(**{**values, **changes})


def other_rows(result: TaskResult) -> TaskResult:
    return replace(result, dataset=replace(result.dataset, fingerprint="0" * 64))


def test_a_result_is_read_back_as_written(tmp_path):
    result = make_result()
    path = write_result(result, tmp_path)
    assert path == tmp_path / "results" / "org__encoder" / ("a" * 40) / "hard_similarity.json"
    assert read_result(path) == result
    assert load_results(tmp_path) == [result]
    files = sorted(file.name for file in path.parent.iterdir())
    assert files == ["hard_similarity.json", "hard_similarity.predictions.jsonl.bz2"]


def test_each_prediction_has_its_own_line(tmp_path):
    result = make_result()
    path = write_result(result, tmp_path)
    with bz2.open(predictions_path(path), "rt", encoding="utf-8") as lines:
        assert lines.readlines()[1] == '{"similar": 0.1, "correct": false}\n'
    first = predictions_path(path).read_bytes()
    write_result(result, tmp_path)
    assert predictions_path(path).read_bytes() == first
    empty = make_result(predictions=[], model="empty")
    assert read_result(write_result(empty, tmp_path)) == empty


def test_a_file_of_an_earlier_release_has_its_predictions(tmp_path):
    result = make_result(format=1)
    path = tmp_path / "result.json"
    path.write_text(json.dumps(asdict(result)), encoding="utf-8")
    assert read_result(path) == result
    assert read_result(write_result(result, tmp_path)) == replace(result, format=RESULT_FORMAT)


def test_predictions_are_those_that_were_written(tmp_path):
    path = write_result(make_result(), tmp_path)
    file = predictions_path(path)
    content = file.read_bytes()
    for damaged in (content[:-9], b"", b"no archive", content[:20] + b"x" + content[21:]):
        file.write_bytes(damaged)
        with pytest.raises(DataFormatError, match=r"jsonl\.bz2.*; accepted: the predictions that"):
            read_result(path)
        assert read_result(path, with_predictions=False) == make_result(predictions=[])
    file.write_bytes(bz2.compress(b'{"correct": true}\n'))
    with pytest.raises(DataFormatError, match="found other predictions"):
        read_result(path)
    file.unlink()
    assert read_result(path) == make_result(predictions=[])
    with pytest.raises(EventformersError, match="found no predictions; accepted: a result file with hard_"):
        answers_of(read_result(path))


def test_nan_is_never_written(tmp_path):
    scores, undefined = defined_scores(
        {
            "spearman": float("nan"),
            "steps": [1.0, float("inf")],
            "count": np.int64(3),
            "accuracy": np.float64(50),
        }
    )
    assert scores == {"spearman": None, "steps": [1.0, None], "count": 3, "accuracy": 50.0}
    assert undefined == {"spearman": UNDEFINED, "steps": UNDEFINED}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_result(make_result(main_value=float("nan")), tmp_path)
    assert not list(tmp_path.rglob("*.*"))


@pytest.mark.parametrize(
    ("model", "variant", "expected"),
    [
        ("encoder", "", "encoder/rev/task.json"),
        ("org/encoder", "cls", "org__encoder/rev-cls/task.json"),
        ("../outside", "", "__outside/rev/task.json"),
        ("a b:c", "", "a_b_c/rev/task.json"),
    ],
)
def test_the_path_is_the_identity(tmp_path, model, variant, expected):
    assert result_path(tmp_path, model, "rev", "task", variant) == tmp_path / "results" / expected


def test_results_on_different_rows_never_mix(tmp_path):
    result = make_result()
    path = write_result(result, tmp_path)
    with pytest.raises(EventformersError, match="result on other rows"):
        write_result(other_rows(result), tmp_path)
    assert read_result(path) == result
    write_result(other_rows(replace(result, model="another")), tmp_path)
    with pytest.raises(EventformersError, match="cannot be compared"):
        load_results(tmp_path)
    write_result(other_rows(result), tmp_path, overwrite=True)
    assert len(load_results(tmp_path)) == 2
    require_same_data([result, other_rows(replace(result, task="transitive_similarity"))])


def test_a_result_on_the_same_rows_is_replaced(tmp_path):
    write_result(make_result(), tmp_path)
    path = write_result(make_result(main_value=50.0), tmp_path)
    assert read_result(path).main_value == 50.0


def test_a_failed_write_leaves_the_earlier_result(tmp_path, monkeypatch):
    path = write_result(make_result(), tmp_path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(EventformersError, match="No space left on device"):
        write_result(make_result(main_value=1.0), tmp_path)
    assert read_result(path) == make_result()
    assert len(list(path.parent.iterdir())) == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "line 1: found invalid JSON"),
        (b'{"task": \n"hard', "line 2: found invalid JSON"),
        (b"\xff\xfe", "byte 0xff at position 1; accepted: a result file in UTF-8"),
        (b"[]", "found format list; accepted: a result file of format 1 or 2"),
        (b'{"format": 3}', "found format 3; accepted: .* 1 or 2; this one is of a newer eventformers"),
        (b'{"format": 0}', "found format 0; accepted: a result file of format 1 or 2; evaluate the model"),
        (b"{}", "found format None; accepted: a result file of format 1 or 2; evaluate the model again"),
        (b'{"format": 1, "dataset": {}}', "accepted: the fields task, model"),
        (b'{"format": 1, "dataset": null}', "accepted: the fields task, model"),
        (b'{"format": 1}', "no field 'dataset'; accepted: the fields task, model"),
        (b"[" * 100_000, "found .*recursion.*; accepted: a result file"),
        (b"1" * 5_000, "found .*digits.*; accepted: a result file"),
    ],
)
def test_a_file_that_is_no_result_is_refused(tmp_path, content, message):
    path = tmp_path / "result.json"
    path.write_bytes(content)
    with pytest.raises(DataFormatError, match=message):
        read_result(path)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("main_value", float("inf"), "found main_value inf; accepted: a number or null, finite"),
        ("main_value", "9", "found main_value '9'; accepted: a number or null"),
        ("timing", None, "found timing None; accepted: a mapping"),
        ("created", 3, "found created 3; accepted: text"),
        ("predictions", [3], "found predictions.*; accepted: one mapping per row"),
        (
            "dataset",
            {**asdict(make_result().dataset), "rows": "many"},
            "found rows 'many'; accepted: a whole",
        ),
    ],
)
def test_a_field_of_another_type_is_refused(tmp_path, name, value, message):
    path = tmp_path / "result.json"
    path.write_text(json.dumps({**asdict(make_result(format=1)), name: value}))
    with pytest.raises(DataFormatError, match=message):
        read_result(path)


def test_eval_results_are_what_the_hub_parses(tmp_path):
    hub = replace(make_result().dataset, origin="hub", hub_id="org/events", revision="c" * 40)
    results = [make_result(), make_result(task="hard_similarity_extended", dataset=hub)]
    paths = write_eval_results(results, tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in paths] == [
        ".eval_results/hard_similarity.yaml",
        ".eval_results/hard_similarity_extended.yaml",
    ]
    local, remote = (parse_eval_result_entries(yaml.safe_load(path.read_text()))[0] for path in paths)
    assert (local.dataset_id, local.task_id, local.value) == ("event_similarity", "hard_similarity", 43.5)
    assert (remote.dataset_id, remote.dataset_revision) == ("org/events", "c" * 40)
    notes = ResultNotes.read(local.notes)
    assert notes == ResultNotes.of(results[0])
    assert (notes.origin, notes.benchmark, notes.baseline, notes.baseline_value) == (
        "local",
        None,
        "start",
        11.3,
    )
    assert ResultNotes.read(remote.notes).origin is None


def test_samples_are_never_shown_as_a_benchmark(tmp_path):
    samples = replace(make_result().dataset, origin="samples")
    (path,) = write_eval_results([make_result(dataset=samples)], tmp_path)
    assert '"origin": "samples", "benchmark": false' in path.read_text().replace("\n   ", "")
    assert eval_results([make_result(dataset=samples)])[0].dataset_name.endswith("samples)")


def test_the_model_index_round_trips_through_a_card():
    extended = replace(make_result().dataset, config="hard_extended")
    results = [make_result(), make_result(task="hard_similarity_extended", main_value=26.6, dataset=extended)]
    card = ModelCardData(model_name="ours", eval_results=eval_results(results))
    (index,) = card.to_dict()["model-index"]
    assert index["name"] == "ours"
    assert [part["metrics"][0]["value"] for part in index["results"]] == [43.5, 26.6]


def test_an_undefined_score_is_left_out_and_said(tmp_path, caplog):
    undefined = make_result(main_value=None, scores={"accuracy": None}, undefined={"accuracy": UNDEFINED})
    assert read_result(write_result(undefined, tmp_path)) == undefined
    assert write_eval_results([undefined], tmp_path) == []
    assert eval_results([undefined]) == []
    assert "left out" in caplog.text


def test_two_results_of_one_task_are_refused(tmp_path):
    with pytest.raises(EventformersError, match="two results of the task hard_similarity"):
        eval_results([make_result(), make_result(model="another")])


def test_a_pipe_is_no_result(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    for path in (tmp_path / "pipe.json", tmp_path, Path("/dev/zero")):
        with pytest.raises(
            DataFormatError, match="found a folder, a pipe or a device; accepted: a regular file"
        ):
            read_result(path)


def test_results_of_two_folders_are_paired_by_task(tmp_path: Path) -> None:
    for name, tasks in (("one", ("hard_similarity", "copa")), ("two", ("hard_similarity",)), ("none", ())):
        (tmp_path / name).mkdir()
        for task in tasks:
            write_result(make_result(task=task, model=name), tmp_path / name)
    ((first, second),) = result_pairs(tmp_path / "one", tmp_path / "two")
    assert (first.model, second.model, first.task) == ("one", "two", "hard_similarity")
    (file,) = (tmp_path / "two").glob("results/*/*/*.json")
    assert result_pairs(file, tmp_path / "one") == [(second, first)]
    with pytest.raises(EventformersError, match="found no results/MODEL"):
        result_pairs(tmp_path / "one", tmp_path / "none")
    write_result(make_result(task="hard_similarity", model="three"), tmp_path / "two")
    with pytest.raises(EventformersError, match="has several results of hard_similarity"):
        result_pairs(tmp_path / "one", tmp_path / "two")
    write_result(make_result(task="copa", model="x"), tmp_path / "none")
    with pytest.raises(EventformersError, match="accepted: a task of both"):
        result_pairs(file, tmp_path / "none")
