"""Results of grounding: mentions with their candidates, linked events and ancestors, and found parents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias, overload

import numpy as np
from scipy.special import expit

from eventformers.inference.encoding.mention_files import TextMention
from eventformers.inference.grounding.knowledge_base import KnowledgeBase
from eventformers.inference.grounding.linking import LinkThreshold
from eventformers.inference.grounding.retrieve_rerank import Ranked

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
