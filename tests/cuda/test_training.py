"""Training of every method on the device: resumed, in bfloat16, and by adapters."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest
import torch
from device_training import METHODS, case_of_training
from training_case import adapted_model, started_as
from transformers import AutoModel, AutoTokenizer

from eventformers.methods import load_method
from eventformers.trainers.run import save_run
from eventformers.trainers.stages import RUN_FILE

pytestmark = pytest.mark.cuda

STEPS = 10
# Merging adds the adapters' product to a weight, which rounds once more than adding their outputs.
MERGED_TOLERANCE = 1e-5
SENTENCES = ["police arrested thief", "storm destroyed the bridge"]

every_method = pytest.mark.parametrize("method", METHODS)


@every_method
@pytest.mark.usefixtures("_deterministic")
def test_resumed_run_equals_the_uninterrupted(
    method: str, device: str, tiny_encoder: Path, training_data: Path, tmp_path: Path
) -> None:
    case, data = case_of_training(method), training_data / method
    whole = case.run(tiny_encoder, data, tmp_path / "whole", device=device)
    assert next(whole.model.parameters()).device.type == device
    killed = tmp_path / "killed"
    killed.mkdir()
    shutil.copy(tmp_path / "whole" / RUN_FILE, killed)
    shutil.copytree(tmp_path / "whole" / "checkpoint-2", killed / "checkpoint-2")
    resumed = case.run(tiny_encoder, data, killed, device=device, resume=True)
    assert resumed.steps == whole.steps
    for name, value in whole.model.state_dict().items():
        assert torch.equal(resumed.model.state_dict()[name], value), name


@every_method
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_ten_steps_in_half_precision(
    method: str, dtype: str, device: str, tiny_encoder: Path, training_data: Path, tmp_path: Path
) -> None:
    """Losses are finite, the encoder learns, and the saved model is the trained one."""
    if dtype == "float16" and device == "cpu":
        pytest.skip("PyTorch trains in float16 on an accelerator alone")
    settings = (f"max_steps={STEPS}", f"save_steps={STEPS}")
    run = case_of_training(method).run(
        tiny_encoder, training_data / method, tmp_path / "run", settings, device=device, dtype=dtype
    )
    lines = [line for line in run.history if "loss" in line]
    assert len(lines) == STEPS * len(run.stages)
    for line in lines:
        losses = {name: value for name, value in line.items() if name.endswith("loss")}
        assert all(math.isfinite(value) for value in losses.values()), line
        assert len(losses) > 1
    state = run.model.state_dict()
    assert {value.dtype for value in state.values() if value.is_floating_point()} == {torch.float32}
    start = AutoModel.from_pretrained(tiny_encoder).state_dict()
    encoder = run.model.base_model.encoder.state_dict()
    assert any(not started_as(value.cpu(), start[name]) for name, value in encoder.items())

    save_run(run, tmp_path / "saved")
    reloaded = load_method(method).head_class.from_pretrained(tmp_path / "saved").to(device)
    for name, value in state.items():
        assert torch.equal(reloaded.state_dict()[name], value), name
    texts = AutoTokenizer.from_pretrained(tmp_path / "saved")(SENTENCES, padding=True, return_tensors="pt")
    inputs = (texts["input_ids"].to(device), texts["attention_mask"].to(device))
    with torch.inference_mode():
        assert torch.equal(reloaded.base_model(*inputs)[0], run.model.base_model(*inputs)[0])
        assert torch.equal(reloaded(*inputs)[0], run.model(*inputs)[0])


@every_method
def test_merged_adapters_give_what_the_adapters_give(
    method: str, device: str, tiny_encoder: Path, training_data: Path, tmp_path: Path
) -> None:
    run = case_of_training(method).run(
        tiny_encoder, training_data / method, tmp_path / "run", device=device, lora=True
    )
    save_run(run, tmp_path / "saved")
    adapted = adapted_model(tmp_path / "saved", tiny_encoder, "tiny").to(device).eval()
    assert any("lora_B" in name and value.any() for name, value in adapted.named_parameters())
    texts = run.tokenizer(SENTENCES, padding=True, return_tensors="pt").to(device)
    inputs = (texts["input_ids"], texts["attention_mask"])
    with torch.inference_mode():
        found = adapted.base_model.model.base_model(*inputs)[0]
        expected = run.model.base_model(*inputs)[0]
    torch.testing.assert_close(found, expected, rtol=MERGED_TOLERANCE, atol=MERGED_TOLERANCE)
    merged = adapted.merge_and_unload().state_dict()
    assert set(merged) == set(run.model.state_dict())
    for name, value in run.model.state_dict().items():
        torch.testing.assert_close(merged[name], value, rtol=1e-5, atol=1e-6, msg=name)
