"""Reader of the chain files of HAQAE (Weber et al., EMNLP 2018): one chain of tuples per line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from eventformers.datasets_scripts.events import Event
from eventformers.datasets_scripts.malformed import SkippedRows
from eventformers.datasets_scripts.raw_files import checked_event, read_rows
from eventformers.errors import DataFormatError

_EVENT_SEPARATOR = "<TUP>"
_DISTRACTOR_SEPARATOR = "<DIST>"
_NO_PREPOSITION = "_NULL_"
_ACCEPTED = (
    "events of verb, subject, object and preposition (_NULL_ for none), separated by blanks, with <TUP>"
    " between events"
)


def is_tuple_line(text: str) -> bool:
    """True if a line is a chain of tuples, by its separator."""
    return _EVENT_SEPARATOR in text


def read_tuple_lines(path: Path, skipped: SkippedRows) -> Iterator[tuple[int, list[Event]]]:
    """Read the line number and the events of each chain.

    The preposition is appended to the predicate, as in `subject|predicate|object` files, and underscores
    within a role become blanks. In the files of HAQAE's inverse cloze test, wrong continuations follow a
    chain after `<DIST>`; these are skipped and counted.

    Args:
        path: the file.
        skipped: counts of skipped items, and policy for malformed rows.

    Raises:
        DataFormatError: an event has a wrong number of fields.
    """

    def parse(item: tuple[int, str]) -> tuple[int, list[Event], int]:
        line, text = item
        chain, *wrong = text.split(_DISTRACTOR_SEPARATOR)
        return line, [_event(part, path, line) for part in chain.split(_EVENT_SEPARATOR)], len(wrong)

    for line, events, wrong in skipped.parsed(read_rows(path, skipped), parse):
        if wrong:
            skipped["wrong_continuation"] += wrong
        yield line, events


def _event(text: str, path: Path, line: int) -> Event:
    fields = text.split()
    if len(fields) != 4:
        raise DataFormatError(path, line, f"an event of {len(fields)} fields", _ACCEPTED)
    verb, subject, object_ = (field.replace("_", " ") for field in fields[:3])
    preposition = "" if fields[3] == _NO_PREPOSITION else fields[3].replace("_", " ")
    return checked_event(subject, f"{verb} {preposition}", object_, path, line)
