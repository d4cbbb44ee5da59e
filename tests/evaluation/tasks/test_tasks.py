from __future__ import annotations

import inspect
from dataclasses import fields, replace

import pytest

from eventformers.commands.evaluation import evaluate
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.evaluate_metrics import METRICS
from eventformers.evaluation.tasks import TASKS, get_task, with_settings
from eventformers.evaluation.tasks.chains import ChainSettings
from eventformers.evaluation.tasks.graph import GraphSettings
from eventformers.evaluation.tasks.grounding import GroundingSettings
from eventformers.evaluation.tasks.induction import InductionSettings
from eventformers.evaluation.tasks.pairs import PairSettings

WITHOUT_PUBLISHED_SCORES = ("verb_similarity", "variable_mcnc", "coherent_mcnc", "event_coreference")
"""Papers report the test rows, other means of the ratings, or other topics."""


def test_the_published_tasks_are_there():
    assert {name: (task.dataset, task.config) for name, task in TASKS.items()} == {
        "hard_similarity": ("event_similarity", "hard"),
        "hard_similarity_extended": ("event_similarity", "hard_extended"),
        "transitive_similarity": ("event_similarity", "transitive"),
        "verb_similarity": ("event_similarity", "verbs_in_context"),
        "conceptnet_completion": ("commonsense_graphs", "conceptnet_inductive_pairs"),
        "atomic_completion": ("commonsense_graphs", "atomic_inductive_pairs"),
        "copa": ("commonsense_qa", "copa"),
        "siqa": ("commonsense_qa", "siqa"),
        "csqa": ("commonsense_qa", "csqa"),
        "mcnc": ("event_chains", "mcnc"),
        "mcns_v": ("event_chains", "multistep"),
        "mcne_v": ("event_chains", "multistep"),
        "multistep_base": ("event_chains", "multistep"),
        "multistep_sky": ("event_chains", "multistep"),
        "variable_mcnc": ("event_chains", "variable_mcnc"),
        "coherent_mcnc": ("event_chains", "coherent_mcnc"),
        "type_induction": ("event_types", "mentions"),
        "type_naming": ("event_types", "mentions"),
        "frame_linking": ("event_types", "mentions"),
        "event_retrieval": ("event_hierarchies", "mentions"),
        "event_linking": ("event_hierarchies", "mentions"),
        "parent_discovery": ("event_hierarchies", "mentions"),
        "event_coreference": ("event_coreference", "mentions"),
    }


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_task_is_whole(task):
    assert get_task(task.name) is task
    assert task.metric in METRICS
    assert task.title
    assert task.description.endswith(".")
    assert task.paper_reference
    assert task.published_scores or task.name in WITHOUT_PUBLISHED_SCORES


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
    with pytest.raises(EventformersError, match="the splits test; accepted: data with the requested 'dev'"):
        get_task("copa").choose_split(["test"], "dev")


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_published_scores_are_of_a_split_that_is_scored(task):
    assert task.published_split in task.splits
    assert bool(task.published_scores) == (task.published_rows is not None)
    assert not task.published_scores_on(task.published_split, 7, "local")


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("mcnc", ChainSettings(aggregation="last")),
        ("multistep_sky", ChainSettings(sky="graph", aggregation="last")),
        ("mcns_v", ChainSettings(compat=True)),
        ("type_induction", InductionSettings(distance="dot", manifold=False)),
        (
            "frame_linking",
            InductionSettings(distance="dot", clusters="predicted", valid_frames="descendants"),
        ),
        ("conceptnet_completion", GraphSettings(rerank=True)),
        ("hard_similarity", PairSettings(virtual_context="chains", retrieved=3)),
    ],
)
def test_settings_are_taken_by_tasks_that_use_them(name, settings):
    assert with_settings(get_task(name), settings).kind.settings == settings
    by_name = with_settings(get_task(name), {**settings.chosen, "pooling": "cls"}).kind.settings
    assert by_name == replace(settings, pooling="cls")
    assert by_name.name == settings.name


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("copa", ChainSettings(), "copa does not read chains; tasks that do: mcnc"),
        ("copa", {"sky": "graph"}, "copa does not read chains; tasks that do: mcnc"),
        ("mcnc", ChainSettings(sky="graph"), "mcnc does not use sky; accepted: aggregation"),
        ("mcns_v", ChainSettings(aggregation="last"), "mcns_v does not use aggregation; accepted: compat"),
        ("mcns_v", ChainSettings(sky="graph"), "not use sky"),
        ("copa", InductionSettings(), "copa does not cluster mentions; tasks that do: type_ind"),
        ("type_induction", {"clusters": "predicted"}, "not use clusters; accepted: trigger"),
        ("type_naming", {"distance": "dot", "manifold": False}, r"not use distance, manifold; .* with"),
        ("type_naming", InductionSettings(valid_frames="descendants"), "not use valid_frames"),
        ("mcnc", {"nothing": 1}, "unknown setting 'nothing'"),
        ("copa", GroundingSettings(), "copa does not link mentions; tasks that do: event_retrieval, event_l"),
        ("event_retrieval", {"depth": 2}, "not use depth; accepted: task, domain"),
        ("parent_discovery", {"threshold": 0.2}, "not use threshold; accepted: task, .*, depth"),
        ("event_linking", GroundingSettings(depth=2), "not use depth; accepted: task, .*, retriever_weight"),
    ],
)
def test_settings_are_refused_by_other_tasks(name, settings, message):
    with pytest.raises(EventformersError, match=message):
        with_settings(get_task(name), settings)


def test_the_help_lists_every_setting():
    told = inspect.getsource(evaluate)
    for task in TASKS.values():
        for field in fields(task.kind.Settings):
            assert field.name in told
