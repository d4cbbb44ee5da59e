"""Training of every method on the device: resumed, in bfloat16, and by adapters."""

from __future__ import annotations

import inspect
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from device_training import METHODS, case_of_training
from training_case import MethodTrainingCase, adapted_model, started_as, training_case_of
from transformers import AutoModel, AutoTokenizer

from eventformers.methods import load_method, main_methods
from eventformers.trainers.arguments import EventTrainingArguments
from eventformers.trainers.base import EventTrainer, backward_in_chunks
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


CASES: dict[str, type[MethodTrainingCase]] = {
    name: training_case_of(name)
    for name, method in main_methods().items()
    if hasattr(method.head_class, "encode_views") and method.recipes.startswith("eventformers.")
}
SEED = 1
# Both ways multiply the same matrices, but add gradients of chunks up in another order.
RELATIVE, ABSOLUTE = 1e-3, 1e-5

every_chunked_method = pytest.mark.parametrize("method", CASES)


def head_on(device: str, method: str, encoder: Path) -> Any:
    torch.manual_seed(0)
    fields = CASES[method].head_fields
    return load_method(method).head_class.from_encoder(str(encoder), **fields).to(device).train()


def gradients(head: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.grad.clone() for name, value in head.named_parameters() if value.grad is not None}


def in_one_graph(head: Any, inputs: Mapping[str, torch.Tensor], size: int) -> torch.Tensor:
    """The loss of a batch whose chunks are encoded one after the other, so that they draw as in chunks."""
    of_views, of_losses = (
        {name: value for name, value in inputs.items() if name in inspect.signature(function).parameters}
        for function in (head.encode_views, head.losses_from_views)
    )
    parts = [
        head.encode_views(**{name: value[start : start + size] for name, value in of_views.items()})
        for start in range(0, len(inputs["input_ids"]), size)
    ]
    views = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    return head.losses_from_views(views, **of_losses).loss


@every_chunked_method
@pytest.mark.parametrize("size", [1, 2, 100])
def test_gradients_equal_those_of_one_batch(method: str, size: int, device: str, tiny_encoder: Path) -> None:
    """Each chunk is encoded twice and must draw the same dropout both times."""
    one, chunked = (head_on(device, method, tiny_encoder) for _ in range(2))
    inputs = {name: value.to(device) for name, value in CASES[method]().head_inputs(one).items()}
    torch.manual_seed(SEED)
    loss = one(**inputs).loss if size == 100 else in_one_graph(one, inputs, size)
    loss.backward()
    torch.manual_seed(SEED)
    output = backward_in_chunks(chunked, inputs, size, backward=lambda loss: loss.backward())
    torch.testing.assert_close(output.loss, loss.detach(), rtol=RELATIVE, atol=ABSOLUTE)
    expected, found = gradients(one), gradients(chunked)
    assert set(found) == set(expected)
    assert any(value.abs().max() > 100 * ABSOLUTE for value in expected.values())
    for name, value in found.items():
        torch.testing.assert_close(value, expected[name], rtol=RELATIVE, atol=ABSOLUTE, msg=name)


@every_chunked_method
def test_random_state_goes_on_as_after_one_encoding(method: str, device: str, tiny_encoder: Path) -> None:
    """The second encoding leaves no trace, so that later draws do not repeat earlier ones."""
    head = head_on(device, method, tiny_encoder)
    inputs = {name: value.to(device) for name, value in CASES[method]().head_inputs(head).items()}
    torch.manual_seed(SEED)
    with torch.no_grad():
        in_one_graph(head, inputs, 2)
    expected = torch.rand(4, device=device)
    torch.manual_seed(SEED)
    backward_in_chunks(head, inputs, 2, backward=lambda loss: loss.backward())
    assert torch.equal(torch.rand(4, device=device), expected)


@every_chunked_method
def test_gradients_under_a_scaler(method: str, device: str, tiny_encoder: Path, tmp_path: Path) -> None:
    """Training in float16 scales the loss of a batch in chunks as that of a whole one."""
    found = []
    for scale in (None, 1024.0):
        head = head_on(device, method, tiny_encoder)
        trainer = EventTrainer(
            model=head,
            args=EventTrainingArguments(
                output_dir=str(tmp_path),
                gradient_cache_chunk_size=2,
                use_cpu=device == "cpu",
                report_to="none",
            ),
        )
        trainer.current_gradient_accumulation_steps = 1
        if scale is not None:
            trainer.accelerator.scaler = torch.amp.GradScaler(device, init_scale=scale)
        torch.manual_seed(SEED)
        trainer.training_step(head, CASES[method]().head_inputs(head))
        found.append({name: value / (scale or 1) for name, value in gradients(head).items()})
    for name, value in found[0].items():
        torch.testing.assert_close(found[1][name], value, rtol=RELATIVE, atol=ABSOLUTE, msg=name)
