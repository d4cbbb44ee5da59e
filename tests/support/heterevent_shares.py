"""Two processes, each with its share of a batch of HeterEvent's: the loss and gradient that they agree on.

Run as a script with a folder that holds `head/` and `share_0.safetensors`, `share_1.safetensors`; writes
`result.safetensors`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import distributed, multiprocessing
from torch.nn.parallel import DistributedDataParallel

PROCESSES = 2


def main(folder: str) -> None:
    """Start the processes and wait for them."""
    multiprocessing.spawn(_work, args=(folder,), nprocs=PROCESSES)


def _work(rank: int, folder: str) -> None:
    from eventformers.models.modeling_heterevent import HeterEventForPreTraining

    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=PROCESSES
    )
    head = HeterEventForPreTraining.from_pretrained(Path(folder) / "head").train()
    wrapped = DistributedDataParallel(head, find_unused_parameters=True)
    loss = wrapped(**load_file(Path(folder) / f"share_{rank}.safetensors")).loss
    loss.backward()
    if rank == 0:
        gradients = {name: value.grad for name, value in head.named_parameters() if value.grad is not None}
        save_file({"loss": loss.detach(), **gradients}, Path(folder) / "result.safetensors")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
