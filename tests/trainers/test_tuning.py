"""Tuning with Optuna, as docs/training.md shows it, with few and short trials."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig

PAGE = Path(__file__).parents[2] / "docs" / "training.md"
SECTION = PAGE.read_text(encoding="utf-8").split("\n## Tune hyperparameters\n")[1]
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", SECTION, re.DOTALL | re.MULTILINE)


@pytest.mark.process
def test_the_page(tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my-encoder").symlink_to(tiny_encoder)
    search, final, study = SNIPPETS
    names: dict[str, Any] = {}
    short = search.replace("max_steps=100", "max_steps=1, use_cpu=True").replace("n_trials=20", "n_trials=2")
    exec(short, names)  # noqa: S102
    best = names["best"]
    assert {*best.hyperparameters} == {
        "contrastive_temperature",
        "learning_rate",
        "per_device_train_batch_size",
    }
    assert 0 <= best.objective <= 100
    # The last trial trained a head of its own with the suggested values.
    trainer = names["trainer"]
    last = trainer._trial.params
    assert AutoConfig.from_pretrained("trial").contrastive_temperature == last["contrastive_temperature"]
    assert trainer.args.learning_rate == last["learning_rate"]
    assert trainer.args.per_device_train_batch_size == last["per_device_train_batch_size"]
    # Loss terms that an earlier trial did not log are not those of the next one.
    trainer._term_sums["contrastive_loss"] = torch.tensor(1.0)
    trainer.call_model_init()
    assert not trainer._term_sums
    few = '"max_steps=1", "save_steps=1"'
    exec(final.replace("settings=settings", f"settings=[*settings, {few}], device='cpu'"), names)  # noqa: S102
    assert (tmp_path / "my-model" / "model.safetensors").is_file()
    one = study.replace("    settings = [\n", f"    settings = [\n        {few},\n").replace(
        "n_trials=20", "n_trials=1"
    )
    exec(one, names)  # noqa: S102
    assert {*names["study"].best_params} == {"learning_rate", "object_swaps"}
