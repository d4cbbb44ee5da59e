"""Batches of texts: which texts, in which threads and processes, and the forward pass of one."""

from __future__ import annotations

import copy
import functools
import multiprocessing
import platform
import queue
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedConfig

from eventformers.errors import EventformersError
from eventformers.inference.encoding.vectors import Positions, Vectors
from eventformers.loading.models import LoadedEncoder
from eventformers.models.modeling_base import EventModelOutput


class PackedLinear(nn.Linear):
    """A linear layer for inference that shares another layer's parameters and adds a packed copy, which later
    changes of its weight do not reach."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear.in_features, linear.out_features, bias=linear.bias is not None, device="meta")
        self.weight, self.bias = linear.weight, linear.bias
        self.packed_weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach())

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Map `(..., in_features)` to `(..., out_features)`, without gradients."""
        return torch.ops.mkldnn._linear_pointwise(input, self.packed_weight, self.bias, "none", [], "")


def for_inference(model: nn.Module, *, pack: bool) -> nn.Module:
    """Return a model in evaluation mode: the model itself, or a copy of its structure without its parameters.

    The model keeps its mode, layers and gradients, so this can be called between two training steps. Later
    changes of a packed weight do not reach the copy, so do not keep it.

    Args:
        pack: pack the weights of the linear layers where that is possible.
    """
    pack = pack and can_pack()
    if not pack and not any(module.training for module in model.modules()):
        return model
    shared = [*model.parameters(), *model.buffers()]
    duplicate = copy.deepcopy(model, {id(tensor): tensor for tensor in shared}).eval()
    if pack:
        for module in list(duplicate.modules()):
            for name, child in module.named_children():
                if (
                    type(child) is nn.Linear
                    and child.weight.device.type == "cpu"
                    and child.weight.dtype == torch.float32
                    and not (child._forward_hooks or child._forward_pre_hooks)
                ):
                    setattr(module, name, PackedLinear(child))
    return duplicate


@functools.cache
def can_pack() -> bool:
    """Return True if this PyTorch build packs linear weights on this processor and computes correctly.

    The two operators, which `torch.compile` emits, are not public, so a trial tests them.
    """
    if platform.machine().lower() not in ("x86_64", "amd64") or not torch.backends.mkldnn.is_available():
        return False
    linear = nn.Linear(16, 8, device="cpu", dtype=torch.float32)
    rows = torch.linspace(-1, 1, 48).view(3, 16)
    try:
        with torch.inference_mode():
            return bool(torch.allclose(PackedLinear(linear)(rows), linear(rows), atol=1e-5))
    except (AttributeError, RuntimeError, TypeError):
        return False


def equal_length_batches(
    lengths: Sequence[int],
    *,
    max_tokens: int | None = None,
    max_rows: int | None = None,
    fill_tokens: int = 0,
) -> list[Positions]:
    """Split texts into batches of equal length in tokens, so that nothing is padded.

    Args:
        max_tokens: maximum number of tokens in a batch; a single longer text still makes a batch.
        fill_tokens: a batch of fewer tokens, padding included, also takes shorter texts.

    Returns:
        The positions of the texts in each batch; the longest first, so that no worker starts a long batch
        when the others are done.
    """
    counts = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-counts, kind="stable")
    ordered = -counts[order]
    batches: list[Positions] = []
    start = 0
    while start < len(order):
        longest = max(1, -int(ordered[start]))
        rows = int(np.searchsorted(ordered, ordered[start], side="right")) - start
        rows = max(rows, fill_tokens // longest)
        if max_rows is not None:
            rows = min(rows, max_rows)
        if max_tokens is not None:
            rows = min(rows, max(1, max_tokens // longest))
        batches.append(order[start : start + rows])
        start += rows
    return batches


class BatchWorkers:
    """A pool of single-threaded workers that apply a function to batches in parallel.

    Threads that share one matrix product wait for each other at every layer; threads with a batch each do
    not.
    """

    def __init__(self, number: int) -> None:
        self.number, self._threads = number, torch.get_num_threads()
        self._pool = ThreadPoolExecutor(number, initializer=torch.set_num_threads, initargs=(1,))

    def __enter__(self) -> BatchWorkers:
        return self

    def __exit__(self, *exception: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        # The setting of a worker also becomes the default of later threads.
        torch.set_num_threads(self._threads)

    def run(self, function: Callable[[Positions], None], batches: Sequence[Positions]) -> None:
        """Apply the function to every batch; with fewer batches than workers, each in turn uses all
        threads."""
        if self.number == 1 or len(batches) < self.number:
            for batch in batches:
                function(batch)
        else:
            for _ in self._pool.map(function, batches):
                pass


def forward_batch(model: nn.Module, arguments: dict[str, Any]) -> Vectors:
    """Compute the vectors of a batch, `(batch, d)`, from the model's arguments."""
    return model(**arguments).embeddings.float().cpu().numpy()


@contextmanager
def out_of_memory_explained(device: torch.device, texts: int, tokens: int) -> Iterator[None]:
    """Turn an out-of-memory error into a one-line error that names the setting to lower."""
    try:
        yield
    except RuntimeError as error:
        # The allocator of main memory raises a plain RuntimeError.
        if not (isinstance(error, torch.OutOfMemoryError) or "DefaultCPUAllocator" in str(error)):
            raise
        raise EventformersError(
            f"out of memory on {device} with {texts:,} texts of {tokens} tokens; lower the batch size"
        ) from error


START_METHOD = "spawn"
"""A forked process could not use an accelerator, and would share locks with threads that it lacks."""

_SECONDS_TO_END = 10.0
"""Time that a process has to end by itself before it is killed."""


class DeviceProcesses(nn.Module):
    """A model in several processes, with the call signature of the model.

    A call computes in a process that is free, so as many calls run in parallel as there are processes. Each
    process holds one batch at a time. `device` is that of the arguments and of the output.

    Args:
        load: loads the model; it receives `device` and must be picklable.

    Raises:
        EventformersError: a process cannot load the model.
    """

    def __init__(
        self,
        config: PreTrainedConfig,
        devices: Sequence[torch.device],
        load: Callable[..., LoadedEncoder],
    ) -> None:
        super().__init__()
        self.config, self.device, self.devices = config, torch.device("cpu"), list(devices)
        threads = max(1, torch.get_num_threads() // len(devices))
        self._processes: list[_Process] = []
        self._free: queue.SimpleQueue[_Process] = queue.SimpleQueue()
        try:
            # All processes load at the same time.
            self._processes += [_Process(device, load, threads) for device in devices]
            for process in self._processes:
                process.answer()
                self._free.put(process)
        except BaseException:
            self.close()
            raise

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceProcesses:
        """Return the object itself: a process cannot be copied."""
        return self

    def forward(self, **tensors: torch.Tensor) -> EventModelOutput:
        """Encode a batch, the model's arguments, in the process that is free next; the output has only
        `embeddings`."""
        process = self._free.get()
        try:
            process.ask({name: tensor.numpy() for name, tensor in tensors.items()})
            return EventModelOutput(embeddings=torch.from_numpy(process.answer()))
        finally:
            self._free.put(process)

    def close(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.close()


class _Process:
    """A process that holds a model on one device."""

    def __init__(self, device: torch.device, load: Callable[..., LoadedEncoder], threads: int) -> None:
        self.device = device
        context: Any = multiprocessing.get_context(START_METHOD)
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, load, device, threads), daemon=True)
        self.process.start()
        # With the only other end in the process, its end closes the connection.
        theirs.close()

    def ask(self, tensors: dict[str, Any]) -> None:
        """Send a batch."""
        try:
            self.connection.send(tensors)
        except OSError:
            self._raise_ended()

    def answer(self) -> Any:
        """Receive the answer, None after loading, or raise the error that the process sent."""
        try:
            answer = self.connection.recv()
        except (EOFError, OSError):
            self._raise_ended()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """End the process."""
        with suppress(OSError):
            self.connection.send(None)
        self.connection.close()
        self.process.join(_SECONDS_TO_END)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()

    def _raise_ended(self) -> None:
        self.process.join(_SECONDS_TO_END)
        raise EventformersError(
            f"the process of the device {self.device} ended with exit code {self.process.exitcode}, possibly "
            "because memory ran out; lower the batch size or use fewer devices"
        ) from None


def _serve(
    connection: Connection, load: Callable[..., LoadedEncoder], device: torch.device, threads: int
) -> None:
    """Load a model, then encode the batches that arrive until None does."""
    # An interrupt reaches all processes; the first one ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    try:
        model = for_inference(load(device=device).model, pack=device.type == "cpu")
        connection.send(None)
        while (arrays := connection.recv()) is not None:
            tensors = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
            rows, tokens = tensors["input_ids"].shape
            with out_of_memory_explained(device, rows, tokens), torch.inference_mode():
                vectors = forward_batch(model, tensors)
            connection.send(vectors)
    except (EOFError, BrokenPipeError):
        # The first process was killed.
        return
    except EventformersError as error:
        # As a plain error: those with further arguments cannot be unpickled.
        connection.send(EventformersError(str(error)))
    except Exception:
        connection.send(RuntimeError(traceback.format_exc()))
