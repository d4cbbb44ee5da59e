"""Gathering of a batch across processes, with gradients."""

import torch
from torch import distributed


class _GatherRows(torch.autograd.Function):
    """All-gather along the first dimension; backward sums the gradient over ranks and keeps the own rows.

    Distributed data parallelism then averages over ranks, so that every process may compute the same global
    loss and the gradient equals that of one process with the whole batch.
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
    """Gather a tensor from all processes to the global batch, in rank order.

    Args:
        rows: `(B, ...)`, with the same shape on every process.

    Returns:
        `(processes * B, ...)`; the same tensor where there is one process.
    """
    if not distributed.is_available() or not distributed.is_initialized():
        return rows
    if distributed.get_world_size() == 1:
        return rows
    return _GatherRows.apply(rows)
