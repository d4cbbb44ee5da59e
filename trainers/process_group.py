"""The process group of torchrun."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from types import FunctionType

from eventformers.errors import causes


def is_main_process() -> bool:
    """Return whether this is rank 0 or the only process; also works before the group exists."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def leaving_process_group() -> Iterator[None]:
    """Leave the process group, if there is one, when a function returns or raises.

    Decorate the function whose variables hold the users of the group: models in `DistributedDataParallel`,
    trainers, losses. A `with` block inside that function would leave too early.

    The threads of a gloo group end with the last reference to it. If one of them frees a Python object while
    the interpreter shuts down, the process aborts with "terminate called without an active exception". This
    function imports no module.
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
        # A traceback keeps the variables of the failed function alive.
        traceback.clear_frames(cause.__traceback__)
    # DDP imports that module late; its defaults `group=group.WORLD` then keep the group alive.
    functional = sys.modules.get("torch.distributed.nn.functional")
    for function in vars(functional).values() if functional is not None else ():
        if isinstance(function, FunctionType) and function.__defaults__:
            function.__defaults__ = tuple(
                None if value is distributed.group.WORLD else value for value in function.__defaults__
            )
    # Wrapped models and trainers are parts of reference cycles.
    gc.collect()
    distributed.destroy_process_group()
