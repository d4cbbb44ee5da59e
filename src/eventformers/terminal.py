"""Output of commands besides their results: one line for each error or warning, silent libraries."""

from __future__ import annotations

import errno
import logging
import os
import re
import sys
import warnings
from collections.abc import Mapping
from typing import TextIO

from eventformers.errors import SKIP_ARGUMENT, EventformersError
from eventformers.files import full_disk

PROGRESS_DELAY = "3"
"""Seconds before a progress bar appears, so that short work shows none."""

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
# Directions of text are among them, but not the marks that single letters of Arabic or Hebrew need.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_FULL_DISK = "no space left on device; free some and run the command again"


def quiet_libraries() -> None:
    """Show only this package's warnings, one line each, and progress bars of long work.

    Call this before importing the libraries, which read their settings on import. Environment variables that
    the user has set take precedence.
    """
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("DATASETS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TQDM_DELAY", PROGRESS_DELAY)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
        warnings.filterwarnings("default", category=UserWarning, module=r"eventformers(\.|$)")
        # Deprecation warnings are for developers.
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", category=FutureWarning)
        warnings.showwarning = lambda message, category, filename, lineno, file=None, line=None: print(
            f"warning: {one_line(str(message))}", file=file or sys.stderr
        )
    ours = logging.getLogger("eventformers")
    if not ours.handlers:
        handler = _StandardError()
        handler.setFormatter(_LineFormatter())
        ours.addHandler(handler)
        ours.setLevel(logging.INFO)


def describe_fault(error: BaseException) -> str | None:
    """Describe an error of the user or the system in one line; return None for a bug of this package."""
    if isinstance(error, EventformersError):
        return one_line(str(error).replace(SKIP_ARGUMENT, "--malformed skip"))
    if (cause := full_disk(error)) is not None:
        return one_line(f"{_place(cause)}{_FULL_DISK}")
    if isinstance(error, OSError) and error.errno in _SYSTEM_FAULTS:
        return one_line(f"{_place(error)}{(error.strerror or str(error)).lower()}")
    return None


def _place(error: BaseException) -> str:
    name = getattr(error, "filename", None)
    return f"{name}: " if name else ""


def visible(text: str) -> str:
    """Replace control characters by their escapes, such as `\\x1b`, so that a terminal only shows them.

    Text of data may have sequences that rename a window, hide lines or reverse the reading direction, and
    halves of surrogate pairs, which cannot be written.
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def visible_json(text: str) -> str:
    """Replace control characters in a JSON text by its own escapes; its values stay the same."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(text: str) -> str:
    """Return a message as one line of visible characters, with very long words truncated."""
    # A path or an argument can be very long.
    return visible(" ".join(word if len(word) <= 300 else f"{word[:200]}…" for word in text.split()))


class _StandardError(logging.StreamHandler[TextIO]):
    """Handler for the current standard error, which a program may redirect between commands."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


class _LineFormatter(logging.Formatter):
    """Formatter of warnings as `warning: text`, and of information as the bare text."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802, the name is the base class's
        if record.levelno <= logging.INFO:
            return visible(record.message)
        return f"{record.levelname.lower()}: {visible(record.message)}"


def counts_text(counts: Mapping[str, int]) -> str:
    """Format counts by name as text."""
    return ", ".join(f"{count:,} {_of_number(name, count)}" for name, count in counts.items()) or "none"


def _of_number(name: str, count: int) -> str:
    """Put the noun of a count into singular or plural: `malformed_row` is `malformed rows` for two."""
    words = name.split("_")
    if words[-1] in _SINGULAR and _BEHIND_NOUN.isdisjoint(words):
        # The noun of `distinct_event_texts` is the last word, that of `document_without_events` the first.
        words[-1] = _SINGULAR[words[-1]] if count == 1 else words[-1]
        return " ".join(words)
    for place, word in enumerate(words[:2]):
        noun = _SINGULAR.get(word, word)
        if noun in _PLURAL:
            words[place] = noun if count == 1 else _PLURAL[noun]
            break
    return " ".join(words)


_BEHIND_NOUN = {"below", "from", "in", "into", "of", "over", "that", "with", "without"}
_PLURAL = {
    noun: f"{noun}s"
    for noun in (
        *("actor", "chain", "document", "edge", "event", "file", "frame", "item", "kilobyte", "line", "link"),
        *("mention", "pair", "question", "region", "row", "sentence", "statement", "step", "text"),
        *("trigger", "triple", "type"),
    )
} | {"entity": "entities", "story": "stories"}
_SINGULAR = {plural: noun for noun, plural in _PLURAL.items()}
