"""Gradients of a loss over a large batch with the memory of a small one (GradCache, Gao et al., 2021)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.random import fork_rng


def _chunks(inputs: Mapping[str, torch.Tensor], size: int) -> Iterator[dict[str, torch.Tensor]]:
    rows = len(next(iter(inputs.values())))
    for start in range(0, rows, size):
        yield {name: tensor[start : start + size] for name, tensor in inputs.items()}


class _RandomState:
    """Random state of CPU and accelerator, for repeating dropout masks."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.cpu = torch.get_rng_state()
        self.accelerator = torch.cuda.get_rng_state(device) if device.type == "cuda" else None

    def replay(self) -> AbstractContextManager[None]:
        devices = [self.device] if self.device.type == "cuda" else []
        context = fork_rng(devices=devices)
        return _Replay(context, self)


class _Replay(AbstractContextManager):
    def __init__(self, context: AbstractContextManager, state: _RandomState) -> None:
        self.context, self.state = context, state

    def __enter__(self) -> None:
        self.context.__enter__()
        torch.set_rng_state(self.state.cpu)
        if self.state.accelerator is not None:
            torch.cuda.set_rng_state(self.state.accelerator, self.state.device)

    def __exit__(self, *error: Any) -> None:
        self.context.__exit__(*error)


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
        chunk_size: number of rows in a chunk.
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
    chunks = list(_chunks(views_inputs, chunk_size))
    device = next(head.parameters()).device
    states, parts = [], []
    for chunk in chunks:
        states.append(_RandomState(device))
        with torch.no_grad(), autocast():
            parts.append(head.encode_views(**chunk))
    views = {name: torch.cat([part[name] for part in parts]).requires_grad_() for name in parts[0]}
    with autocast():
        output = head.losses_from_views(views, **loss_inputs)
    backward(output.loss * scale)
    start = 0
    for chunk, state in zip(chunks, states, strict=True):
        rows = len(next(iter(chunk.values())))
        with state.replay(), autocast():
            part = head.encode_views(**chunk)
        surrogate = sum(
            (part[name] * view.grad[start : start + rows]).sum()
            for name, view in views.items()
            if view.grad is not None
        )
        surrogate.backward()
        start += rows
    return type(output)(**{name: value.detach() for name, value in output.items()})
