"""One of two processes: a step of a training head by DeepSpeed's ZeRO-2, and by DDP.

Run as a script with a folder that holds `head/`, `inputs.safetensors` and `request.json` with the name of the
method; writes `ddp.safetensors` and `zero2.safetensors` with the loss and the weights after the step.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ["DS_ACCELERATOR"] = "cpu"

import deepspeed
import torch
from deepspeed.comm import torch as deepspeed_torch
from safetensors.torch import load_file, save_file
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from eventformers.methods import load_method

LEARNING_RATE = 0.1
"""Of plain gradient descent: with Adam or clipping, a multiple of the right gradient would do."""


def main(folder: Path) -> None:
    """Write the weights after a step of each."""
    torch.set_num_threads(1)
    # Compiling the extension for shared memory takes minutes; without it, gloo does the same.
    deepspeed_torch.build_shm_op = lambda: None
    deepspeed.init_distributed("gloo", auto_mpi_discovery=False, verbose=False)
    rank, processes = distributed.get_rank(), distributed.get_world_size()
    assert processes == 2
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    head_class = load_method(request["method"]).head_class
    inputs = load_file(folder / "inputs.safetensors")
    rows = len(inputs["input_ids"]) // processes
    own = {name: value[rank * rows : (rank + 1) * rows] for name, value in inputs.items()}

    head = head_class.from_pretrained(folder / "head").train()
    optimizer = torch.optim.SGD(head.parameters(), lr=LEARNING_RATE)
    # Held until the backward pass is over: the gradients are averaged by it.
    wrapped = DistributedDataParallel(head)
    loss = wrapped(**own).loss
    loss.backward()
    optimizer.step()
    _write(folder / "ddp.safetensors", head, loss, rank)

    head = head_class.from_pretrained(folder / "head").train()
    engine, *_ = deepspeed.initialize(
        model=head,
        optimizer=torch.optim.SGD(head.parameters(), lr=LEARNING_RATE),
        config={
            "train_micro_batch_size_per_gpu": rows,
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
    if rank == 0:
        weights = {name: value.detach().float().clone() for name, value in head.named_parameters()}
        save_file({"loss": loss.detach().float().clone(), **weights}, path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
