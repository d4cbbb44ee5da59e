"""What a leaderboard reads from run folders and from copies of model repositories, and what it refuses."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard, ModelCardData
from leaderboard_inputs import SETTINGS, make_result, measured, write_seeds

from eventformers.cli import main
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
from eventformers.leaderboard.board import build_leaderboard, leaderboard
from eventformers.leaderboard.page import markdown, to_json
from eventformers.leaderboard.sources import (
    PUBLISHED_FILE,
    BaselineScore,
    add_published,
    read_folder,
    read_model_files,
)


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


PAPER = {
    "task": "hard_similarity",
    "score": 81.5,
    "model": "Their model",
    "source": "https://arxiv.org/abs/1",
}


def test_a_share_where_a_percentage_is_expected_is_pointed_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add_published(tmp_path, **{**PAPER, "score": 0.815})
    assert "0.815 of hard_similarity is less than one percent" in caplog.text
    assert "for 81.5, run again" in caplog.text
    caplog.clear()
    add_published(tmp_path, **{**PAPER, "task": "transitive_similarity", "score": 0.815})
    assert not caplog.text


def test_a_score_of_a_paper_stands_apart_beside_own_results(tmp_path: Path) -> None:
    write_seeds(tmp_path, "hard_similarity", [80.0])
    add_published(tmp_path, **PAPER)
    (board,) = leaderboard([tmp_path]).boards
    (row,) = [row for row in board.rows if row.model == "Their model"]
    assert (row.kind, row.variant, row.runs) == ("published", PAPER["source"], 0)
    assert row.cells[0] is not None
    assert (row.cells[0].value, row.cells[0].rank) == (81.5, None)
    assert "[Their model](https://arxiv.org/abs/1)" in markdown(leaderboard([tmp_path]))


def test_without_own_results_it_has_a_column_of_its_own(tmp_path: Path) -> None:
    add_published(tmp_path, **PAPER)
    (board,) = leaderboard([tmp_path]).boards
    assert [row.kind for row in board.rows] == ["published"]
    assert '"value": 81.5' in to_json(leaderboard([tmp_path]))


def test_it_does_not_stand_beside_scores_of_the_samples(tmp_path: Path) -> None:
    add_published(tmp_path, **PAPER)
    found = build_leaderboard([measured(origin="samples"), *read_folder(tmp_path)])
    assert all(row.model != "Their model" for row in found.boards[0].rows)
    assert "left out the published score of Their model" in found.left_out[-1]


def test_a_score_is_replaced_only_on_request(tmp_path: Path) -> None:
    add_published(tmp_path, **PAPER)
    path = add_published(tmp_path, **PAPER)
    assert path.read_text(encoding="utf-8").count("Their model") == 1
    with pytest.raises(EventformersError, match=r"has 81\.5 for Their model .* --overwrite"):
        add_published(tmp_path, **{**PAPER, "score": 82})
    add_published(tmp_path, **{**PAPER, "score": 82}, overwrite=True)
    add_published(tmp_path, **{**PAPER, "source": "Another paper"})
    assert path.read_text(encoding="utf-8").count("score:") == 2


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"score": 120}, "score: found 120; accepted for accuracy: a number from 0 to 100"),
        ({"score": float("nan")}, "score: found nan"),
        ({"score": True}, "score: found True"),
        ({"score": "80"}, "score: found '80'"),
        ({"model": " "}, "model: found an empty text"),
        ({"split": "dev"}, "split 'dev' of hard_similarity; accepted"),
        ({"task": "transitive_similarity", "score": 70}, "a number from -1 to 1"),
        ({"task": "hard_similarty"}, "Did you mean 'hard_similarity'"),
    ],
)
def test_what_is_refused(tmp_path: Path, changed: dict[str, object], told: str) -> None:
    with pytest.raises(EventformersError, match=told):
        add_published(tmp_path, **{**PAPER, **changed})
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("text", ["task: hard_similarity\n", "- 5\n", "- {task: x}\n", "{", ""])
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    path = add_published(tmp_path, **PAPER)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataFormatError, match=PUBLISHED_FILE):
        leaderboard([tmp_path])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--task", "hard_similarity", "--score", "81.5", "--model", "M", "--source", "Doe 2024"]
    with pytest.raises(SystemExit, match="0"):
        main(["result", "add", *words, "-o", str(tmp_path)])
    with pytest.raises(SystemExit, match="0"):
        main(["leaderboard", str(tmp_path)])
    assert "Doe 2024" in capsys.readouterr().out
