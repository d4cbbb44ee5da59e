"""What a part of the suite tried, and how it ended."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

SECONDS_OF_A_TRY = 2.0


class HangError(BaseException):
    """A try that does not end in its time; no `Exception`, so that no handler takes it for a fault."""


@dataclass
class Tally:
    """The tries of one part.

    Attributes:
        part: what was tried.
        tries: number of tries.
        worked: how many gave a result.
        refused: how many ended in the project's own error.
        findings: what neither worked nor was refused, with the seed that repeats it.
    """

    part: str
    tries: int = 0
    worked: int = 0
    refused: int = 0
    findings: list[str] = field(default_factory=list)


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
