"""What grounding a text gives: mentions with their candidates, linked events and ancestors; found parents."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from eventformers.inference.grounding.knowledge_base import KnowledgeBase
from eventformers.inference.grounding.mention_files import TextMention

Relation: TypeAlias = Literal["parent", "ancestor", "below", "new"]


class CandidateEvent(NamedTuple):
    """An event that was found for a mention.

    Attributes:
        event_id: its id.
        title: its title in the language of the mention, else in English, else in another.
        score: product of the vectors of mention and event; of a plain encoder their cosine.
        probability: the cross-encoder's, in [0, 1]; None without one.
        linked: whether the mention is linked to it.
    """

    event_id: str
    title: str
    score: float
    probability: float | None
    linked: bool


class Ancestor(NamedTuple):
    """An event that a linked event is part of, as the hierarchy tells and not the model.

    Attributes:
        event_id: its id.
        title: its title, as of `CandidateEvent`.
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
        candidates: the events that were found for it, best first.
        ancestors: what its linked events are part of and it is not linked to itself, from below to the roots.
        has_pool: whether any event is described in its language.
        threshold: the least probability, or without a reranker score, that a candidate needed to be linked;
            None where the first one was linked whatever its score.
    """

    mention: TextMention
    candidates: tuple[CandidateEvent, ...]
    ancestors: tuple[Ancestor, ...]
    has_pool: bool
    threshold: float | None = None

    @property
    def is_unchecked(self) -> bool:
        """Whether it is linked without a threshold that its event had to reach."""
        return self.threshold is None and bool(self.linked)

    @property
    def linked(self) -> tuple[CandidateEvent, ...]:
        """The events that it is linked to, best first; empty for NULL."""
        return tuple(candidate for candidate in self.candidates if candidate.linked)

    def to_dict(self) -> dict[str, Any]:
        """The mention as JSON can hold it."""
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
    """A part-of relation that the mentions speak for (`DiscoveredHierarchy`).

    Attributes:
        child_id: the event that would be part of the other.
        child_title: its title in the language of all candidates, else as of `KnowledgeBase.text`.
        parent_id: the other event.
        parent_title: its title.
        score: share of the child's mentions that are the parent's, too, in (0, 1].
        shared: number of these mentions.
        known: what the hierarchy says of the second event: it is a `parent` of the first, an `ancestor`
            further up, or itself `below` it; `new` where it says nothing.
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
    """What `ground` found.

    Attributes:
        mentions: the mentions in their order, with their events.
        parents: part-of relations that the mentions speak for, best first.
        knowledge_base: the events and their hierarchy.
        settings: the models with their revisions, and how was searched and linked.
        counts: numbers of mentions and events, and of what was left out, cut, mended or is missing.
        without_pool: number of mentions by language that no event is described in.
        recall: share of the exact candidates that an approximate search found, by language; empty where the
            search was exact.
        note: what the reader must know of the threshold; empty where it was given, or learned with the model.
    """

    mentions: tuple[GroundedMention, ...]
    parents: tuple[FoundParent, ...]
    knowledge_base: KnowledgeBase = field(repr=False)
    settings: dict[str, Any]
    counts: dict[str, int]
    without_pool: dict[str, int]
    recall: dict[str, float]
    note: str = ""

    @property
    def title_language(self) -> str:
        """The language of titles that belong to no mention: that of all candidates, or the most frequent."""
        languages = Counter(one.mention.language for one in self.mentions)
        return self.settings["candidate_language"] or languages.most_common(1)[0][0]

    def mentions_by_event(self) -> dict[str, list[tuple[int, bool]]]:
        """By event the place of each mention that is linked to it or to what is part of it, those that are
        linked to the event itself first; and whether a mention is."""
        found: dict[str, list[tuple[int, bool]]] = {}
        for place, one in enumerate(self.mentions):
            for event in one.linked:
                found.setdefault(event.event_id, []).append((place, True))
            for above in one.ancestors:
                found.setdefault(above.event_id, []).append((place, False))
        return {event_id: sorted(places, key=lambda one: not one[1]) for event_id, places in found.items()}
