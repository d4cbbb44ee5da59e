"""Return of freed memory to the system."""

from __future__ import annotations

import ctypes
import sys


def return_memory() -> None:
    """Return freed memory to the system.

    The C library of Linux keeps freed blocks, and later work that needs blocks of other sizes would allocate
    more memory beside them.
    """
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(0)
