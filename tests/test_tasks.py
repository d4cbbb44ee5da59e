from __future__ import annotations

import pytest

from eventformers.errors import EventformersError, UnknownNameError
from eventformers.evaluate_metrics import METRICS
from eventformers.tasks import TASKS, get_task


def test_the_published_tasks_are_there():
    assert {name: (task.dataset, task.config) for name, task in TASKS.items()} == {
        "hard_similarity": ("event_similarity", "hard"),
        "hard_similarity_extended": ("event_similarity", "hard_extended"),
        "transitive_similarity": ("event_similarity", "transitive"),
        "conceptnet_completion": ("commonsense_graphs", "conceptnet_inductive_pairs"),
        "atomic_completion": ("commonsense_graphs", "atomic_inductive_pairs"),
        "copa": ("commonsense_qa", "copa"),
        "siqa": ("commonsense_qa", "siqa"),
        "csqa": ("commonsense_qa", "csqa"),
    }


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_task_is_whole(task):
    assert get_task(task.name) is task
    assert task.metric in METRICS
    assert task.title
    assert task.description.endswith(".")
    assert task.paper_reference
    assert task.published_scores


def test_an_unknown_task_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match="Did you mean 'transitive_similarity'"):
        get_task("transitiv_similarity")


def test_the_test_split_is_scored_where_the_data_has_one():
    task = get_task("copa")
    assert task.choose_split(["train", "validation", "test"]) == "test"
    assert task.choose_split(["train", "validation"]) == "validation"
    assert task.choose_split(["validation", "test"], "validation") == "validation"
    assert task.choose_split(["train", "test"], "train") == "train"


def test_a_split_that_is_not_there_is_said():
    with pytest.raises(EventformersError, match="copa: found the splits train; accepted: data with test or"):
        get_task("copa").choose_split(["train"])
    with pytest.raises(EventformersError, match="the splits test; accepted: data with 'dev', which was"):
        get_task("copa").choose_split(["test"], "dev")


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_published_scores_are_of_a_split_that_is_scored(task):
    assert task.published_split in task.splits
