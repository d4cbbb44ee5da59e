"""How many tries each test of this folder makes, how long one may take, and what an error may say."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from eventformers.errors import DataFormatError, EventformersError


def cases(few: int) -> int:
    """Tries of one reader, command or damage: few, or `EVENTFORMERS_ROBUSTNESS_CASES`."""
    return int(os.environ.get("EVENTFORMERS_ROBUSTNESS_CASES", few))


class HangError(BaseException):
    """A try that does not end in its time; no `Exception`, so that no handler takes it for a fault."""


@contextmanager
def time_limit(seconds: float, *, waiting_counts: bool = False) -> Iterator[None]:
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


def fault_of(act: Callable[[], object], seconds: float) -> str:
    """What is wrong with a call that must work or raise this package's error; empty where nothing is."""
    try:
        with time_limit(seconds):
            act()
    except EventformersError as error:
        message = str(error)
        if isinstance(error, DataFormatError) and not (error.found and error.accepted):
            return f"no reason: {error}"
        if "\n" in message or not message.isprintable() or len(message) > 3_000:
            return f"a message of {len(message)} characters that is long or no line: {message[:200]!r}"
    except BaseException as error:
        return f"{type(error).__name__}: {str(error)[:300]}"
    return ""
