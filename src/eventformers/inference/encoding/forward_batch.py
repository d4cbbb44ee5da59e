"""The forward pass of one batch, and the error where memory does not suffice."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from eventformers.errors import EventformersError
from eventformers.inference.encoding.arrays import Vectors


def forward_batch(model: nn.Module, tensors: dict[str, torch.Tensor]) -> Vectors:
    """Compute the vectors of a batch, `(batch, d)`, from the model's arguments."""
    return model(**tensors).embeddings.float().cpu().numpy()


@contextmanager
def out_of_memory_explained(device: torch.device, texts: int, tokens: int) -> Iterator[None]:
    """Turn an out-of-memory error into a one-line error that names the setting to lower."""
    try:
        yield
    except RuntimeError as error:
        if not _is_out_of_memory(error):
            raise
        raise EventformersError(
            f"out of memory on {device} with {texts:,} texts of {tokens} tokens; lower the batch size"
        ) from error


def _is_out_of_memory(error: RuntimeError) -> bool:
    # The allocator of main memory raises a plain RuntimeError.
    return isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)
