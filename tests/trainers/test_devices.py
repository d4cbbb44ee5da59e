"""Devices, groups of processes and sharded optimizers."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from event_grounding_inputs import candidate_inputs
from forked import run_group
from group_threads import group_threads
from heterevent_inputs import STAGES, make_head, shared_inputs
from safetensors.torch import load_file, save_file
from short_runs import short_run
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from training_case import training_case_of

from eventformers import cli
from eventformers.cli import main
from eventformers.errors import EventformersError
from eventformers.loading.models import find_device
from eventformers.methods import load_method
from eventformers.models.modeling_event_grounding_cross import EventGroundingForSequenceClassification
from eventformers.trainers import run, stage_training
from eventformers.trainers.arguments import EventTrainingArguments
from eventformers.trainers.grounding_candidates import load_retriever
from eventformers.trainers.process_group import leaving_process_group
from eventformers.trainers.run import resolve_recipe
from eventformers.trainers.stage_training import StageOptions, check_settings
from eventformers.trainers.stages import RUN_FILE, plan_stages


@pytest.mark.parametrize("device", ["meta", "cpu:99", "nonsense", "hpu", "xla"])
def test_a_device_that_cannot_compute_is_refused(device: str) -> None:
    with pytest.raises(EventformersError, match=f"device '{device}' does not exist; accepted: cpu"):
        find_device(device)


def test_a_refused_device_is_told_from_those_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **options: None)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 0)
    with pytest.raises(EventformersError, match=r"accepted: cpu \(torch .* finds no accelerator\)$"):
        find_device("cuda:99")
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda **options: torch.device("cuda"))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    with pytest.raises(EventformersError, match=r"accepted: cpu, cuda:0, cuda:1$"):
        find_device("cuda:99")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_without_an_accelerator_half_precision_trains_on_the_cpu(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.accelerator.is_available", lambda: False)
    check(tmp_path, device=None, dtype=dtype)


def test_a_process_trains_on_one_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is split between GPUs would be contrasted in parts."""
    arguments = EventTrainingArguments(
        output_dir=str(tmp_path), use_cpu=True, report_to="none", per_device_train_batch_size=4
    )
    monkeypatch.setattr(arguments, "_n_gpu", 4)
    assert arguments.n_gpu == 1
    assert arguments.train_batch_size == 4


@pytest.mark.parametrize("name", ["FSDP", "DEEPSPEED"])
def test_sharded_weights_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_training.os, "environ", {f"ACCELERATE_USE_{name}": "true"})
    with pytest.raises(EventformersError, match=f"ACCELERATE_USE_{name}: train cannot save"):
        check(tmp_path, device="cpu")


def test_another_gpu_than_the_first_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EventformersError, match=r"device: found cuda:1; .*CUDA_VISIBLE_DEVICES"):
        check(tmp_path, device="cuda:1")


def check(folder: Path, device: str | None, dtype: str | None = None) -> None:
    recipe = resolve_recipe(load_method("swcc"), "demo", seed=1)
    options = StageOptions(
        1, "encoder", "encoder", None, adapters=None, resume=False, device=device, dtype=dtype
    )
    (stage,) = plan_stages(recipe, folder)
    check_settings(load_method("swcc"), stage, options)


def test_every_process_takes_the_seed_of_the_first(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "broadcast_object_list", lambda seeds: seeds.__setitem__(0, 7))
    settings = ["max_steps=1", "per_device_train_batch_size=4", "save_strategy='no'", "validation_rows=0"]
    assert short_run("swcc", tiny_encoder, tmp_path, *settings, seed=5).seed == 7
    assert json.loads((tmp_path / RUN_FILE).read_text())["recipe"]["seed"] == 7


def test_a_retriever_loads_where_the_run_computes(
    tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not on the accelerator of a machine whose processor was asked for."""
    EventTrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none")
    monkeypatch.setattr("torch.accelerator.current_accelerator", lambda **_: torch.device("meta"))
    retriever = load_retriever(str(tiny_encoder))
    assert retriever.model.device.type == "cpu"


def _join(folder: Path) -> None:
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=0, world_size=1)


def _train(folder: Path) -> None:
    """One backward pass in a group, with a wrapped model that stands in a reference cycle."""
    _join(folder)
    wrapped = DistributedDataParallel(nn.Linear(3, 3))
    wrapped.itself = [wrapped]
    wrapped(torch.ones(2, 3)).sum().backward()
    if sys.platform == "linux":
        assert group_threads()


def test_a_command_leaves_its_group(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _join(tmp_path)
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert not distributed.is_initialized()
    assert "eventformers" in capsys.readouterr().out


@pytest.mark.parametrize("error", [None, RuntimeError("failed"), KeyboardInterrupt()], ids=repr)
def test_no_thread_of_the_group_is_left(error: BaseException | None, tmp_path: Path) -> None:
    """A thread that outlives the interpreter aborts the process."""

    @leaving_process_group()
    def work() -> None:
        _train(tmp_path)
        if error is not None:
            raise error

    if error is None:
        work()
    else:
        with pytest.raises(type(error)):
            work()
    assert not distributed.is_initialized()
    assert group_threads() == []


@pytest.mark.parametrize("error", [RuntimeError, EventformersError, KeyboardInterrupt])
def test_a_command_that_fails_leaves_no_thread(
    error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The variables of the functions that failed hold the group too."""

    def fail(*_: object, **__: object) -> None:
        wrapped = DistributedDataParallel(nn.Linear(3, 3))
        wrapped(torch.ones(2, 3)).sum().backward()
        raise error("failed")

    _join(tmp_path)
    monkeypatch.setattr(cli, "_parser", lambda: fail)
    # Held, as the interpreter holds it while it ends.
    with pytest.raises((RuntimeError, SystemExit)) as raised:
        main([])
    assert raised.tb is not None
    assert not distributed.is_initialized()
    assert group_threads() == []


def test_without_a_group_nothing_happens_and_nothing_is_loaded() -> None:
    code = (
        "import sys; from eventformers.trainers.process_group import leaving_process_group; "
        "leaving_process_group()(int)(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


WORKER = Path(__file__).parents[1] / "support" / "zero2_process.py"
LEARNING_RATE = 0.1
BY_ROW = ("swcc", "mico", "event_type_induction", "event_grounding", "event_grounding_cross")

Inputs = dict[str, torch.Tensor]


def _case(name: str, encoder: Path) -> tuple[Any, Inputs, list[Inputs]]:
    """A head, its inputs and the shares of two processes."""
    if name in STAGES:
        head = make_head(encoder, stage=name, **STAGES[name][0])
        return head, *shared_inputs(name)
    if name == "event_grounding_cross":
        head = EventGroundingForSequenceClassification.from_encoder(str(encoder), head_dropout=0)
        inputs = candidate_inputs(100)
    else:
        case = training_case_of(name)
        head = load_method(name).head_class.from_encoder(str(encoder), **case.head_fields)
        inputs = case().head_inputs(head)
    half = len(inputs["input_ids"]) // 2
    return head, inputs, [{key: value[part] for key, value in inputs.items()} for part in _halves(half)]


def _halves(half: int) -> tuple[slice, slice]:
    return slice(half), slice(half, 2 * half)


@pytest.mark.timeout(300)
@pytest.mark.skipif(find_spec("deepspeed") is None, reason="DeepSpeed is not installed")
@pytest.mark.parametrize("name", [*BY_ROW, *STAGES])
def test_zero2_on_two_processes_equals_ddp_and_one_process(
    name: str, tiny_encoder_without_dropout: Path, tmp_path: Path
) -> None:
    """Loss and weights after a step of plain gradient descent: the gradient is averaged, not added up."""
    head, inputs, shares = _case(name, tiny_encoder_without_dropout)
    start = {key: value.detach().clone() for key, value in head.named_parameters()}
    head.save_pretrained(tmp_path / "head")
    for rank, share in enumerate(shares):
        contiguous = {key: value.contiguous() for key, value in share.items()}
        save_file(contiguous, tmp_path / f"share_{rank}.safetensors")
    loss = head(**inputs).loss
    loss.backward()
    torch.optim.SGD(head.parameters(), lr=LEARNING_RATE).step()
    head_class = f"{type(head).__module__}:{type(head).__name__}"
    process = run_group([str(WORKER), str(tmp_path), head_class], cwd=tmp_path)
    assert process.returncode == 0, process.stderr[-4000:]
    for engine in ("ddp", "zero2"):
        found = load_file(tmp_path / f"{engine}.safetensors")
        torch.testing.assert_close(found.pop("loss"), loss.detach(), rtol=1e-5, atol=1e-6)
        for key, value in head.named_parameters():
            step, wanted = found[key] - start[key], value.detach() - start[key]
            torch.testing.assert_close(step, wanted, rtol=1e-3, atol=1e-6, msg=f"{engine}: {key}")
