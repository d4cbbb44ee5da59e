"""Gathering of a batch across processes, with gradients."""

import torch
from torch import distributed

_NO_KEY = -1


class _GatherRows(torch.autograd.Function):
    """All-gather along the first dimension; backward sums the gradient over ranks and keeps the rank's rows.

    Distributed data parallelism then averages over ranks. So every process can compute the same global loss,
    and the gradient equals that of one process with the whole batch.
    """

    @staticmethod
    def forward(ctx, rows):
        gathered = [torch.empty_like(rows) for _ in range(distributed.get_world_size())]
        distributed.all_gather(gathered, rows.contiguous())
        ctx.start, ctx.length = distributed.get_rank() * len(rows), len(rows)
        return torch.cat(gathered)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        distributed.all_reduce(gradient)
        return gradient[ctx.start : ctx.start + ctx.length]


def gather_rows(rows: torch.Tensor) -> torch.Tensor:
    """Gather a tensor, with the same shape on every process, to the global batch, in rank order: `(B, ...)`
    to `(processes * B, ...)`; the same tensor if there is one process."""
    return rows if num_processes() == 1 else _GatherRows.apply(rows)


def num_processes() -> int:
    """Return the number of processes of a distributed run; 1 without one."""
    if not distributed.is_available() or not distributed.is_initialized():
        return 1
    return distributed.get_world_size()


def apart_from_other_processes(numbers: torch.Tensor) -> torch.Tensor:
    """Offset numbers from 0 to below 2^40 so that no other process has the same ones."""
    return numbers + ((distributed.get_rank() if num_processes() > 1 else 0) << 40)


def gather_distinct(rows: torch.Tensor, keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Gather rows, `(R, d)`, from all processes and keep one for each key.

    R may differ between processes; `keys`, `(R,)`, are numbers from 0 to below 2^63, equal for equal rows.

    Returns:
        The first row of each key `(U, d)`, and the keys in ascending order `(U,)`.
    """
    if num_processes() > 1:
        longest = torch.tensor(len(rows), device=rows.device)
        distributed.all_reduce(longest, distributed.ReduceOp.MAX)
        missing = int(longest) - len(rows)
        keys = gather_rows(torch.nn.functional.pad(keys, (0, missing), value=_NO_KEY))
        there = keys != _NO_KEY
        keys = keys[there]
        rows = gather_rows(torch.nn.functional.pad(rows, (0, 0, 0, missing)))[there]
    distinct, inverse = keys.unique(return_inverse=True)
    numbers = torch.arange(len(inverse), device=rows.device)
    first = torch.full_like(distinct, len(inverse)).scatter_reduce(0, inverse, numbers, "amin")
    return rows[first], distinct
