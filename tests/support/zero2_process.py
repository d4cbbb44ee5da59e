"""One of two processes: a step of a training head by DeepSpeed's ZeRO-2, and by DDP.

Run as a script with a folder that holds `head/`, `share_0.safetensors` and `share_1.safetensors`, and with
the head's class as `module:Class`; writes `ddp.safetensors` and `zero2.safetensors` with the loss, as the
mean of the processes, and the weights after the step.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

os.environ["DS_ACCELERATOR"] = "cpu"

import deepspeed
import torch
from deepspeed.comm import torch as deepspeed_torch
from safetensors.torch import load_file, save_file
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

LEARNING_RATE = 0.1
"""Of plain gradient descent: with Adam or clipping, a multiple of the right gradient would do."""


def main(folder: Path, head_name: str) -> None:
    """Write the weights after a step of each."""
    torch.set_num_threads(1)
    # Compiling the extension for shared memory takes minutes; without it, gloo does the same.
    deepspeed_torch.build_shm_op = lambda: None
    deepspeed.init_distributed("gloo", auto_mpi_discovery=False, verbose=False)
    rank, processes = distributed.get_rank(), distributed.get_world_size()
    assert processes == 2
    module, name = head_name.split(":")
    head_class = getattr(import_module(module), name)
    own = load_file(folder / f"share_{rank}.safetensors")

    head = head_class.from_pretrained(folder / "head").train()
    optimizer = torch.optim.SGD(head.parameters(), lr=LEARNING_RATE)
    # Held until the backward pass is over: the gradients are averaged by it.
    wrapped = DistributedDataParallel(head, find_unused_parameters=True)
    loss = wrapped(**own).loss
    loss.backward()
    optimizer.step()
    _write(folder / "ddp.safetensors", head, loss, rank)

    head = head_class.from_pretrained(folder / "head").train()
    engine, *_ = deepspeed.initialize(
        model=head,
        optimizer=torch.optim.SGD(head.parameters(), lr=LEARNING_RATE),
        config={
            "train_micro_batch_size_per_gpu": 1,
            # The default of DeepSpeed clips at a norm of 1.
            "gradient_clipping": 0.0,
            "zero_optimization": {"stage": 2},
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
        },
    )
    assert engine.zero_optimization_stage() == 2
    loss = engine(**own).loss
    engine.backward(loss)
    engine.step()
    _write(folder / "zero2.safetensors", head, loss, rank)
    distributed.barrier()
    # The engine keeps the threads of the group, and the end of the interpreter would abort.
    os._exit(0)


def _write(path: Path, head: torch.nn.Module, loss: torch.Tensor, rank: int) -> None:
    loss = loss.detach().float().clone()
    distributed.all_reduce(loss, distributed.ReduceOp.SUM)
    if rank == 0:
        weights = {name: value.detach().float().clone() for name, value in head.named_parameters()}
        save_file({"loss": loss / distributed.get_world_size(), **weights}, path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
