"""What a resume may take and what it may not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from eventformers.errors import EventformersError
from eventformers.methods import load_method
from eventformers.trainers.run import TrainingRun, resolve_recipe, save_run, train_head

SETTINGS = [
    "max_steps=2",
    "save_steps=1",
    "per_device_train_batch_size=4",
    "shared_word_weight=0",
]


def run(
    output: Path, encoder: Path, *settings: str, steps: int = 2, resume: bool = False, lora: bool = False
) -> TrainingRun:
    output.mkdir(exist_ok=True)
    recipe = resolve_recipe(load_method("swcc"), "demo", [*SETTINGS, f"max_steps={steps}", *settings])
    return train_head(
        recipe,
        encoder=str(encoder),
        encoder_name="tiny" if "without" not in str(encoder) else "other",
        output=output,
        lora=lora,
        resume=resume,
        device="cpu",
    )


@pytest.fixture(scope="module")
def finished(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainingRun]:
    output = tmp_path_factory.mktemp("resume") / "run"
    result = run(output, tiny_encoder)
    save_run(result, output)
    return output, result


def test_resume_of_a_finished_run_adds_no_step(
    finished: tuple[Path, TrainingRun], tiny_encoder: Path
) -> None:
    output, first = finished
    again = run(output, tiny_encoder, resume=True)
    assert again.steps == first.steps == 2
    assert not (output / "checkpoint-3").exists()
    for name, value in first.model.state_dict().items():
        torch.testing.assert_close(again.model.state_dict()[name], value, rtol=0, atol=0, msg=name)


def test_a_run_that_cannot_start_keeps_the_checkpoints_of_the_earlier_one(
    finished: tuple[Path, TrainingRun], tiny_encoder: Path
) -> None:
    output, _ = finished
    with pytest.raises(EventformersError, match="frozen_modules"):
        run(output, tiny_encoder, 'frozen_modules=["nothing"]')
    assert (output / "checkpoint-2").is_dir()


def test_resume_with_another_encoder_or_adapters(
    finished: tuple[Path, TrainingRun], tiny_encoder: Path, tiny_encoder_without_dropout: Path
) -> None:
    output, _ = finished
    with pytest.raises(EventformersError, match="has other settings: encoder"):
        run(output, tiny_encoder_without_dropout, resume=True)
    with pytest.raises(EventformersError, match="has other settings: lora"):
        run(output, tiny_encoder, resume=True, lora=True)


def test_a_new_run_leaves_no_earlier_checkpoint(tiny_encoder: Path, tmp_path: Path) -> None:
    run(tmp_path / "run", tiny_encoder, steps=2)
    run(tmp_path / "run", tiny_encoder, steps=1)
    assert [path.name for path in (tmp_path / "run").glob("checkpoint-*")] == ["checkpoint-1"]
