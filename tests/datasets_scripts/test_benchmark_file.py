"""The file by which the Hub knows a built dataset as a benchmark."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

import eventformers
from eventformers.datasets_scripts import BUILDERS, build_reports
from eventformers.datasets_scripts.building import Reports
from eventformers.evaluation.tasks import TASKS
from eventformers.publishing.dataset_building import benchmark_file

HARD = "army | attack | city | troops | storm | town | army | attack | idea | city | love | troops\n"
TRANSITIVE = "army | attack | city | troops | storm | town | 6.5\n"


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Raw files of two tasks."""
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / "hard.txt").write_text(HARD, encoding="utf-8")
    (folder / "transitive.txt").write_text(TRANSITIVE, encoding="utf-8")
    return folder


def test_a_built_dataset_names_the_tasks_that_score_it(raw, tmp_path):
    folder = eventformers.build_dataset("event_similarity", data_dir=raw, output=tmp_path / "built")
    content = yaml.safe_load((folder / "eval.yaml").read_text(encoding="utf-8"))
    builder = BUILDERS["event_similarity"]
    assert content == {
        "name": builder.TITLE,
        "description": builder.SUMMARY,
        "evaluation_framework": "eventformers",
        "tasks": [
            {"id": "hard_similarity", "config": "hard", "split": "test"},
            {"id": "transitive_similarity", "config": "transitive", "split": "test"},
        ],
    }
    for task in content["tasks"]:
        assert TASKS[task["id"]].config == task["config"]
        assert task["split"] in build_reports(folder)[task["config"]]["splits"]


def test_a_config_that_is_built_later_adds_its_tasks(raw, tmp_path):
    for config in ("transitive", "hard"):
        folder = eventformers.build_dataset("event_similarity", config, raw, tmp_path / "built")
    content = yaml.safe_load((folder / "eval.yaml").read_text(encoding="utf-8"))
    assert [task["config"] for task in content["tasks"]] == ["hard", "transitive"]


def test_samples_are_no_benchmark(tmp_path):
    folder = eventformers.build_dataset("event_similarity", "hard", output=tmp_path / "built")
    assert not (folder / "eval.yaml").exists()


def reports(builder: str, configs: dict[str, list[str]]) -> Reports:
    """The build reports of a dataset, as far as they decide on its tasks."""
    return {
        config: {"builder": builder, "sample": False, "splits": {split: {} for split in splits}}
        for config, splits in configs.items()
    }


def tasks_of(files: dict[str, str]) -> list[tuple[str, str, str]]:
    tasks = yaml.safe_load(files["eval.yaml"])["tasks"]
    return [(task["id"], task["config"], task["split"]) for task in tasks]


def test_several_tasks_of_one_config_have_ids_of_their_own():
    place = reports("event_chains", {"multistep": ["train", "validation"]})
    assert tasks_of(benchmark_file(place)) == [
        (name, "multistep", "validation") for name in ("mcns_v", "mcne_v", "multistep_base", "multistep_sky")
    ]


def test_a_task_needs_its_companions_and_takes_other_configs():
    mentions = reports("event_types", {"ace2005": ["train"]})
    assert tasks_of(benchmark_file(mentions)) == [
        ("type_induction", "ace2005", "train"),
        ("type_naming", "ace2005", "train"),
    ]
    both = reports("event_types", {"mentions": ["train"], "frames": ["train"]})
    assert tasks_of(benchmark_file(both))[-1] == ("frame_linking", "mentions", "train")


def test_training_rows_alone_are_no_benchmark():
    place = reports("event_chains", {"mcnc": ["train"], "cooccurrence": ["test"]})
    assert benchmark_file(place) == {}
