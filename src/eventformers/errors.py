"""Errors that a user can fix. Commands print them in one line and exit with code 2."""

from __future__ import annotations

import difflib
import reprlib
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path


class EventformersError(Exception):
    """States in one line what is wrong, what was received, what is accepted and what to do."""


SHOWN_CHARACTERS = 200
"""Maximum number of characters of a received value in a message."""


SKIP_ARGUMENT = 'malformed="skip"'
"""How a call of Python skips malformed parts of raw files; the command line names its own option."""


def shown(value: object) -> str:
    """Format a received value for a message: its `repr`, truncated to `SHOWN_CHARACTERS`.

    Args:
        value: any value; one that cannot be printed is shown by its type.
    """
    try:
        # Containers in parts: one that refers to its own parts many times would exhaust memory.
        text = repr(value) if isinstance(value, (str, bytes, int, float)) else _PARTS.repr(value)
    except (RecursionError, ValueError):
        # Integers with more digits than Python prints.
        return f"a {type(value).__name__} that cannot be printed"
    # Lone surrogates cannot be written to a terminal.
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(text) <= SHOWN_CHARACTERS:
        return text
    return f"{text[:SHOWN_CHARACTERS]}… ({len(text):,} characters)"


def counted(number: int, noun: str) -> str:
    """Format a count of things: `1 file`, `1,200 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


_PARTS = reprlib.Repr()
_PARTS.maxlevel = 4
_PARTS.maxdict = _PARTS.maxlist = _PARTS.maxtuple = _PARTS.maxset = 12
_PARTS.maxstring = _PARTS.maxother = _PARTS.maxlong = SHOWN_CHARACTERS // 2


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its cause, the cause of that and so on; each once, even if they form a cycle."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__ or cause.__context__


class DataFormatError(EventformersError):
    """A row of a raw file cannot be read.

    Args:
        line: its line, counted from 1, or its row of a Parquet file; None if the fault is in the file as a
            whole.
        way_on: what the user can do instead of fixing the file.
    """

    def __init__(
        self, path: str | Path, line: int | None, found: str, accepted: str, way_on: str = ""
    ) -> None:
        self.path, self.line, self.found, self.accepted = Path(path), line, found, accepted
        self.way_on = way_on
        where = f"{path}, {place_in(path, line)}" if line is not None else f"{path}"
        super().__init__(f"{where}: found {found}; accepted: {accepted}{way_on and f'; {way_on}'}")


def first_line(error: BaseException) -> str:
    """The first line of an error's message, without the final dot; its type if it has no message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def place_in(path: str | Path, line: int) -> str:
    """Name a place in a file: its line, or its row for a Parquet file, which has no lines."""
    return f"row {line}" if str(path).endswith(".parquet") else f"line {line}"


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Find the known name that an unknown one was most likely meant to be; None if none is close.

    Case, accents and look-alike letters of other alphabets are ignored.
    """
    plain = {_plain_name(one): one for one in sorted(known)}
    near = difflib.get_close_matches(_plain_name(name[:SHOWN_CHARACTERS]), plain, n=1, cutoff=0.4)
    return plain[near[0]] if near else None


def lookalike(name: str, known: Iterable[str]) -> str | None:
    """Find the known name that equals a name up to case, accents and look-alike letters; else None."""
    plain = _plain_name(name[:SHOWN_CHARACTERS])
    return next((one for one in known if _plain_name(one) == plain), None)


def _plain_name(name: str) -> str:
    decomposed = unicodedata.normalize("NFKD", name.casefold().strip())
    return "".join(char for char in decomposed if not unicodedata.combining(char)).translate(_LOOKALIKES)


_LOOKALIKES = str.maketrans("аеорсухіјѕԁոտ", "aeopcyxijsdnu") | str.maketrans("αειοκνρτυ", "aeiokvptu")
"""Cyrillic, Armenian and Greek lower-case letters, and the Latin letters that they look like."""

_SHOWN_NAMES = 40


class UnknownNameError(EventformersError):
    """A name that is not in a registry; the message suggests the nearest names.

    Args:
        kind: the kind of name, such as "task" or "metric".
        name: what was found, a text or not.
        others: how to get further names.
    """

    def __init__(self, kind: str, name: object, known: Iterable[str], others: str = "") -> None:
        accepted, text = sorted(known), str(name)
        typed = _plain_name(text[:SHOWN_CHARACTERS])
        begun = (one for one in accepted if typed and _plain_name(one).startswith(typed))
        nearest = nearest_name(text, accepted) or next(begun, None)
        hint = f" Did you mean {nearest!r}?" if nearest else ""
        told = ", ".join(accepted) or "none"
        if len(accepted) > _SHOWN_NAMES:
            few = difflib.get_close_matches(text, accepted, n=8, cutoff=0.0)
            told = f"{len(accepted)} names, among them {', '.join(sorted(few))}"
        super().__init__(f"unknown {kind} {shown(name)}.{hint} Accepted: {told}{others}.")
