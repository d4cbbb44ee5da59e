"""Results of grounding: mentions with their candidates, linked events and ancestors, and found parents."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from eventformers.inference.grounding.knowledge_base import KnowledgeBase
from eventformers.inference.grounding.mention_files import TextMention

if TYPE_CHECKING:
    from eventformers.inference.grounding.grounded_mentions import GroundedMentions

Relation: TypeAlias = Literal["parent", "ancestor", "below", "new"]


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
        event_id: its id.
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
        mention: the mention in its context.
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
