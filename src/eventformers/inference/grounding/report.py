"""Output of a grounding: tables of mentions and of parents, and an HTML report."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from eventformers.files import staged_folder, write_explained
from eventformers.inference.grounding.grounded_text import Grounding
from eventformers.inference.report_pages import check_results_free, render_page

MENTIONS_FILE = "mentions.jsonl"
PARENTS_FILE = "parents.jsonl"
SUMMARY_FILE = "grounding.json"
REPORT_FILE = "report.html"
_FILES = (MENTIONS_FILE, PARENTS_FILE, SUMMARY_FILE, REPORT_FILE)
check_free = partial(check_results_free, names=_FILES, what="a grounding")

SHOWN_MENTIONS = 500
"""Maximum number of mentions on the page; the table has all."""

SHOWN_OF_EVENT = 50
"""Maximum number of mentions of one event on the page."""

SHOWN_PARENTS = 200
"""Maximum number of found parents on the page."""

SHOWN_CONTEXT = 300
"""Maximum number of characters of a context on the page."""


class EventRow(NamedTuple):
    """A row of the tree of events.

    Attributes:
        level: 1 for a root, one more for each step down.
        repeated: True if it already occurred with its descendants, under another parent.
    """

    level: int
    event_id: str
    repeated: bool


def write_grounding(grounding: Grounding, folder: str | Path, *, overwrite: bool = False) -> list[Path]:
    """Write the files of a grounding atomically.

    `mentions.jsonl` has a line for each mention with its candidates, linked events and ancestors;
    `parents.jsonl` has a line for each relation that the mentions suggest; `grounding.json` has settings and
    counts; `report.html` needs no other file and no network.

    Args:
        folder: the output folder, created if absent.
        overwrite: replace the files of an earlier grounding.

    Raises:
        EventformersError: the folder holds a grounding and `overwrite` is off, or it cannot be written.
    """
    folder = Path(folder)
    check_free(folder, overwrite=overwrite)
    summary = {
        "settings": grounding.settings,
        "counts": grounding.counts,
        "without_pool": grounding.without_pool,
        "recall": grounding.recall,
        "note": grounding.note,
    }
    with write_explained(folder), staged_folder(folder, last=(SUMMARY_FILE,)) as staging:
        _write_lines(staging / MENTIONS_FILE, (one.to_dict() for one in grounding.mentions))
        _write_lines(staging / PARENTS_FILE, (one._asdict() for one in grounding.parents))
        text = json.dumps(summary, ensure_ascii=False, indent=2) + "\n"
        (staging / SUMMARY_FILE).write_text(text, encoding="utf-8")
        (staging / REPORT_FILE).write_text(report_page(grounding), encoding="utf-8")
    return [folder / name for name in _FILES]


def report_page(grounding: Grounding) -> str:
    """Render the page: the tree of events with their numbers of mentions, and the mentions in context."""
    known = grounding.knowledge_base
    language = grounding.title_language
    by_event = grounding.mentions_by_event()
    rows = event_tree(by_event, known.graph.parents, lambda event_id: known.title(event_id, language))
    numbers = {
        event_id: number for number, event_id in enumerate(dict.fromkeys(row.event_id for row in rows))
    }
    events = [
        {
            "number": number,
            "event_id": event_id,
            **known.text(event_id, language)._asdict(),
            "linked": sum(is_linked for _, is_linked in by_event[event_id]),
            "all": len(by_event[event_id]),
            "parents": known.graph.parents.get(event_id, []),
            "mentions": [
                (grounding.mentions[place], is_linked)
                for place, is_linked in by_event[event_id][:SHOWN_OF_EVENT]
            ],
        }
        for event_id, number in numbers.items()
    ]
    return render_page(
        Path(__file__).with_name("report.html.jinja"),
        grounding=grounding,
        rows=rows,
        events=events,
        by_id={event["event_id"]: event for event in events},
        mentions=grounding.mentions[:SHOWN_MENTIONS],
        parents=grounding.parents[:SHOWN_PARENTS],
        first_words=_first_words,
        last_words=_last_words,
    )


def event_tree(
    by_event: Mapping[str, Sequence[object]],
    parents: Mapping[str, Sequence[str]],
    title: Callable[[str], str],
) -> list[EventRow]:
    """Arrange the events with mentions as rows of a tree, by number of mentions, then by title.

    Its parts follow each event. An event with several parents occurs under each of them, and its parts only
    under the first.

    Args:
        by_event: the mentions of each event and of its parts.
        parents: the parents of each event, without cycles; all of them are in `by_event`.
    """
    order = sorted(by_event, key=lambda event_id: (-len(by_event[event_id]), title(event_id), event_id))
    children: dict[str, list[str]] = {}
    for event_id in order:
        for parent in parents.get(event_id, ()):
            children.setdefault(parent, []).append(event_id)
    rows: list[EventRow] = []
    seen: set[str] = set()
    waiting = [(1, event_id) for event_id in reversed(order) if not parents.get(event_id)]
    while waiting:
        level, event_id = waiting.pop()
        below = children.get(event_id, [])
        rows.append(EventRow(level, event_id, repeated=event_id in seen and bool(below)))
        if event_id not in seen:
            waiting.extend((level + 1, child) for child in reversed(below))
        seen.add(event_id)
    return rows


def _first_words(text: str) -> str:
    """Return the start of a text, truncated between words if it has spaces."""
    if len(text) <= SHOWN_CONTEXT:
        return text
    words, _, _ = text[:SHOWN_CONTEXT].rpartition(" ")
    return f"{words or text[:SHOWN_CONTEXT]} …"


def _last_words(text: str) -> str:
    """Return the end of a text, truncated between words if it has spaces."""
    if len(text) <= SHOWN_CONTEXT:
        return text
    _, _, words = text[-SHOWN_CONTEXT:].partition(" ")
    return f"… {words or text[-SHOWN_CONTEXT:]}"


def _write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
