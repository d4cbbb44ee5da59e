"""Data, reports and pushes of a training run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from datasets import config as datasets_config
from transformers import AutoModel, AutoTokenizer, TrainingArguments

import eventformers
from eventformers import SwccForPreTraining
from eventformers.datasets_scripts import loading
from eventformers.datasets_scripts.loading import built_report
from eventformers.errors import EventformersError, UnknownNameError
from eventformers.methods import all_methods, load_method, load_object
from eventformers.model_cards import TrainedOn
from eventformers.trainers.adapters import add_adapters
from eventformers.trainers.arguments import EventTrainingArguments
from eventformers.trainers.base import EventTrainer
from eventformers.trainers.cached_arrays import cached_arrays
from eventformers.trainers.data_reports import joint_report
from eventformers.trainers.run import resolve_recipe
from eventformers.trainers.stage_training import StageOptions, check_publishable, check_settings
from eventformers.trainers.stages import Stage

PAGE = Path(__file__).parents[2] / "docs" / "training.md"
SECTION = PAGE.read_text(encoding="utf-8").split("\n## Your own Trainer\n")[1].split("\n## ")[0]
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", SECTION, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def names_of_page(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The names of the page after the run of its first snippet, with a few steps, and the `folder` of it."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "my-encoder").symlink_to(tiny_encoder)
    names: dict[str, Any] = {"folder": folder}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(SNIPPETS[0].replace("max_steps=100", "max_steps=3, logging_steps=1"), names)  # noqa: S102
    return names


@pytest.fixture
def trained(names_of_page: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A copy of the names, in the folder of the snippet."""
    monkeypatch.chdir(names_of_page["folder"])
    return dict(names_of_page)


@pytest.mark.process
def test_a_plain_trainer_trains_and_saves(trained: dict[str, Any], tiny_encoder: Path) -> None:
    history = trained["trainer"].state.log_history
    assert [entry["loss"] > 0 for entry in history if "loss" in entry] == [True] * 3
    before, after = (AutoModel.from_pretrained(name).state_dict() for name in (tiny_encoder, "my-model"))
    name = "embeddings.word_embeddings.weight"
    assert not torch.equal(before[name], after[f"encoder.{name}"])
    tokenizer = AutoTokenizer.from_pretrained("my-model")
    assert len(tokenizer("the storm")["input_ids"]) > 2
    assert len([line for line in SNIPPETS[0].splitlines() if line.strip()]) <= 20


@pytest.mark.process
def test_the_event_trainer(trained: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(SNIPPETS[1].replace("max_steps=100", "max_steps=2, logging_steps=1"), trained)  # noqa: S102
    assert "contrastive_loss" in trained["trainer"].state.log_history[0]
    arguments = eventformers.EventTrainingArguments("my-model")
    assert arguments.remove_unused_columns is False
    assert TrainingArguments("my-model").remove_unused_columns is True


@pytest.mark.process
def test_the_callback_passes_the_epoch(trained: dict[str, Any]) -> None:
    collator, rows = trained["data"].collator, [trained["data"].train[place] for place in range(4)]
    state = trained["trainer"].state
    draws = []
    for epoch in (0, 1, 0):
        state.epoch = epoch
        eventformers.EpochCallback(collator).on_epoch_begin(None, state, None)
        draws.append(collator(rows)["masked_positions"].tolist())
    assert draws[0] == draws[2] != draws[1]


def test_a_stage_of_a_recipe(tiny_encoder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    head = eventformers.HeterEventForPreTraining.from_encoder(str(tiny_encoder), stage="graph")
    data = eventformers.training_data(head, tokenizer, recipe="demo")
    assert "view_seeds" in data.collator([data.train[0], data.train[1]])
    with pytest.raises(EventformersError, match="num_viewz"):
        eventformers.training_data(head, tokenizer, recipe="demo", settings=["num_viewz=3"])


def test_removed_columns_name_the_cure(tiny_encoder: Path) -> None:
    """`Trainer` removes the columns that the head does not take, if `remove_unused_columns` is true."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    head = eventformers.HeterEventForPreTraining.from_encoder(str(tiny_encoder), stage="graph")
    data = eventformers.training_data(head, tokenizer, recipe="demo")
    with pytest.raises(EventformersError, match=r"TrainingArguments\(remove_unused_columns=False\)"):
        data.collator([{}, {}])
    with pytest.raises(EventformersError, match="similar length"):
        eventformers.EventTrainingArguments("out", train_sampling_strategy="group_by_length")


def test_collators_are_public() -> None:
    for method in all_methods().values():
        if method.collator is not None:
            collator = load_object(method.collator)
            assert getattr(eventformers, collator.__name__) is collator


@pytest.mark.parametrize(
    ("builder", "configs"),
    [
        ("event_chains", ["chains", "documents"]),
        ("event_hierarchies", ["mentions", "events"]),
        ("commonsense_graphs", ["conceptnet_inductive", "atomic_inductive"]),
    ],
)
def test_counts_of_every_kind_of_source_are_summed(builder: str, configs: list[str]) -> None:
    reports = [built_report(None, config, builder=builder) for config in configs]
    joined = joint_report(reports)
    assert joined["rows"] == sum(report["rows"] for report in reports)
    assert counted(joined["sources"]) == sum(counted(report["sources"]) for report in reports) > 0
    assert joined["licenses"] == sorted({name for report in reports for name in report["licenses"]})


def test_malformed_parts_of_every_config_are_kept(tmp_path: Path) -> None:
    row = '{"events": [{"predicate": "storm", "subject": "the mob"}]}'
    reports = []
    for name in ("one", "two"):
        path = tmp_path / f"{name}.jsonl"
        path.write_text(f"{row}\nno JSON\n{row}\n", encoding="utf-8")
        built = built_report(path, "documents", builder="event_chains", malformed="skip")
        reports.append({**built, "config": name})
    joined = joint_report(reports)
    assert joined["malformed"]["count"] == 2
    assert [part["line"] for part in joined["malformed"]["parts"]] == [2, 2]


def test_a_report_from_the_hub_names_its_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "snapshots" / ("d" * 40) / "hard" / "build_report.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(built_report(None, "hard")), encoding="utf-8")
    monkeypatch.setattr(loading, "hf_hub_download", lambda *_, **__: str(path))
    trained_on = TrainedOn.from_report(joint_report([built_report("org/events", "hard")]))
    assert (trained_on.origin, trained_on.hub_id, trained_on.revision) == ("hub", "org/events", "d" * 40)


def counted(sources: dict[str, dict[str, Any]]) -> int:
    """Return the sum of all counts."""
    return sum(count for kept in sources.values() for kind, count in kept.items() if kind != "license")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets_config, "HF_DATASETS_CACHE", tmp_path / "cache")


@pytest.mark.usefixtures("own_cache")
def test_computed_once() -> None:
    arrays = {
        "numbers": np.arange(6, dtype=np.int32).reshape(2, 3).T,
        "shares": np.array([0.5, 0.25], dtype=np.float32),
        "kept": np.array([True, False]),
        "none": np.empty((0, 4), dtype=np.uint8),
    }
    first = cached_arrays("kind", ["a", 1], lambda: arrays)
    again = cached_arrays("kind", ["a", 1], lambda: pytest.fail("computed again"))
    for name, values in arrays.items():
        for found in (first[name], again[name]):
            assert found.dtype == values.dtype
            np.testing.assert_array_equal(found, values)
    other = cached_arrays("kind", ["a", 2], lambda: {"numbers": np.zeros(1)})
    np.testing.assert_array_equal(other["numbers"], [0])


@pytest.mark.usefixtures("own_cache")
@pytest.mark.skipif(not Path("/proc/self/maps").is_file(), reason="the system does not list mapped files")
def test_arrays_are_mapped(tmp_path: Path) -> None:
    """Also in the run that computes them."""
    found = cached_arrays("kind", [1], lambda: {"numbers": np.arange(100_000)})
    (path,) = (tmp_path / "cache").rglob("*.safetensors")
    assert str(path) in Path("/proc/self/maps").read_text(encoding="utf-8")
    found["numbers"][:] = 0
    assert cached_arrays("kind", [1], dict)["numbers"][-1] == 99_999


def test_a_token_is_no_setting() -> None:
    with pytest.raises(UnknownNameError, match="hub_token"):
        resolve_recipe(load_method("swcc"), "demo", ["hub_token=hf_secret"])


def test_a_push_needs_a_name(tmp_path: Path) -> None:
    method = load_method("swcc")
    options = StageOptions(1, "tiny", "tiny", None, adapters=None, resume=False, device="cpu", dtype=None)
    recipe = resolve_recipe(method, "demo", ["push_to_hub=true"], 1)
    with pytest.raises(EventformersError, match="hub_model_id=OWNER/NAME"):
        check_settings(method, Stage("", recipe, tmp_path), options)


@pytest.mark.parametrize(
    ("sources", "told"),
    [
        ({"a": {"license": "MIT"}, "b": {"license": "CC-BY-NC-4.0"}}, "not all open: CC-BY-NC-4.0;"),
        ({"a": {"license": "MIT"}, "b": {}}, "not all open: unspecified;"),
        ({}, "not all open: unspecified;"),
    ],
)
def test_rows_that_not_everyone_may_publish(sources: dict[str, Any], told: str) -> None:
    check_publishable({"sources": {"a": {"license": "MIT"}, "b": {"license": "CC-BY-4.0"}}})
    with pytest.raises(EventformersError, match=told):
        check_publishable({"sources": sources})


def test_a_push_that_fails_ends_no_training(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def lost(*_: Any) -> None:
        raise ConnectionError("the connection\nis lost")

    monkeypatch.setattr(EventTrainer, "push_to_hub", lost)
    model = SwccForPreTraining.from_encoder(str(tiny_encoder))
    arguments = EventTrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none")
    EventTrainer(model=model, args=arguments)._push_from_checkpoint("checkpoint-1")
    assert "training continues: the connection is lost" in caplog.text


def test_the_card_of_a_push_counts_the_merged_model(tiny_encoder: Path, tmp_path: Path) -> None:
    model = SwccForPreTraining.from_encoder(str(tiny_encoder))
    expected = sum(parameter.numel() for parameter in model.base_model.parameters())
    arguments = EventTrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none")
    for trained in (model, add_adapters(model, "tiny")):
        EventTrainer(model=trained, args=arguments).create_model_card()
        assert f"{expected:,}" in (tmp_path / "README.md").read_text(encoding="utf-8")
        (tmp_path / "README.md").unlink()
