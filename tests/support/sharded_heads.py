"""Heads with parameters sharded by FSDP2 on CPU processes, where Accelerate ignores FSDP."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor


def join_second_group(folder: Path) -> DeviceMesh:
    """Join a gloo group after the first one was left; the process must end by `leave_second_group`."""
    rank, processes = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    # At the port of the first group, a fast process would meet the server that rank 0 is about to end, and
    # both would wait for ever.
    meeting = (folder / "meeting").as_uri()
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=processes)
    return init_device_mesh("cpu", (processes,))


def leave_second_group() -> None:
    """End this process when all have come here."""
    distributed.barrier()
    # The mesh keeps the threads of the group, and the end of the interpreter would abort.
    os._exit(0)


def shard(head: torch.nn.Module, mesh: DeviceMesh) -> None:
    """Shard a head as Accelerate does: the layers of its encoder, then what is left."""
    for layers in [module for module in head.modules() if isinstance(module, torch.nn.ModuleList)]:
        for layer in layers:
            fully_shard(layer, mesh=mesh)
    fully_shard(head, mesh=mesh)


def whole(gradient: torch.Tensor) -> torch.Tensor:
    """Return a gradient on each process, which must all call this for a sharded one."""
    return gradient.full_tensor() if isinstance(gradient, DTensor) else gradient.clone()
