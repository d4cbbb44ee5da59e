"""Reader of the narrative cloze files of Weber et al. 2018: contexts, held-out events, wrong candidates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from eventformers.datasets_scripts.events import Event
from eventformers.datasets_scripts.malformed import HeldFaults, SkippedRows
from eventformers.datasets_scripts.raw_files import checked_event, read_lines
from eventformers.errors import DataFormatError, shown

ACCEPTED_CLOZE = (
    "subject|predicate|object, or one of HOLDOUT_SEP, NEG_SEP and DOC_SEP in this order for each item"
)
_SEPARATORS = ("HOLDOUT_SEP", "NEG_SEP", "DOC_SEP")


@dataclass
class ClozeItem:
    """One item of a file.

    Args:
        item_id: stem of the file name and index of the item from 0.
        context: the events of the context.
        held_out: the event to predict.
        wrong: the wrong candidates.
        line: the last line of the item.
    """

    item_id: str
    context: list[Event] = field(default_factory=list)
    held_out: list[Event] = field(default_factory=list)
    wrong: list[Event] = field(default_factory=list)
    line: int = 0


def read_cloze_items(path: Path, skipped: SkippedRows) -> Iterator[ClozeItem]:
    """Read the items of a file in order.

    A line without its two `|` is a predicate without arguments.

    Args:
        path: the file.
        skipped: policy for malformed items; the next item begins after `DOC_SEP`.

    Raises:
        DataFormatError: a line has a wrong number of fields, or a separator is misplaced.
    """
    return skipped.parsed(_blocks(path), lambda block: _item(block, path), "item")


class _Block(NamedTuple):
    """The non-blank lines of one item, and the first line that is not text, if any."""

    number: int
    lines: list[tuple[int, str]]
    fault: DataFormatError | None


def _blocks(path: Path) -> Iterator[_Block]:
    number = 0
    lines: list[tuple[int, str]] = []
    held = HeldFaults()
    for line, text in read_lines(path, held):
        if stripped := text.strip():
            lines.append((line, stripped))
        if stripped == _SEPARATORS[-1]:
            yield _Block(number, lines, held.take())
            number, lines = number + 1, []
    if lines or held.faults:
        yield _Block(number, lines, held.take())


def _item(block: _Block, path: Path) -> ClozeItem:
    if block.fault is not None:
        raise block.fault
    item = ClozeItem(f"{path.stem}/{block.number}", line=block.lines[-1][0])
    parts = (item.context, item.held_out, item.wrong)
    part = 0
    for line, text in block.lines:
        if text in _SEPARATORS:
            if _SEPARATORS.index(text) != part:
                raise DataFormatError(path, line, f"{text} at the wrong place", ACCEPTED_CLOZE)
            part += 1
            continue
        fields = text.split("|")
        if len(fields) not in (1, 3):
            raise DataFormatError(path, line, f"{len(fields)} fields", ACCEPTED_CLOZE)
        if len(fields) == 1 and ("_" in text or text.lower().endswith("sep")):
            raise DataFormatError(path, line, f"the separator {shown(text)}", ACCEPTED_CLOZE)
        roles = ("", fields[0], "") if len(fields) == 1 else (fields[0], fields[1], fields[2])
        parts[part].append(checked_event(*roles, path, line))
    if part < len(_SEPARATORS) - 1:
        raise DataFormatError(path, item.line, "the end of the file inside an item", ACCEPTED_CLOZE)
    return item


def checked_question(item: ClozeItem, path: Path) -> ClozeItem:
    """Return the item if it is a valid question.

    Raises:
        DataFormatError: the item has no context, not exactly one held-out event, or no wrong candidate.
    """
    if not item.context:
        raise DataFormatError(path, item.line, "an item without context", "at least one event before it")
    if len(item.held_out) != 1:
        found = f"an item with {len(item.held_out)} held-out events"
        raise DataFormatError(path, item.line, found, "one event between HOLDOUT_SEP and NEG_SEP")
    if not item.wrong:
        raise DataFormatError(path, item.line, "an item with one choice", "at least one event after NEG_SEP")
    return item
