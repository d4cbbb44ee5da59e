"""What a command prints besides its result: one line for a fault or a warning, no chatter of libraries."""

from __future__ import annotations

import errno
import logging
import os
import sys
import warnings
from typing import TextIO

from eventformers.errors import EventformersError
from eventformers.files import full_disk

PROGRESS_DELAY = "3"
"""Seconds after which a progress bar appears: a bar for work that is over at once only hides what matters."""

_SYSTEM_FAULTS = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EFBIG,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EIO,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.EMFILE,
}
_FULL_DISK = "no space left on device; free some and run the command again"


def quiet_libraries() -> None:
    """Keep warnings of this package, in one line each, and bars of long work; silence the rest.

    Called before the libraries are imported, which read their settings then. What the user has set in the
    environment wins.
    """
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("DATASETS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TQDM_DELAY", PROGRESS_DELAY)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
        warnings.filterwarnings("default", category=UserWarning, module=r"eventformers(\.|$)")
        # What other packages deprecate is the developer's concern.
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", category=FutureWarning)
        warnings.showwarning = _show_warning
    ours = logging.getLogger("eventformers")
    if not ours.handlers:
        handler = _StandardError()
        handler.setFormatter(_LineFormatter())
        ours.addHandler(handler)
        ours.setLevel(logging.INFO)


def describe_fault(error: BaseException) -> str | None:
    """One line for an error that the user can mend, or that the system caused; None for a fault of ours."""
    if isinstance(error, EventformersError):
        return one_line(str(error))
    if (cause := full_disk(error)) is not None:
        return one_line(f"{_place(cause)}{_FULL_DISK}")
    if isinstance(error, OSError) and error.errno in _SYSTEM_FAULTS:
        return one_line(f"{_place(error)}{(error.strerror or str(error)).lower()}")
    return None


def _place(error: BaseException) -> str:
    name = getattr(error, "filename", None)
    return f"{name}: " if name else ""


def one_line(text: str) -> str:
    """Return a message as one line, with very long words truncated."""
    # A path or an argument can be as long as the system takes.
    return " ".join(word if len(word) <= 300 else f"{word[:200]}…" for word in text.split())


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    print(f"warning: {one_line(str(message))}", file=file or sys.stderr)


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to the standard error of the moment, which a program may redirect between commands."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


class _LineFormatter(logging.Formatter):
    """`warning: text` for a warning, the bare text for what is only said."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802, the name is the base class's
        if record.levelno <= logging.INFO:
            return record.message
        return f"{record.levelname.lower()}: {record.message}"
