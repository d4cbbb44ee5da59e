from __future__ import annotations

import pytest

from eventformers.errors import UnknownNameError
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
