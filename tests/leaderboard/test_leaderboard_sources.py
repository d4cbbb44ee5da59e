"""What a leaderboard reads from run folders and from copies of model repositories, and what it refuses."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard, ModelCardData
from leaderboard_inputs import SETTINGS, make_result

from eventformers.errors import DataFormatError, EventformersError
from eventformers.evaluation.results import (
    NO_START,
    BaselineRecord,
    ResultNotes,
    TaskResult,
    eval_results,
    result_path,
    write_eval_results,
    write_result,
)
from eventformers.leaderboard.sources import BaselineScore, read_folder, read_model_files


def write_repository(folder: Path, result: TaskResult) -> Path:
    """A model repository's result in the Hub's two formats, as a run writes them."""
    write_eval_results([result], folder)
    card = ModelCardData(model_name=result.model, eval_results=eval_results([result]))
    ModelCard(f"---\n{card.to_yaml()}\n---\n\n# A model\n").save(folder / "README.md")
    return folder


def test_a_result_file_is_read_with_all_it_tells(tmp_path):
    path = write_result(make_result(), tmp_path / "run")
    (one,) = read_folder(tmp_path)
    assert (one.task, one.split, one.metric, one.value) == ("hard_similarity", "test", "accuracy", 80.0)
    assert (one.model, one.revision, one.seed, one.parameters) == ("mine-seed-1", "a" * 64, 1, 22_713_216)
    assert (one.data, one.rows, one.origin) == ("f" * 12, 115, "local")
    assert (one.texts, one.seconds, one.device) == (300, 2.0, "cpu")
    assert one.baseline == BaselineScore("start", "b" * 40, 11.304, "mean, subject predicate object")
    assert (one.is_baseline, one.source, one.card) == (False, str(path), None)


def test_results_are_found_at_every_depth_and_hidden_folders_are_left_alone(tmp_path):
    for place in ("a", "b/c", ".cache/d", "results/e"):
        write_result(make_result(model=place.replace("/", "-").lstrip(".")), tmp_path / place)
    assert {one.model for one in read_folder(tmp_path)} == {"a", "b-c", "results-e"}
    assert {one.model for one in read_folder(tmp_path / "a" / "results")} == {"a"}


def test_other_json_is_told_and_checkpoints_are_not(tmp_path, caplog):
    write_result(make_result(), tmp_path)
    for place in ("x/y/renamed.json", "run/checkpoint-5/trainer_state.json"):
        (tmp_path / "results" / place).parent.mkdir(parents=True)
        (tmp_path / "results" / place).write_text("{}", encoding="utf-8")
    assert len(read_folder(tmp_path)) == 1
    assert "renamed.json: left out, unknown task" in caplog.text
    assert "trainer_state" not in caplog.text


def test_a_baseline_is_told_from_a_model(tmp_path):
    bare = {"baseline": None, "model_revision": "c"}
    write_result(make_result(model="trained", **bare, baseline_missing="left out on request"), tmp_path)
    write_result(make_result(model="plain", **bare, baseline_missing="a plain encoder", seed=None), tmp_path)
    write_result(make_result(model="random", **bare, baseline_missing=NO_START), tmp_path)
    assert {one.model: one.is_baseline for one in read_folder(tmp_path)} == {
        "trained": False,
        "plain": True,
        "random": True,
    }


def test_the_split_is_no_variant_and_taken_vectors_tell_no_speed(tmp_path):
    result = make_result()
    result = replace(
        result,
        variant="cls-validation",
        dataset=replace(result.dataset, split="validation"),
        timing={"seconds": 2.0, "distinct_texts": 300, "shared_texts": 300},
        parameters=None,
    )
    write_result(result, tmp_path)
    (one,) = read_folder(tmp_path)
    assert (one.variant, one.split, one.texts, one.seconds, one.device) == (
        "cls",
        "validation",
        None,
        None,
        None,
    )


def test_the_card_is_that_of_the_models_own_folder(tmp_path):
    write_result(make_result(), tmp_path)
    (tmp_path / "README.md").write_text("# Something else", encoding="utf-8")
    assert read_folder(tmp_path)[0].card is None
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    assert read_folder(tmp_path)[0].card == str(tmp_path / "README.md")


@pytest.mark.parametrize("content", ["", "[1, 2]", '{"format": 1, "task": "hard_similarity"}'])
def test_a_broken_result_is_told_with_its_file(content, tmp_path):
    path = result_path(tmp_path, "mine", "a", "hard_similarity")
    path.parent.mkdir(parents=True)
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataFormatError, match=r"hard_similarity\.json"):
        read_folder(tmp_path)


def test_an_older_result_without_parameters_is_read(tmp_path):
    path = write_result(make_result(), tmp_path)
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["parameters"]
    path.write_text(json.dumps(content), encoding="utf-8")
    assert read_folder(tmp_path)[0].parameters is None


def test_a_folder_without_results_is_told(tmp_path):
    with pytest.raises(EventformersError, match=r"found no result; accepted: folders with results/MODEL"):
        read_folder(tmp_path)
    with pytest.raises(EventformersError, match="missing: no such folder"):
        read_folder(tmp_path / "missing")


@pytest.mark.parametrize("origin", ["samples", "local", "hub"])
def test_our_entries_tell_what_their_result_tells(origin, tmp_path):
    result = make_result()
    dataset = replace(
        result.dataset,
        origin=origin,
        hub_id="org/data" if origin == "hub" else None,
        revision="c" * 40 if origin == "hub" else None,
    )
    result = replace(result, dataset=dataset, details={"candidates": 40})
    (one,) = read_folder(write_repository(tmp_path, result))
    assert (one.task, one.split, one.metric, one.value) == ("hard_similarity", "test", "accuracy", 80.0)
    assert (one.rows, one.origin, one.data, one.seed) == (115, origin, "f" * 12, 1)
    assert one.dataset_revision == dataset.revision
    assert one.baseline == BaselineScore("start", None, 11.3)


def test_several_tasks_of_one_config_keep_apart(tmp_path):
    folder = tmp_path / "model"
    results = [make_result(task, main_value=value) for task, value in (("mcns_v", 40.0), ("mcne_v", 50.0))]
    write_eval_results(results, folder)
    assert {one.task: one.value for one in read_folder(folder)} == {"mcns_v": 40.0, "mcne_v": 50.0}
    entries = [yaml.safe_load(path.read_text()) for path in sorted(folder.glob(".eval_results/*"))]
    assert [entry[0]["dataset"]["task_id"] for entry in entries] == ["mcne_v", "mcns_v"]


def test_a_model_index_is_read_where_no_entry_tells_the_task(tmp_path):
    write_repository(tmp_path, make_result())
    entry = tmp_path / ".eval_results" / "hard_similarity.yaml"
    entry.write_text(entry.read_text(encoding="utf-8").replace("80.0", "81.5"), encoding="utf-8")
    assert [one.value for one in read_folder(tmp_path)] == [81.5]
    entry.unlink()
    (one,) = read_folder(tmp_path)
    assert (one.task, one.split, one.metric, one.value) == ("hard_similarity", "test", "accuracy", 80.0)
    assert one.data == "unknown"


def entries(folder: Path, text: str) -> Path:
    path = folder / ".eval_results" / "some.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_entries_of_others_are_read_by_their_task_or_left_out_and_told(tmp_path, caplog):
    entries(
        tmp_path,
        "- dataset: {id: org/data, task_id: copa, revision: abc}\n  value: 70\n  notes: no tools\n"
        "- dataset: {id: cais/hle, task_id: hle}\n  value: 20.9\n"
        "- dataset: {id: org/data, task_id: siqa}\n  value: .nan\n",
    )
    with caplog.at_level(logging.WARNING):
        found = read_model_files(tmp_path, "org/model", source="org/model")
    assert [(one.task, one.value, one.data) for one in found] == [
        ("copa", 70.0, "revision abc"),
        ("siqa", None, "unknown"),
    ]
    assert "org/model: left out results of unknown tasks: cais/hle hle" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "- dataset: [",
        "- dataset: {id: org/data}\n  value: 3\n",
        "value",
        "- dataset: {id: org/data, task_id: copa}\n  value: high\n",
        "- dataset: {id: org/data, task_id: copa}\n",
    ],
)
def test_a_broken_entry_is_told_with_its_file(text, tmp_path):
    path = entries(tmp_path, text)
    with pytest.raises(DataFormatError) as refused:
        read_folder(tmp_path)
    assert str(path) in str(refused.value)


def test_a_broken_model_index_is_told(tmp_path):
    (tmp_path / "README.md").write_text("---\nmodel-index:\n- results: 3\n---\n", encoding="utf-8")
    with pytest.raises(DataFormatError, match="a model-index with"):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    ("dataset", "found"),
    [("revision: 1.0", "the revision 1.0"), ("split: [a]", "the split"), ("name: [a]", "the dataset name")],
)
def test_a_model_index_with_values_of_another_type_is_told(dataset, found, tmp_path):
    result = (
        f"{{task: {{type: t, name: hard_similarity}}, dataset: {{type: d, name: d, {dataset}}}, metrics: []}}"
    )
    result = result.replace("metrics: []", "metrics: [{type: accuracy, value: 1.0}]").replace(
        "name: d, name", "name"
    )
    card = f"---\nmodel-index:\n- name: m\n  results:\n  - {result}\n---\n"
    (tmp_path / "README.md").write_text(card, encoding="utf-8")
    with pytest.raises(DataFormatError, match=found):
        read_folder(tmp_path)


def test_a_result_of_another_task_than_its_file_is_told(tmp_path):
    path = write_result(make_result(), tmp_path)
    path.rename(path.with_name("transitive_similarity.json"))
    with pytest.raises(DataFormatError, match="the task 'hard_similarity'"):
        read_folder(tmp_path)


def test_linked_runs_are_read_once(tmp_path):
    write_result(make_result(), tmp_path / "elsewhere" / "run")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "elsewhere" / "run")
    (tmp_path / "runs" / "again").symlink_to(tmp_path / "elsewhere" / "run")
    assert len(read_folder(tmp_path / "runs")) == 1


def test_notes_of_others_tell_nothing():
    for notes in (None, "with tools; seed 3", "3", "{}", '{"task": "copa", "main_score": 3}', "[" * 100_000):
        assert ResultNotes.read(notes) is None


def test_a_baseline_without_score_is_kept(tmp_path):
    baseline = BaselineRecord("start", "b" * 40, None, {}, SETTINGS)
    write_result(make_result(baseline=baseline), tmp_path)
    assert read_folder(tmp_path)[0].baseline.value is None


@pytest.mark.parametrize(
    "text",
    [
        "a0: &a0 [x, x]\n"
        + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)),
        "a: &a [*a]\n",
    ],
)
def test_a_few_lines_that_stand_for_billions_of_values(tmp_path: Path, text: str) -> None:
    entries(tmp_path, text)
    with pytest.raises(DataFormatError, match="aliases that expand to more than 1,000,000 values"):
        read_folder(tmp_path)
