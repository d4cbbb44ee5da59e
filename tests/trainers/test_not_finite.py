"""Training stops with an error when numbers are not finite."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from eventformers.errors import EventformersError
from eventformers.training import train

RECIPE = Path(__file__).with_name("quick_swcc.yaml")


def _train(encoder: Path, output: Path, *settings: str) -> None:
    train("swcc", output, recipe=str(RECIPE), encoder=str(encoder), settings=settings, seed=1, device="cpu")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_encoder_without_finite_weights_is_refused(
    tiny_encoder: Path, tmp_path: Path, value: float
) -> None:
    encoder = tmp_path / "encoder"
    shutil.copytree(tiny_encoder, encoder)
    weights = load_file(encoder / "model.safetensors")
    weights["embeddings.word_embeddings.weight"][3, :2] = value
    save_file(weights, encoder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(EventformersError, match=r"2 numbers in .*word_embeddings.* accepted: finite"):
        _train(encoder, tmp_path / "run")
    assert not (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.parametrize("logging_steps", [1, 100])
def test_a_loss_that_is_no_number_ends_the_run(
    tiny_encoder: Path, tmp_path: Path, logging_steps: int
) -> None:
    """Told at the next line of the log, at the latest at the end."""
    settings = ("learning_rate=1e38", "warmup_steps=0", "max_steps=4", f"logging_steps={logging_steps}")
    with pytest.raises(EventformersError, match=r"the training loss is (nan|inf) at step \d"):
        _train(tiny_encoder, tmp_path / "run", *settings)
    assert not (tmp_path / "run" / "model.safetensors").exists()
