"""One of two processes: the gradient of half a batch, and a whole training run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from datasets import config as datasets_config
from group_threads import group_threads
from safetensors.torch import load_file, save_file
from sharded_heads import join_second_group, leave_second_group, shard, whole
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from eventformers.methods import Method, load_method
from eventformers.trainers import method as method_parts
from eventformers.trainers.base import backward_in_chunks
from eventformers.trainers.process_group import leaving_process_group
from eventformers.trainers.run import resolve_recipe, train_head
from eventformers.training import train


@leaving_process_group()
def main(folder: Path) -> None:
    """Write `plain.safetensors`, `chunks.safetensors` and `run/`."""
    torch.set_num_threads(1)
    datasets_config.SLEEP_TIME_ON_THREADS_SHUTDOWN = 0.1
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    distributed.init_process_group("gloo")
    rank, processes = distributed.get_rank(), distributed.get_world_size()
    assert processes == 2
    method = load_method(request["method"])
    if request["splits_by_row"]:
        _write_gradients(folder, method, rank, processes)

    options = {"encoder": request["encoder"], "device": "cpu"}
    recipe = resolve_recipe(method, request["recipe"], request["settings"], 5)
    finished = train(
        request["method"],
        folder / "run",
        recipe=request["recipe"],
        data=request["raw"],
        evaluation_data="samples",
        # Rank 0 scores alone, whatever the task.
        tasks=method.tasks_of(recipe)[:1],
        settings=request["settings"],
        seed=5,
        create_model_card=False,
        **options,
    )
    assert bool(finished.results) == (rank == 0)
    if request["stream_settings"] is not None:
        method_parts.SHUFFLED_ROWS = 100
        settings = [*request["settings"], *request["stream_settings"]]
        recipe = resolve_recipe(method, request["recipe"], settings, 5)
        run = train_head(
            recipe, encoder_name="tiny", output=folder / "stream", data=request["raw"], **options
        )
        assert run.steps == 4


def _write_gradients(folder: Path, method: Method, rank: int, processes: int) -> None:
    """Loss and gradient of this process's rows, in one pass and in chunks."""
    own = _own_rows(folder, rank, processes)

    head = method.head_class.from_pretrained(folder / "head").train()
    wrapped = DistributedDataParallel(head)
    output = wrapped(**own)
    output.loss.backward()
    _write(folder / "plain.safetensors", head, output.loss, rank)

    head = method.head_class.from_pretrained(folder / "head").train()
    output = backward_in_chunks(head, own, 2, backward=lambda loss: loss.backward())
    for parameter in head.parameters():
        distributed.all_reduce(parameter.grad)
        parameter.grad /= processes
    _write(folder / "chunks.safetensors", head, output.loss, rank)


def write_sharded(folder: Path) -> None:
    """Write `sharded.safetensors`: loss and gradient with FSDP2, which Accelerate ignores on CPUs."""
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    if not request["checks_sharded"]:
        return
    mesh = join_second_group(folder)
    rank, processes = distributed.get_rank(), distributed.get_world_size()
    head = load_method(request["method"]).head_class.from_pretrained(folder / "head").train()
    shard(head, mesh)
    output = head(**_own_rows(folder, rank, processes))
    output.loss.backward()
    _write(folder / "sharded.safetensors", head, output.loss, rank)
    leave_second_group()


def _own_rows(folder: Path, rank: int, processes: int) -> dict[str, torch.Tensor]:
    inputs = load_file(folder / "inputs.safetensors")
    rows = len(inputs["input_ids"]) // processes
    return {name: value[rank * rows : (rank + 1) * rows] for name, value in inputs.items()}


def _write(path: Path, head: torch.nn.Module, loss: torch.Tensor, rank: int) -> None:
    # Every process takes part in gathering a sharded gradient.
    gradients = {name: whole(value.grad) for name, value in head.named_parameters()}
    if rank == 0:
        save_file({"loss": loss.detach().clone(), **gradients}, path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    assert group_threads() == []
    write_sharded(Path(sys.argv[1]))
