"""Stages that follow each other, and the stage of sentences."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig
from short_runs import assert_equal_weights, kill_after, short_run
from training_case import adapted_model
from transformers import AutoModel, AutoModelForPreTraining, AutoTokenizer

import eventformers
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.loading.encoders import resolve_encoder
from eventformers.methods import load_method
from eventformers.models.modeling_swcc import SwccModel
from eventformers.trainers.adapters import ADAPTER_FOLDER
from eventformers.trainers.recipes import Recipe, load_recipe
from eventformers.trainers.run import TrainingRun, resolve_recipe, save_run
from eventformers.trainers.stages import (
    RUN_FILE,
    can_resume,
    check_stages,
    continuous_history,
    plan_stages,
    stage_recipes,
)
from eventformers.trainers.swcc import SENTENCES, sentence_vectors
from eventformers.training import train

QUICK = str(Path(__file__).with_name("quick_heterevent.yaml"))
STAGES = ["sequence", "graph", "supervised"]


def run(encoder: Path, output: Path, *settings: str, resume: bool = False, seed: int = 5) -> TrainingRun:
    return short_run("heterevent", encoder, output, *settings, recipe=QUICK, seed=seed, resume=resume)


@pytest.fixture(scope="module")
def finished(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainingRun]:
    output = tmp_path_factory.mktemp("stages") / "run"
    whole = run(tiny_encoder, output)
    save_run(whole, output)
    return output, whole


def killed_in_stage_2(whole: Path, folder: Path, *, after_checkpoint: bool) -> Path:
    """The folder as a kill in the middle of the second stage leaves it."""
    shutil.copytree(whole / "stages" / "1-sequence", folder / "stages" / "1-sequence")
    shutil.copy(whole / RUN_FILE, folder)
    graph = folder / "stages" / "2-graph"
    graph.mkdir()
    checkpoints = whole / "stages" / "2-graph"
    if after_checkpoint:
        shutil.copytree(checkpoints / "checkpoint-2", graph / "checkpoint-2")
    shutil.copytree(checkpoints / "checkpoint-4", graph / "checkpoint-4")
    (graph / "checkpoint-4" / "trainer_state.json").unlink()
    return folder


def test_each_stage_starts_from_the_one_before(finished: tuple[Path, TrainingRun]) -> None:
    output, whole = finished
    assert [stage.name for stage in whole.stages] == STAGES
    assert [stage.steps for stage in whole.stages] == [4, 4, 4]
    assert whole.steps == 12
    assert whole.seconds == pytest.approx(sum(stage.seconds for stage in whole.stages))
    assert sorted(path.name for path in (output / "stages").iterdir()) == ["1-sequence", "2-graph"]
    assert whole.model.config.stage == "supervised"
    assert {path.name for path in output.glob("checkpoint-*")} == {"checkpoint-2", "checkpoint-4"}


@pytest.mark.parametrize("name", ["1-sequence", "2-graph"])
def test_each_stage_is_a_model_of_its_own(finished: tuple[Path, TrainingRun], name: str) -> None:
    folder = finished[0] / "stages" / name
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert config["stage"] == name.split("-")[1]
    assert all(
        (folder / f"{reference.split('.')[0]}.py").is_file() for reference in config["auto_map"].values()
    )
    assert json.loads((folder / RUN_FILE).read_text(encoding="utf-8"))["recipe"]["seed"] == 5
    texts = AutoTokenizer.from_pretrained(folder)(["police arrested thief"], return_tensors="pt")
    embeddings = [
        auto_class.from_pretrained(folder)(texts["input_ids"], texts["attention_mask"]).embeddings
        for auto_class in (AutoModel, AutoModelForPreTraining)
    ]
    torch.testing.assert_close(*embeddings)
    last = AutoModel.from_pretrained(finished[0])(texts["input_ids"], texts["attention_mask"]).embeddings
    assert not torch.allclose(embeddings[0], last)


def test_the_log_counts_on(finished: tuple[Path, TrainingRun]) -> None:
    _, whole = finished
    steps = [line["step"] for line in whole.history if "loss" in line]
    assert steps == list(range(1, 13))
    terms = [{name for name in line if name.endswith("_loss")} for line in whole.history if "loss" in line]
    assert terms[0] == {"order_loss", "replacement_loss", "composition_loss"}
    assert terms[4] == {"normal_corrupted_loss", "corrupted_corrupted_loss"}
    assert terms[8] == {"word_loss", "event_loss"}
    assert continuous_history([]) == []


@pytest.mark.parametrize("after_checkpoint", [True, False], ids=["with_checkpoint", "before_its_first"])
def test_a_kill_in_the_second_stage(
    finished: tuple[Path, TrainingRun], tiny_encoder: Path, tmp_path: Path, after_checkpoint: bool
) -> None:
    output, whole = finished
    killed = killed_in_stage_2(output, tmp_path / "killed", after_checkpoint=after_checkpoint)
    first = killed / "stages" / "1-sequence" / "model.safetensors"
    written = first.stat().st_mtime_ns
    resumed = run(tiny_encoder, killed, resume=True)
    assert first.stat().st_mtime_ns == written
    assert [stage.steps for stage in resumed.stages] == [4, 4, 4]
    assert [line.get("loss") for line in resumed.history] == [line.get("loss") for line in whole.history]
    assert_equal_weights(resumed, whole)


def test_a_kill_between_the_last_step_and_the_model(
    finished: tuple[Path, TrainingRun], tiny_encoder: Path, tmp_path: Path
) -> None:
    """The first stage's last checkpoint is there, its model is not."""
    output, whole = finished
    stage = tmp_path / "stages" / "1-sequence"
    stage.mkdir(parents=True)
    shutil.copy(output / RUN_FILE, tmp_path)
    shutil.copytree(output / "stages" / "1-sequence" / "checkpoint-4", stage / "checkpoint-4")
    assert_equal_weights(run(tiny_encoder, tmp_path, resume=True), whole)


def test_a_finished_stage_keeps_its_settings(
    finished: tuple[Path, TrainingRun], tiny_encoder: Path, tmp_path: Path
) -> None:
    output, _ = finished
    killed = killed_in_stage_2(output, tmp_path / "killed", after_checkpoint=True)
    for setting, different in (
        ("sequence.num_corrupted=5", "views"),
        ("sequence.learning_rate=0.1", "training"),
        ("graph.num_views=3", "views"),
        ("num_segments=4", "views"),
    ):
        with pytest.raises(EventformersError, match=rf"has other settings: {different}"):
            run(tiny_encoder, killed, setting, resume=True)
    with pytest.raises(EventformersError, match="has other settings: seed"):
        run(tiny_encoder, killed, resume=True, seed=6)
    # The third stage has not begun.
    resumed = run(tiny_encoder, killed, "supervised.max_steps=2", "supervised.num_distractors=0", resume=True)
    assert resumed.stages[-1].steps == 2


def test_a_new_run_leaves_no_earlier_stage(tiny_encoder: Path, tmp_path: Path) -> None:
    steps = ("max_steps=1", "save_steps=1")
    run(tiny_encoder, tmp_path, *steps)
    assert can_resume(tmp_path)
    run(tiny_encoder, tmp_path, *steps, "stages=[supervised]")
    assert not (tmp_path / "stages").exists()


def test_a_setting_of_a_later_stage_is_refused_at_once(tiny_encoder: Path, tmp_path: Path) -> None:
    for setting in ("supervised.contrast_temperature=0", "supervised.optim=no_such_optimizer"):
        with pytest.raises(EventformersError):
            run(tiny_encoder, tmp_path / "run", setting)
        assert not (tmp_path / "run").exists()


def test_stages_must_agree_on_sizes(tiny_encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match="the weights have other sizes"):
        run(tiny_encoder, tmp_path, "graph.event_dim=8", "max_steps=1", "stages=[sequence, graph]")


def test_nothing_to_resume(tiny_encoder: Path, tmp_path: Path) -> None:
    (tmp_path / RUN_FILE).write_text("{}", encoding="utf-8")
    (tmp_path / "stages" / "1-sequence").mkdir(parents=True)
    with pytest.raises(EventformersError, match="no checkpoint"):
        run(tiny_encoder, tmp_path, resume=True)


# Recipes


def written(folder: Path, text: str, name: str = "recipe.yaml") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_stage_overrides_the_recipe(tmp_path: Path) -> None:
    recipe = load_recipe(
        "heterevent",
        written(
            tmp_path,
            "training: {max_steps: 5, learning_rate: 0.1}\n"
            "stages: [{name: graph, training: {max_steps: 7}}, {name: supervised}]\n",
        ),
    )
    graph, supervised = stage_recipes(recipe)
    assert graph.training == {"max_steps": 7, "learning_rate": 0.1}
    assert supervised.training == {"max_steps": 5, "learning_rate": 0.1}
    assert [part.model["stage"] for part in (graph, supervised)] == ["graph", "supervised"]
    assert recipe.model == {}
    plan = plan_stages(recipe, tmp_path)
    assert [stage.folder.relative_to(tmp_path).as_posix() for stage in plan] == ["stages/1-graph", "."]


def test_a_stage_under_another_name(tmp_path: Path) -> None:
    """The same stage twice, each with settings of its own."""
    text = "stages: [{name: graph}, {name: again, stage: graph, training: {max_steps: 3}}]\n"
    resolved = resolve_recipe(
        load_method("heterevent"), written(tmp_path, text), ["again.learning_rate=0.5", "max_grad_norm=2"]
    )
    parts = stage_recipes(resolved)
    assert [part.model["stage"] for part in parts] == ["graph", "graph"]
    assert [part.training.get("learning_rate") for part in parts] == [None, 0.5]
    assert [part.training["max_grad_norm"] for part in parts] == [2, 2]
    names = [stage.name for stage in plan_stages(resolved, tmp_path)]
    assert names == ["graph", "again"]
    extended = "extends: {}\nstages: [{{name: again}}]\n".format(tmp_path / "recipe.yaml")
    [stage] = stage_recipes(load_recipe("heterevent", written(tmp_path, extended, "other.yaml")))
    assert (stage.model["stage"], stage.training["max_steps"]) == ("graph", 3)


def test_a_recipe_without_stages_is_one_stage(tmp_path: Path) -> None:
    recipe = Recipe(method="swcc", name="one")
    assert stage_recipes(recipe) == [recipe]
    [stage] = plan_stages(recipe, tmp_path)
    assert stage.folder == tmp_path
    assert stage.name == ""


def test_settings_of_one_stage_and_of_all() -> None:
    method = load_method("heterevent")
    settings = ["max_steps=9", "graph.training.max_steps=3", "supervised.target=last", "learning_rate=0.5"]
    resolved = resolve_recipe(method, "paper", settings)
    steps = [part.training["max_steps"] for part in stage_recipes(resolved)]
    # Masked words, sequence, graph, supervised.
    assert steps == [9, 9, 3, 9]
    assert [part.views.get("target") for part in stage_recipes(resolved)] == [None, None, None, "last"]
    assert {part.training["learning_rate"] for part in stage_recipes(resolved)} == {0.5}
    assert resolved.changed["graph.training.max_steps"] == 3
    assert resolved.changed["training.max_steps"] == 9


def test_choosing_stages() -> None:
    method = load_method("heterevent")
    resolved = resolve_recipe(method, "paper", ["stages=[supervised]"])
    assert [stage["name"] for stage in resolved.stages] == ["supervised"]
    assert resolved.changed["stages"] == ["supervised"]
    for value in ("[supervise]", "supervised", "[]", "[1]"):
        with pytest.raises(EventformersError, match="stage"):
            resolve_recipe(method, "paper", [f"stages={value}"])


def test_extending_a_recipe_with_stages(tmp_path: Path) -> None:
    text = "extends: paper\nstages: [{name: supervised, model: {training_level: words}}]\n"
    [stage] = stage_recipes(load_recipe("heterevent", written(tmp_path, text)))
    assert stage.model["training_level"] == "words"
    assert stage.training["num_train_epochs"] == 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stages: graph", "a list, each a mapping"),
        ("stages: [graph]", "a list, each a mapping"),
        ("stages: [{model: {}}]", "letters, digits"),
        ("stages: [{name: graph}, {name: graph}]", "each name once"),
        ("stages: [{name: ../graph, stage: graph}]", "letters, digits"),
        ("stages: [{name: again, stage: graphs}]", "Did you mean 'graph'"),
        ("stages: [{name: again, stage: 3}]", "stage: found 3; accepted: text"),
        ("stages: [{name: graph, modell: {}}]", "Did you mean 'model'"),
        ("stages: [{name: graph, model: 3}]", "stage graph, model: found 3"),
        ("stages: [{name: graphs}]", "Did you mean 'graph'"),
        ("stages: [{name: graph, model: {event_dims: 3}}]", "Did you mean 'event_dim'"),
        ("stages: [{name: graph, training: {max_steps: many}}]", "max_steps: found 'many'"),
    ],
)
def test_bad_stages(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(EventformersError, match=message):
        resolve_recipe(load_method("heterevent"), written(tmp_path, text))


def test_a_method_of_one_stage_has_no_others(tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match="mico has only one stage"):
        resolve_recipe(load_method("mico"), written(tmp_path, "stages: [{name: graph}]"))
    with pytest.raises(UnknownNameError, match="stage of heterevent"):
        check_stages(
            Recipe(method="heterevent", name="x", stages=[{"name": "sequenc"}]),
            load_method("heterevent").config_class,
        )


EVENTS = [
    {"subject": "police", "predicate": "arrest", "object": "thief"},
    {"subject": "storm", "predicate": "destroy", "object": "house of cards"},
]
SETTINGS = (
    *("views.min_role_frequency=1", "views.sentence_rows=40", "data.predicate_form=surface"),
    *("training.max_steps=2", "training.per_device_train_batch_size=8", "training.warmup_steps=0"),
    "training.learning_rate=1e-3",
)


def _run(encoder: Path, output: Path, *settings: str, **options: Any) -> TrainingRun:
    settings = (*SETTINGS, *settings)
    return short_run("swcc", encoder, output, *settings, recipe="minilm-verbs", seed=3, **options)


def test_vectors_of_sentences(tiny_encoder: Path, tmp_path: Path) -> None:
    """The first sentence counts twice, after the prompt and without dropout."""
    model = SwccModel.from_encoder(str(tiny_encoder), pooling="mean", prompts={"event": "the "}).train()
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    found = sentence_vectors(EVENTS, SENTENCES, model, tokenizer)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    can, they = (
        eventformers.encode(tmp_path, texts)
        for texts in (
            ["a police that can arrest a thief", "a storm that can destroy a house of cards"],
            ["they arrest the thief", "they destroy the house of cards"],
        )
    )
    unit_can, unit_they = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (can, they))
    np.testing.assert_allclose(found, 2 * unit_can + unit_they, atol=1e-5)
    assert model.training


@pytest.mark.parametrize(
    "sentence", ["hello", "a {actor}", "a {}", "a {subject", "{subject.words}", "{object!r}", "{object:{x}}"]
)
def test_a_sentence_needs_roles_alone(tiny_encoder: Path, sentence: str) -> None:
    model, tokenizer = SwccModel.from_encoder(str(tiny_encoder)), AutoTokenizer.from_pretrained(tiny_encoder)
    with pytest.raises(EventformersError, match=r"setting sentences: found .*; accepted: texts with {subj"):
        sentence_vectors(EVENTS, [sentence], model, tokenizer)


def test_a_run_without_sentences(tiny_encoder: Path, tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match=r"setting sentences: found \[\]; accepted: texts with"):
        _run(tiny_encoder, tmp_path, "views.sentences=[]")


def test_the_stage_takes_as_many_rows_as_it_is_told(tiny_encoder: Path, tmp_path: Path) -> None:
    run = _run(tiny_encoder, tmp_path, "stages=[sentences]", "sentence_rows=12")
    assert run.data["rows"] == 12
    skipped = run.data["skipped"]
    assert skipped["event_without_words_in_every_role"] > 0
    assert skipped["event_beyond_sentence_rows"] > 0


@pytest.mark.parametrize("lora", [False, True], ids=["whole", "lora"])
def test_changes_of_stages_that_start_from_the_encoder_are_added(
    tiny_encoder: Path, tmp_path: Path, lora: bool
) -> None:
    """Each change is scaled by its own stage, and both are those of the stage alone."""
    start = AutoModel.from_pretrained(resolve_encoder(str(tiny_encoder))).state_dict()
    both, sentences, contrast = (
        _run(tiny_encoder, tmp_path / name, *settings, lora=lora)
        for name, settings in (
            ("both", ()),
            ("sentences", ("stages=[sentences]",)),
            ("contrast", ("stages=[contrast]",)),
        )
    )
    parts = [run.model.base_model.encoder.state_dict() for run in (both, sentences, contrast)]
    for name, value in parts[0].items():
        added = parts[1][name] + parts[2][name] - start[name]
        torch.testing.assert_close(value, added, msg=name, rtol=1e-4, atol=1e-5)
    assert any(not torch.equal(parts[1][name], start[name]) for name in parts[1])
    assert any(not torch.equal(parts[2][name], start[name]) for name in parts[2])
    if lora:
        assert both.adapter is not None
        both.adapter.save(tmp_path / "both" / ADAPTER_FOLDER)
        again = adapted_model(tmp_path / "both", tiny_encoder, "tiny").merge_and_unload().base_model.encoder
        for name, value in again.state_dict().items():
            torch.testing.assert_close(value, parts[0][name], msg=name, rtol=1e-4, atol=1e-5)


def test_weights_trained_without_matrices_have_no_sum(
    tiny_encoder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    peft = LoraConfig(modules_to_save=["LayerNorm"])
    run = short_run("swcc", tiny_encoder, tmp_path, *SETTINGS, recipe="minilm-verbs", seed=3, peft=peft)
    assert run.adapter is None
    assert "adapters of several stages have no sum" in caplog.text


def test_a_later_stage_resumes_with_the_earlier_change(tiny_encoder: Path, tmp_path: Path) -> None:
    """Heads of stages may differ: only the encoder of the earlier one counts."""
    settings = ("training.save_steps=1", "sentences.mlm_weight=0")
    whole = _run(tiny_encoder, tmp_path / "whole", *settings)
    killed = kill_after(tmp_path / "whole", 1, tmp_path / "killed")
    shutil.copytree(tmp_path / "whole" / "stages", killed / "stages")
    resumed = _run(tiny_encoder, killed, *settings, resume=True)
    assert resumed.resumed
    assert_equal_weights(resumed, whole)


def test_a_damaged_earlier_stage_is_told_before_the_later_one_trains(
    tiny_encoder: Path, tmp_path: Path
) -> None:
    _run(tiny_encoder, tmp_path / "whole")
    killed = tmp_path / "killed"
    shutil.copytree(tmp_path / "whole" / "stages", killed / "stages")
    shutil.copy(tmp_path / "whole" / RUN_FILE, killed)
    (killed / "stages" / "1-sentences" / "model.safetensors").write_bytes(b"")
    with pytest.raises(EventformersError, match="1-sentences is damaged"):
        _run(tiny_encoder, killed, resume=True)
    assert not list(killed.glob("checkpoint-*"))


def test_the_card_tells_of_the_stages(tiny_encoder: Path, tmp_path: Path) -> None:
    trained = {
        "recipe": "minilm-verbs",
        "seed": 3,
        "device": "cpu",
        "tasks": (),
        "encoder": str(tiny_encoder),
    }
    train("swcc", tmp_path / "both", settings=SETTINGS, **trained)
    train("swcc", tmp_path / "one", settings=[*SETTINGS, "stages=[contrast]"], **trained)
    both, one = ((tmp_path / name / "README.md").read_text(encoding="utf-8") for name in ("both", "one"))
    assert re.search(r"\| `sentences` \| the encoder \| 2 \| .* \| 1\.3 \|", both)
    assert re.search(r"\| `contrast` \| the encoder \| 2 \| .* \| 1\.03 \|", both)
    assert "a {subject} that can {predicate} a {object}, they {predicate} the {object}" in both
    assert "**Vectors of sentences**" in both
    assert "Vectors of sentences" not in one
