"""Gradients of a loss over a large batch with the memory of a small one (GradCache, Gao et al., 2021)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.random import fork_rng


def backward_in_chunks(
    head: nn.Module,
    inputs: Mapping[str, torch.Tensor],
    chunk_size: int,
    backward: Callable[[torch.Tensor], None],
    autocast: Callable[[], AbstractContextManager] = nullcontext,
    scale: float = 1.0,
) -> Any:
    """Compute the gradient of `head(**inputs).loss`, encoding `chunk_size` rows at a time.

    The views are encoded without a graph, and the loss is computed on all of them. Each chunk is then encoded
    again, with the same dropout masks, to pass the gradient of its vectors to the encoder. This takes one
    more forward pass than `head(**inputs).loss.backward()`.

    Args:
        head: a training head with `encode_views` and `losses_from_views`.
        inputs: its inputs, batch first.
        backward: called instead of `Tensor.backward`.
        autocast: makes the context in which the head runs.
        scale: factor of the loss before the backward pass.

    Returns:
        The head's output, with detached losses.
    """
    encoder_inputs = set(inspect.signature(head.encode_views).parameters)
    views_inputs = {name: value for name, value in inputs.items() if name in encoder_inputs}
    shared_inputs = encoder_inputs & set(inspect.signature(head.losses_from_views).parameters)
    loss_inputs = {
        name: value for name, value in inputs.items() if name not in encoder_inputs or name in shared_inputs
    }
    chunks = [
        {name: tensor[start : start + chunk_size] for name, tensor in views_inputs.items()}
        for start in range(0, len(next(iter(views_inputs.values()))), chunk_size)
    ]
    device = next(head.parameters()).device
    states, parts = [], []
    for chunk in chunks:
        # The random state of the CPU and of the accelerator determines the dropout masks.
        of_accelerator = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
        states.append((torch.get_rng_state(), of_accelerator))
        with torch.no_grad(), autocast():
            parts.append(head.encode_views(**chunk))
    views = {name: torch.cat([part[name] for part in parts]).requires_grad_() for name in parts[0]}
    with autocast():
        output = head.losses_from_views(views, **loss_inputs)
    backward(output.loss * scale)
    start = 0
    for chunk, (of_cpu, of_accelerator) in zip(chunks, states, strict=True):
        rows = len(next(iter(chunk.values())))
        with fork_rng(devices=[] if of_accelerator is None else [device]), autocast():
            torch.set_rng_state(of_cpu)
            if of_accelerator is not None:
                torch.cuda.set_rng_state(of_accelerator, device)
            part = head.encode_views(**chunk)
        surrogate = sum(
            (part[name] * view.grad[start : start + rows]).sum()
            for name, view in views.items()
            if view.grad is not None
        )
        if isinstance(surrogate, torch.Tensor) and surrogate.requires_grad:
            surrogate.backward()
        start += rows
    return type(output)(**{name: value.detach() for name, value in output.items()})
