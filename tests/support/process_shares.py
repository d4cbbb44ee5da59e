"""One of two processes, each with its share of a batch: the loss and gradient that they agree on.

Run as a script with a folder that holds `share_0.safetensors`, `share_1.safetensors` and any number of
`head_*/`, and the heads' class as `module:Class`; writes `result_*.safetensors` for each head.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from eventformers.trainers.process_group import leaving_process_group


@leaving_process_group()
def main(folder: str, head_class: str) -> None:
    """Write the results of the group."""
    module, name = head_class.split(":")
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    assert distributed.get_world_size() == 2
    inputs = load_file(Path(folder) / f"share_{rank}.safetensors")
    for saved in sorted(Path(folder).glob("head_*")):
        head = getattr(import_module(module), name).from_pretrained(saved).train()
        # Held until the backward pass is over: the gradients are averaged by it.
        wrapped = DistributedDataParallel(head)
        loss = wrapped(**inputs).loss
        loss.backward()
        if rank == 0:
            gradients = {
                name: value.grad for name, value in head.named_parameters() if value.grad is not None
            }
            result = saved.with_name(saved.name.replace("head", "result") + ".safetensors")
            save_file({"loss": loss.detach(), **gradients}, result)


if __name__ == "__main__":
    main(*sys.argv[1:])
