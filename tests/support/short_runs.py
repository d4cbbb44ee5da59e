"""Short training runs on a tiny encoder."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch

from eventformers.methods import load_method
from eventformers.trainers.run import TrainingRun, resolve_recipe, train_head
from eventformers.trainers.stages import RUN_FILE


def short_run(
    method: str,
    encoder: Path,
    output: Path,
    *settings: str,
    recipe: str | Path = "demo",
    seed: int | None = None,
    **options: Any,
) -> TrainingRun:
    """Train a head with a recipe and some other settings; `options` are those of `train_head`."""
    resolved = resolve_recipe(load_method(method), str(recipe), settings, seed)
    own = {"encoder_name": "tiny", "device": "cpu", **options}
    return train_head(resolved, encoder=str(encoder), output=output, **own)


def kill_after(folder: Path, step: int, killed: Path) -> Path:
    """Copy what a run that is killed behind the checkpoint of a step leaves in its folder."""
    killed.mkdir()
    shutil.copy(folder / RUN_FILE, killed)
    shutil.copytree(folder / f"checkpoint-{step}", killed / f"checkpoint-{step}")
    return killed


def assert_equal_weights(found: TrainingRun, expected: TrainingRun) -> None:
    """Compare the weights of two runs, to the last bit."""
    for name, value in expected.model.state_dict().items():
        assert torch.equal(found.model.state_dict()[name], value), name
