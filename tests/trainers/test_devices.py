"""Where a training run computes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from short_runs import short_run

from eventformers.errors import EventformersError
from eventformers.loading.models import find_device
from eventformers.methods import load_method
from eventformers.trainers import run, stage_training
from eventformers.trainers.arguments import EventTrainingArguments
from eventformers.trainers.grounding_candidates import load_retriever
from eventformers.trainers.run import resolve_recipe
from eventformers.trainers.stage_training import StageOptions, check_settings
from eventformers.trainers.stages import RUN_FILE, plan_stages


@pytest.mark.parametrize("device", ["meta", "cpu:99", "nonsense", "hpu", "xla"])
def test_a_device_that_cannot_compute_is_refused(device: str) -> None:
    with pytest.raises(EventformersError, match=f"device '{device}' does not exist; accepted: cpu"):
        find_device(device)


def test_a_refused_device_is_told_from_those_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **options: None)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 0)
    with pytest.raises(EventformersError, match=r"accepted: cpu \(torch .* finds no accelerator\)$"):
        find_device("cuda:99")
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **options: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    with pytest.raises(EventformersError, match=r"accepted: cpu, cuda:0, cuda:1$"):
        find_device("cuda:99")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_without_an_accelerator_half_precision_trains_on_the_cpu(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.accelerator.is_available", lambda: False)
    check(tmp_path, device=None, dtype=dtype)


def test_a_process_trains_on_one_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is split between GPUs would be contrasted in parts."""
    arguments = EventTrainingArguments(
        output_dir=str(tmp_path), use_cpu=True, report_to="none", per_device_train_batch_size=4
    )
    monkeypatch.setattr(arguments, "_n_gpu", 4)
    assert arguments.n_gpu == 1
    assert arguments.train_batch_size == 4


@pytest.mark.parametrize("name", ["FSDP", "DEEPSPEED"])
def test_sharded_weights_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_training.os, "environ", {f"ACCELERATE_USE_{name}": "true"})
    with pytest.raises(EventformersError, match=f"ACCELERATE_USE_{name}: train cannot save"):
        check(tmp_path, device="cpu")


def test_another_gpu_than_the_first_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match=r"device: found cuda:1; .*CUDA_VISIBLE_DEVICES"):
        check(tmp_path, device="cuda:1")


def check(folder: Path, device: str | None, dtype: str | None = None) -> None:
    recipe = resolve_recipe(load_method("swcc"), "demo", seed=1)
    options = StageOptions(
        1, "encoder", "encoder", None, adapters=None, resume=False, device=device, dtype=dtype
    )
    (stage,) = plan_stages(recipe, folder)
    check_settings(load_method("swcc"), stage, options)


def test_every_process_takes_the_seed_of_the_first(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "broadcast_object_list", lambda seeds: seeds.__setitem__(0, 7))
    settings = ["max_steps=1", "per_device_train_batch_size=4", "save_strategy='no'", "validation_rows=0"]
    assert short_run("swcc", tiny_encoder, tmp_path, *settings, seed=5).seed == 7
    assert json.loads((tmp_path / RUN_FILE).read_text())["recipe"]["seed"] == 7


def test_a_retriever_loads_where_the_run_computes(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not on the accelerator of a machine whose processor was asked for."""
    EventTrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none")
    monkeypatch.setattr("torch.accelerator.current_accelerator", lambda **_: torch.device("meta"))
    retriever = load_retriever(str(tiny_encoder))
    assert retriever.model.device.type == "cpu"
