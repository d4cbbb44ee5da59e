"""One of two processes, each with its share of batches: the losses and gradients that they agree on.

Run as a script with a folder of batches, each a folder with `share_0.safetensors`, `share_1.safetensors` and
any number of `head_*/`. It writes a `result_*.safetensors`, by DDP, and a `sharded_*.safetensors`, by FSDP2,
beside each head.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from group_threads import group_threads
from safetensors.torch import load_file, save_file
from sharded_heads import join_second_group, leave_second_group, shard, whole
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

import eventformers
from eventformers.trainers.process_group import leaving_process_group


@leaving_process_group()
def main(folder: Path) -> None:
    """Write the results of DDP."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    for saved in _saved_heads(folder):
        head = _load(saved)
        # Held until the backward pass is over: the gradients are averaged by it.
        wrapped = DistributedDataParallel(head, find_unused_parameters=True)
        _write(saved, "result", head, wrapped)


def write_sharded(folder: Path) -> None:
    """Write the results of FSDP2."""
    mesh = join_second_group(folder)
    for saved in _saved_heads(folder):
        head = _load(saved)
        shard(head, mesh)
        _write(saved, "sharded", head, head)
    leave_second_group()


def _saved_heads(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/head_*"))


def _load(saved: Path) -> Any:
    [name] = json.loads((saved / "config.json").read_text(encoding="utf-8"))["architectures"]
    return getattr(eventformers, name).from_pretrained(saved).train()


def _write(saved: Path, kind: str, head: torch.nn.Module, called: torch.nn.Module) -> None:
    assert distributed.get_world_size() == 2
    rank = distributed.get_rank()
    loss = called(**load_file(saved.with_name(f"share_{rank}.safetensors"))).loss
    loss.backward()
    losses = [torch.empty_like(loss) for _ in range(2)]
    distributed.all_gather(losses, loss.detach())
    # Every process takes part in gathering a sharded gradient.
    gradients = {name: whole(value.grad) for name, value in head.named_parameters() if value.grad is not None}
    if rank == 0:
        result = saved.with_name(saved.name.replace("head", kind) + ".safetensors")
        save_file({"losses": torch.stack(losses), **gradients}, result)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    assert group_threads() == []
    write_sharded(Path(sys.argv[1]))
