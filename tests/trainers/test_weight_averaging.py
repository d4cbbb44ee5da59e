"""The average of an encoder's weights before and after training."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from transformers import AutoModel

from eventformers import SwccForPreTraining
from eventformers.errors import EventformersError
from eventformers.loading.encoders import resolve_encoder
from eventformers.methods import load_method
from eventformers.trainers.lora import add_lora, average_with_start
from eventformers.trainers.run import TrainingRun, resolve_recipe, train_head
from eventformers.trainers.stage_heads import StartWeights

QUICK = ("max_steps=2", "per_device_train_batch_size=4", "frozen_modules=null", "warmup_steps=0")


@pytest.mark.parametrize("share", [-0.5, 0.0, 0.25, 1.0])
def test_moves_between_start_and_end_or_beyond(share: float) -> None:
    encoder = nn.Linear(3, 2)
    start = StartWeights(encoder)
    before = encoder.weight.detach().clone()
    with torch.no_grad():
        encoder.weight.add_(4.0)
    start.average_into(encoder, share)
    torch.testing.assert_close(encoder.weight, before + 4.0 * (1 - share))


def _run(encoder: Path, output: Path, *settings: str, lora: bool = False) -> TrainingRun:
    recipe = resolve_recipe(load_method("mico"), "demo", [*QUICK, *settings], 3)
    return train_head(
        recipe, encoder=str(encoder), encoder_name="tiny", output=output, lora=lora, device="cpu"
    )


@pytest.mark.parametrize("lora", [False, True], ids=["whole", "lora"])
def test_a_run_saves_the_average(tiny_encoder: Path, tmp_path: Path, lora: bool) -> None:
    start = AutoModel.from_pretrained(resolve_encoder(str(tiny_encoder))).state_dict()
    runs = [
        _run(tiny_encoder, tmp_path / str(share), f"start_weight_share={share}", lora=lora)
        for share in (0.0, 0.5)
    ]
    end, half = (run.model.base_model.encoder.state_dict() for run in runs)
    for name, value in half.items():
        torch.testing.assert_close(value, (start[name] + end[name]) / 2, msg=name)
    assert any(not torch.equal(end[name], value) for name, value in start.items() if name in end)


def test_refused_settings(tiny_encoder: Path, tmp_path: Path) -> None:
    for share in ("1.0", "-1.5"):
        with pytest.raises(EventformersError, match=rf"start_weight_share: found {share}; accepted"):
            _run(tiny_encoder, tmp_path, f"start_weight_share={share}")


def test_learned_tokens_are_averaged_under_lora(tiny_encoder: Path) -> None:
    head = SwccForPreTraining.from_encoder(str(tiny_encoder), added_token_ids=[7, 9])
    table = head.get_input_embeddings().weight.detach().clone()
    model = add_lora(head, "tiny")
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "trainable_tokens_delta" in name:
                value.add_(4.0)
    average_with_start(model, 0.25)
    merged = model.merge_and_unload().get_input_embeddings().weight
    expected = table.clone()
    expected[[7, 9]] += 3.0
    torch.testing.assert_close(merged, expected)
