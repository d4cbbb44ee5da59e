"""Encoding on several devices of one machine, with one process for each device."""

from __future__ import annotations

import multiprocessing
import queue
import signal
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig

from eventformers.errors import EventformersError
from eventformers.inference.encoding.arrays import Vectors
from eventformers.inference.encoding.batches import forward_batch, out_of_memory_explained
from eventformers.inference.encoding.packed_linear import for_inference
from eventformers.loading.models import LoadedEncoder
from eventformers.models.modeling_base import EventModelOutput

START_METHOD = "spawn"
"""A forked process could not use an accelerator, and would share locks with threads that it lacks."""

_SECONDS_TO_END = 10.0
"""Time that a process has to end by itself before it is killed."""


class DeviceProcesses(nn.Module):
    """A model in several processes, with the call signature of the model.

    A call computes in a process that is free, so as many calls run in parallel as there are processes. Each
    process holds one batch at a time.

    Args:
        config: the configuration of the model.
        devices: the device of each process.
        load: loads the model; it receives `device` and must be picklable.

    Attributes:
        device: the device of the arguments and of the output.
        devices: the devices that compute.

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
        """Encode a batch in the process that is free next.

        Args:
            **tensors: the model's arguments.

        Returns:
            `EventModelOutput` with only `embeddings`.

        Raises:
            EventformersError: the process ended, or memory ran out.
        """
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
            connection.send(_encode(model, device, arrays))
    except (EOFError, BrokenPipeError):
        # The first process was killed.
        return
    except EventformersError as error:
        # As a plain error: those with further arguments cannot be unpickled.
        connection.send(EventformersError(str(error)))
    except Exception:
        connection.send(RuntimeError(traceback.format_exc()))


def _encode(model: nn.Module, device: torch.device, arrays: dict[str, Any]) -> Vectors:
    tensors = {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
    rows, tokens = tensors["input_ids"].shape
    with out_of_memory_explained(device, rows, tokens), torch.inference_mode():
        return forward_batch(model, tensors)
