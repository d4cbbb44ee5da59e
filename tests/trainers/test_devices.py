"""Where a training run computes."""

from __future__ import annotations

from pathlib import Path

import pytest

from eventformers.errors import EventformersError
from eventformers.loading.models import find_device
from eventformers.methods import load_method
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
