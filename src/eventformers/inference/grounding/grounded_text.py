"""Results of grounding, mentions with their candidates, linked events and ancestors, and their files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, overload

import numpy as np
from scipy.special import expit

from eventformers.files import staged_folder, write_explained
from eventformers.inference.encoding.mention_files import TextMention
from eventformers.inference.grounding.knowledge_base import KnowledgeBase
from eventformers.inference.grounding.linking import LinkThreshold
from eventformers.inference.grounding.retrieve_rerank import Ranked
from eventformers.inference.report_pages import check_results_free, render_page

Relation: TypeAlias = Literal["parent", "ancestor", "below", "new"]

_BLOCK = 1_024


class CandidateEvent(NamedTuple):
    """A candidate event of a mention.

    Attributes:
        event_id: its id.
        title: its title in the language of the mention, otherwise in English, otherwise in any language.
        score: dot product of the vectors of mention and event; the cosine for a plain encoder.
        probability: probability by the cross-encoder, in [0, 1]; None without one.
        linked: True if the mention is linked to it.
    """

    event_id: str
    title: str
    score: float
    probability: float | None
    linked: bool


class Ancestor(NamedTuple):
    """An ancestor of a linked event, from the hierarchy and not from the model.

    Attributes:
        title: its title; see `CandidateEvent`.
        of: the ids of the linked events that are part of it.
    """

    event_id: str
    title: str
    of: tuple[str, ...]


@dataclass(frozen=True)
class GroundedMention:
    """A mention and its events.

    Attributes:
        candidates: the events found for it, best first.
        ancestors: the ancestors of its linked events, without linked events, from below to the roots.
        has_pool: True if any event is described in its language.
        threshold: the minimum probability, or without a reranker score, of a linked candidate; None if the
            first candidate is linked whatever its score.
    """

    mention: TextMention
    candidates: tuple[CandidateEvent, ...]
    ancestors: tuple[Ancestor, ...]
    has_pool: bool
    threshold: float | None = None

    @property
    def is_unchecked(self) -> bool:
        """True if it is linked without a threshold."""
        return self.threshold is None and bool(self.linked)

    @property
    def linked(self) -> tuple[CandidateEvent, ...]:
        """The linked events, best first; empty for NULL."""
        return tuple(candidate for candidate in self.candidates if candidate.linked)

    def to_dict(self) -> dict[str, Any]:
        """Return the mention as JSON-serialisable values."""
        start, end = self.mention.span
        return {
            "mention_id": self.mention.mention_id,
            "language": self.mention.language,
            **self.mention.text._asdict(),
            "start_char": start,
            "end_char": end,
            "linked": [{"event_id": one.event_id, "title": one.title} for one in self.linked],
            "ancestors": [{**one._asdict(), "of": list(one.of)} for one in self.ancestors],
            "null": not self.linked,
            "unchecked": self.is_unchecked,
            "threshold": self.threshold,
            "has_pool": self.has_pool,
            "candidates": [one._asdict() for one in self.candidates],
        }


class GroundedMentions(Sequence[GroundedMention]):
    """Mentions with their events, which are made on access: millions of them would not fit into memory.

    Args:
        knowledge_base: the titles and the ancestors of events.
    """

    def __init__(
        self,
        mentions: Sequence[TextMention],
        candidates: Ranked,
        event_ids: Sequence[str],
        linking: LinkThreshold,
        knowledge_base: KnowledgeBase,
    ) -> None:
        self._mentions, self._candidates, self._event_ids = mentions, candidates, event_ids
        self._linking, self._knowledge_base = linking, knowledge_base

    def __len__(self) -> int:
        return len(self._mentions)

    @overload
    def __getitem__(self, place: int) -> GroundedMention: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[GroundedMention, ...]: ...

    def __getitem__(self, place: int | slice) -> GroundedMention | tuple[GroundedMention, ...]:
        places = range(len(self))[place]
        if isinstance(places, int):
            return next(self._made(range(places, places + 1)))
        return tuple(self._made(places))

    def __iter__(self) -> Iterator[GroundedMention]:
        for start in range(0, len(self), _BLOCK):
            yield from self._made(range(start, min(start + _BLOCK, len(self))))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(own == one for own, one in zip(self, other, strict=True))

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {len(self):,}"

    def links(self) -> Iterator[tuple[list[str], dict[str, list[str]]]]:
        """Yield the links of each mention, without its texts and candidates.

        Yields:
            The ids of its linked events, best first, and of their ancestors, each with the linked events that
            are part of it.
        """
        for start in range(0, len(self), _BLOCK):
            block = range(start, min(start + _BLOCK, len(self)))
            candidates = Ranked(*(one.take(block) for one in self._candidates))
            for linked in self._linking.link(candidates, self._event_ids):
                yield linked, self._above(linked)

    def languages(self) -> Counter[str]:
        """Count the mentions of each language."""
        return Counter(mention.language for mention in self._mentions)

    def _above(self, linked: Sequence[str]) -> dict[str, list[str]]:
        above: dict[str, list[str]] = {}
        for event_id in linked:
            for ancestor in self._knowledge_base.ancestors(event_id):
                if ancestor not in linked:
                    above.setdefault(ancestor, []).append(event_id)
        return above

    def _made(self, places: range) -> Iterator[GroundedMention]:
        known, event_ids = self._knowledge_base, self._event_ids
        found, ranked = (candidates.take(places) for candidates in self._candidates)
        probabilities = expit(ranked.scores.astype(np.float64)).tolist()
        links = self._linking.link(Ranked(found, ranked), event_ids)
        for row, (place, linked) in enumerate(zip(places, links, strict=True)):
            mention = self._mentions[place]
            scores = dict(zip(found.events[row].tolist(), found.scores[row].tolist(), strict=True))
            candidates = tuple(
                CandidateEvent(
                    event_ids[event],
                    known.title(event_ids[event], mention.language),
                    scores[event],
                    probability if self._linking.with_reranker else None,
                    event_ids[event] in linked,
                )
                for event, probability in zip(ranked.events[row].tolist(), probabilities[row], strict=True)
                if event >= 0
            )
            yield GroundedMention(
                mention=mention,
                candidates=candidates,
                ancestors=tuple(
                    Ancestor(event_id, known.title(event_id, mention.language), tuple(of))
                    for event_id, of in self._above(linked).items()
                ),
                has_pool=bool(candidates),
                threshold=self._linking.value,
            )


class FoundParent(NamedTuple):
    """A part-of relation that the mentions suggest (`DiscoveredHierarchy`).

    Attributes:
        child_id: the event that would be part of the other.
        child_title: its title in the language of all candidates, otherwise that of `KnowledgeBase.text`.
        parent_id: the other event.
        parent_title: its title.
        score: share of the child's mentions that are also mentions of the parent, in (0, 1].
        shared: number of these mentions.
        known: relation of the second event to the first in the hierarchy: `parent`, `ancestor` (further up)
            or `below`; `new` if the hierarchy has none.
    """

    child_id: str
    child_title: str
    parent_id: str
    parent_title: str
    score: float
    shared: int
    known: Relation


@dataclass(frozen=True)
class Grounding:
    """Result of `ground`.

    Attributes:
        mentions: the mentions in input order, with their events.
        parents: part-of relations that the mentions suggest, best first.
        knowledge_base: the events and their hierarchy.
        settings: the models with their revisions, and the settings of search and linking.
        counts: numbers of mentions and events, and of those skipped, truncated, repaired or incomplete.
        without_pool: number of mentions, by language, whose language has no events.
        recall: share of the exact candidates that an approximate search found, by language; empty if the
            search was exact.
        note: a remark on the threshold for the reader; empty if it was given, or learned with the model.
    """

    mentions: GroundedMentions
    parents: tuple[FoundParent, ...]
    knowledge_base: KnowledgeBase = field(repr=False)
    settings: dict[str, Any]
    counts: dict[str, int]
    without_pool: dict[str, int]
    recall: dict[str, float]
    note: str = ""

    @cached_property
    def title_language(self) -> str:
        """Language of titles without a mention: that of all candidates, or the most frequent one."""
        return self.settings["candidate_language"] or self.mentions.languages().most_common(1)[0][0]

    def mentions_by_event(self) -> dict[str, list[tuple[int, bool]]]:
        """By event the place of each mention that is linked to it or to what is part of it, those that are
        linked to the event itself first; and whether a mention is."""
        return self._mentions_by_event

    @cached_property
    def _mentions_by_event(self) -> dict[str, list[tuple[int, bool]]]:
        found: dict[str, list[tuple[int, bool]]] = {}
        for place, (linked, above) in enumerate(self.mentions.links()):
            for event_id in linked:
                found.setdefault(event_id, []).append((place, True))
            for event_id in above:
                found.setdefault(event_id, []).append((place, False))
        return {event_id: sorted(places, key=lambda one: not one[1]) for event_id, places in found.items()}


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
