"""Where a training run computes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from eventformers.errors import EventformersError
from eventformers.inference.grounding.training_tools import load_retriever
from eventformers.loading.models import find_device
from eventformers.methods import load_method
from eventformers.trainers.arguments import EventTrainingArguments
from eventformers.trainers.run import resolve_recipe
from eventformers.trainers.stage_training import StageOptions, check_settings
from eventformers.trainers.stages import plan_stages


@pytest.mark.parametrize("device", ["meta", "cpu:99", "nonsense", "hpu", "xla"])
def test_a_device_that_cannot_compute_is_refused(device: str) -> None:
    with pytest.raises(EventformersError, match=f"device '{device}' does not exist; accepted: cpu"):
        find_device(device)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_without_an_accelerator_half_precision_trains_on_the_cpu(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.accelerator.is_available", lambda: False)
    recipe = resolve_recipe(load_method("swcc"), "demo", seed=1)
    options = StageOptions(1, "encoder", "encoder", None, lora=False, resume=False, device=None, dtype=dtype)
    (stage,) = plan_stages(recipe, tmp_path)
    check_settings(load_method("swcc"), stage, options)


def test_a_process_trains_on_one_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is split between GPUs would be contrasted in parts."""
    arguments = EventTrainingArguments(
        output_dir=str(tmp_path), use_cpu=True, report_to="none", per_device_train_batch_size=4
    )
    monkeypatch.setattr(arguments, "_n_gpu", 4)
    assert arguments.n_gpu == 1
    assert arguments.train_batch_size == 4


def test_a_retriever_loads_where_the_run_computes(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not on the accelerator of a machine whose processor was asked for."""
    EventTrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none")
    monkeypatch.setattr("torch.accelerator.current_accelerator", lambda **_: torch.device("meta"))
    retriever = load_retriever(str(tiny_encoder))
    assert retriever.encoder.model.device.type == "cpu"
