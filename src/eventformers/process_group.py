"""Leaving the group of processes that a run of torchrun joined."""

from __future__ import annotations

import sys


def leave_process_group() -> None:
    """Destroy this process's group, if it is in one.

    An exit with an open group now and then aborts after everything was written: threads of the
    group still hold tensors while the interpreter goes away. Loads nothing that is not loaded.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()
