"""Training runs are scored on held-out rows of their own data by default."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from eventformers.datasets_scripts.base import SAMPLES
from eventformers.errors import EventformersError
from eventformers.evaluation.data import load_data, plan_evaluation
from eventformers.evaluation.tasks import TASKS, check_settings, settings_used
from eventformers.methods import load_method
from eventformers.trainers.recipes import Recipe
from eventformers.trainers.run import resolve_recipe
from eventformers.training import train

STORIES = SAMPLES / "chains" / "stories.jsonl"
QUICK = ("max_steps=1", "per_device_train_batch_size=4")


def _recipe(method: str, *settings: str) -> Recipe:
    return resolve_recipe(load_method(method), "demo", settings, 1)


def _events(folder: Path) -> Path:
    folder.mkdir()
    words = ["police", "storm", "bank", "doctor", "court", "jury"]
    rows = [{"events": [[word, "hit", "car"], [word, "saved", "road"]]} for word in words]
    (folder / "e.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_samples_that_were_trained_on_or_asked_for() -> None:
    tasks = load_method("swcc").tasks
    plan = plan_evaluation(_recipe("swcc"), None, None)
    assert ([task.name for task in plan.tasks], plan.data) == ([*tasks], None)
    plan = plan_evaluation(_recipe("swcc"), STORIES, "samples")
    assert ([task.name for task in plan.tasks], plan.data) == ([*tasks], None)


def test_the_held_out_rows_are_those_of_the_settings_trained_under() -> None:
    """Under the defaults other documents would be held out, which were trained on."""
    recipe = _recipe("heterevent", "split_seed=3", "validation_share=0", "test_share=0.3")
    plan = plan_evaluation(recipe, STORIES, None)
    assert plan.data == STORIES
    (mcnc,) = (task for task in plan.tasks if task.name == "mcnc")
    assert mcnc.build_settings == {"split_seed": 3, "validation_share": 0, "test_share": 0.3}
    assert load_data(mcnc, plan.data, None).split == "test"
    assert "validation" not in load_data(mcnc, plan.data, None).splits
    everything = _recipe("heterevent", "validation_share=0", "test_share=0")
    assert not plan_evaluation(everything, STORIES, None).tasks


def test_samples_are_held_out_as_the_training_holds_them_out() -> None:
    recipe = resolve_recipe(load_method("event_type_induction"), "minilm-geneva", (), 1)
    (task, *_) = plan_evaluation(recipe, None, None).tasks
    assert task.sample_settings["num_seen"] == 10
    unseen = {row["event_type"] for row in load_data(task, None, None).rows if not row["seen"]}
    assert unseen == {"Teach", "Travel"}
    (task, *_) = plan_evaluation(recipe, None, "samples").tasks
    assert task.sample_settings["num_seen"] == 6


def test_a_graph_is_scored_under_the_config_that_was_trained_on(tmp_path: Path) -> None:
    for name, tails in (("train100k", ("wet", "cold", "late")), ("dev1", ("dry",)), ("test", ("warm",))):
        lines = [f"Causes\train\t{tail}\t1.0\n" for tail in tails]
        (tmp_path / f"{name}.txt").write_text("".join(lines))
    (task,) = plan_evaluation(_recipe("mico", "config=conceptnet_pairs"), tmp_path, None).tasks
    held = load_data(task, tmp_path, None)
    assert (task.name, held.config) == ("conceptnet_completion", "conceptnet_pairs")
    assert len(held.splits["test"]) == 2


def test_stages_with_different_data_leave_nothing_held_out() -> None:
    recipe = _recipe("heterevent", "graph.split_seed=3")
    with pytest.raises(EventformersError, match="no rows are held out of all; accepted: --evaluation-data"):
        plan_evaluation(recipe, STORIES, None)
    assert plan_evaluation(recipe, STORIES, "samples").tasks


def test_data_without_rows_of_a_task_train_without_scores(
    tiny_encoder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="eventformers"):
        finished = train(
            "swcc",
            tmp_path / "model",
            recipe="demo",
            data=_events(tmp_path / "data"),
            encoder=str(tiny_encoder),
            settings=("max_steps=1", "shared_word_weight=0"),
            device="cpu",
        )
    assert finished.results == []
    (told,) = (line for line in caplog.messages if line.startswith("not scored"))
    assert "data has no held-out rows of hard_similarity, hard_similarity_extended, transitive" in told
    card = (tmp_path / "model" / "README.md").read_text()
    assert "samples" not in card.split("## Results")[-1].split("\n## ")[0]
    assert not (tmp_path / "model" / "results").exists()


def test_data_that_are_asked_for_have_rows(tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match="no raw file for event_similarity"):
        plan_evaluation(_recipe("swcc"), None, _events(tmp_path / "data"))


@pytest.mark.parametrize(("recipe", "own"), [("paper", False), ("demo", False), ("paper", True)])
def test_a_recipe_for_another_encoder_than_the_packaged_one_is_told(
    recipe: str, own: bool, tiny_encoder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = str(tiny_encoder) if own else None
    with (
        caplog.at_level(logging.WARNING, logger="eventformers"),
        pytest.raises(EventformersError, match="missing"),
    ):
        train("swcc", tmp_path / "model", recipe=recipe, encoder=encoder, data=tmp_path / "missing")
    told = [line for line in caplog.messages if "no --encoder is given" in line]
    assert len(told) == (recipe == "paper" and not own)
    assert all(
        line.startswith("recipe paper is for the encoder google-bert/bert-base-uncased") for line in told
    )


def test_tasks_without_rows_are_left_out_and_told(
    tiny_encoder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="eventformers"):
        finished = train(
            "mico",
            tmp_path / "model",
            recipe="demo",
            encoder=str(tiny_encoder),
            settings=QUICK,
            evaluation_data=SAMPLES / "commonsense" / "COPA",
            device="cpu",
            create_model_card=False,
        )
    assert [result.task for result in finished.results] == ["copa"]
    assert "the evaluation data has no rows: conceptnet_completion, siqa, csqa" in caplog.text


def test_a_model_of_ours_that_is_trained_further_is_the_baseline(tiny_encoder: Path, tmp_path: Path) -> None:
    first, further = (
        train(
            "heterevent",
            tmp_path / name,
            recipe="demo",
            encoder=str(encoder),
            settings=(*QUICK, "stages=[supervised]", "warmup_steps=0"),
            tasks=["mcnc"],
            device="cpu",
            create_model_card=False,
        ).results[0]
        for name, encoder in (("first", tiny_encoder), ("further", tmp_path / "first"))
    )
    assert further.baseline is not None
    assert (further.baseline.model, further.baseline.main_value) == ("first", first.main_value)


def test_settings_of_several_kinds_are_known():
    check_settings({})
    check_settings({"aggregation": "last", "retrieved": 3, "virtual_context": "chains", "depth": 2})


@pytest.mark.parametrize(
    ("settings", "context", "message"),
    [
        ({"retrieved": 3}, None, "retrieved: settings of contexts without their data"),
        ({"retrieved": "many"}, "chains", "retrieved: found 'many'; accepted: 1 or more"),
        ({"num_layers": 0}, "chains", "num_layers: found 0"),
        ({"compat": 1}, None, "compat: found 1; accepted: true or false"),
        ({"sky": "blue"}, None, "unknown sky 'blue'"),
        ({"task": "bilingual"}, None, "unknown task 'bilingual'"),
        ({"domain": "wikipaedia"}, None, "unknown domain 'wikipaedia'.*Did you mean 'wikipedia'"),
        ({"reranker": 3}, None, "reranker: found 3; accepted: a folder or a Hub id"),
        ({"candidates": 0}, None, "candidates: found 0; accepted: 1 or more"),
        ({"depth": True}, None, "depth: found True; accepted: 1 or more"),
        ({"threshold": 1}, None, "threshold: found 1; accepted: a number between 0 and 1"),
        ({"agregation": "last"}, None, "unknown setting 'agregation'.*Did you mean 'aggregation'"),
    ],
)
def test_values_are_checked(settings, context, message):
    with pytest.raises(EventformersError, match=message):
        check_settings(settings | ({"virtual_context": context} if context else {}))


def test_each_of_all_tasks_takes_the_settings_that_it_uses():
    settings = {"aggregation": "last", "pooling": "mean"}
    assert settings_used(TASKS["mcnc"], settings) == settings
    assert settings_used(TASKS["hard_similarity"], settings) == {"pooling": "mean"}
    assert settings_used(TASKS["event_linking"], {"candidates": 4, "depth": 2}) == {"candidates": 4}
