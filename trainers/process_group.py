"""The group of processes that a run of torchrun joins."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType

from eventformers.errors import causes


def is_main_process() -> bool:
    """Whether this is rank 0 of a run of torchrun, or the only process; known before the group exists."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def leaving_process_group() -> Iterator[None]:
    """Leave this process's group, if it is in one, at the end of a function, whether or not it fails.

    Decorate the function whose variables hold what works in the group: models in
    `DistributedDataParallel`, trainers, losses. A `with` block inside that function would leave too early.

    The threads of a gloo group end with the last reference to it. If one of them still runs while the
    interpreter ends, and wants to free a Python object, the process aborts with "terminate called without
    an active exception". Loads nothing that is not loaded.
    """
    try:
        yield
    except BaseException as error:
        _leave(error)
        raise
    _leave()


def _leave(error: BaseException | None = None) -> None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return
    for cause in [] if error is None else causes(error):
        # The variables of a function that failed live as long as its traceback.
        traceback.clear_frames(cause.__traceback__)
    _drop_defaults(distributed)
    # Wrapped models and trainers stand in reference cycles.
    gc.collect()
    distributed.destroy_process_group()


def _drop_defaults(distributed: ModuleType) -> None:
    """Drop the group from default arguments of `torch.distributed.nn.functional`.

    DDP imports that module late, and its `group=group.WORLD` then holds the group for ever.
    """
    functional = sys.modules.get("torch.distributed.nn.functional")
    for function in vars(functional).values() if functional is not None else ():
        if isinstance(function, FunctionType) and function.__defaults__:
            function.__defaults__ = tuple(
                None if value is distributed.group.WORLD else value for value in function.__defaults__
            )
