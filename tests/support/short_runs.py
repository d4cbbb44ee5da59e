"""Short training runs on a tiny encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eventformers.methods import load_method
from eventformers.trainers.run import TrainingRun, resolve_recipe, train_head


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
