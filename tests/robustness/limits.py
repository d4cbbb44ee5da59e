"""How many tries each test of this folder makes, and how long one may take."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS_OF_A_TRY = 2.0


def cases(few: int) -> int:
    """Tries of one reader, command or damage: few, or `EVENTFORMERS_ROBUSTNESS_CASES`."""
    return int(os.environ.get("EVENTFORMERS_ROBUSTNESS_CASES", few))


class HangError(BaseException):
    """A try that does not end in its time; no `Exception`, so that no handler takes it for a fault."""


@contextmanager
def time_limit(seconds: float = SECONDS_OF_A_TRY, *, waiting_counts: bool = False) -> Iterator[None]:
    """Raise `HangError` in a block that takes longer; for the main thread.

    Args:
        seconds: the limit.
        waiting_counts: measure the time that passes; otherwise the processor time of the process, so that
            other work of the machine does not count.
    """
    kind, timer = (
        (signal.SIGALRM, signal.ITIMER_REAL) if waiting_counts else (signal.SIGPROF, signal.ITIMER_PROF)
    )

    def stop(number: int, frame: object) -> None:
        raise HangError(f"more than {seconds} s")

    earlier = signal.signal(kind, stop)
    signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(kind, earlier)
